-- Priorities, who has a message, what came of each delivery, dead letters in their order, counters.

ALTER TABLE messages ADD COLUMN priority INTEGER NOT NULL DEFAULT 3;
ALTER TABLE messages ADD COLUMN worker TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN error_class TEXT NOT NULL DEFAULT '';
ALTER TABLE messages ADD COLUMN buried_no INTEGER;
ALTER TABLE messages RENAME COLUMN errors TO trials;

-- An entry said only when and why. The last one of a dead letter is its burial.
UPDATE messages SET trials = (
  SELECT json_group_array(json_set(
    one.value, '$.ending',
    iif(state = 'dead' AND one.key = json_array_length(trials) - 1, 'buried', 'released')))
  FROM json_each(trials) AS one
) WHERE state <> 'acknowledged' AND trials <> '[]';
UPDATE messages SET trials = '[]' WHERE state = 'acknowledged';

CREATE TABLE burials (last INTEGER NOT NULL);
UPDATE messages SET buried_no = ranked.place
FROM (SELECT no, row_number() OVER (ORDER BY ended_at, no) AS place FROM messages WHERE state = 'dead') AS ranked
WHERE messages.no = ranked.no;
INSERT INTO burials SELECT coalesce(max(buried_no), 0) FROM messages;

CREATE TABLE happenings (
  queue   TEXT NOT NULL,
  minute  INTEGER NOT NULL,
  what    TEXT NOT NULL,
  number  INTEGER NOT NULL,
  PRIMARY KEY (queue, minute, what)
) WITHOUT ROWID;

DROP INDEX messages_due;
CREATE INDEX messages_due ON messages (queue, priority, due_at, no, token, sent_at, state) WHERE state = 'waiting';
CREATE INDEX messages_dead ON messages (queue, buried_no) WHERE state = 'dead';
CREATE INDEX messages_ended ON messages (ended_at) WHERE state = 'acknowledged';
