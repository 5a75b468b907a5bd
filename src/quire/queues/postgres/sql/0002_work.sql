-- Priorities, who has a message, what came of each delivery, dead letters in their order, counters.

ALTER TABLE messages
  ADD COLUMN priority smallint NOT NULL DEFAULT 3,
  ADD COLUMN worker text NOT NULL DEFAULT '',
  ADD COLUMN error_class text NOT NULL DEFAULT '',
  ADD COLUMN buried_no bigint;
ALTER TABLE messages RENAME COLUMN errors TO trials;

-- An entry said only when and why. The last one of a dead letter is its burial.
UPDATE messages SET trials = ARRAY(
  SELECT left(one.entry, -1) || ', "ending": "'
    || CASE WHEN state = 'dead' AND one.place = cardinality(trials) THEN 'buried' ELSE 'released' END || '"}'
  FROM unnest(trials) WITH ORDINALITY AS one (entry, place) ORDER BY one.place
) WHERE state <> 'acknowledged' AND trials <> '{}';
UPDATE messages SET trials = '{}' WHERE state = 'acknowledged' AND trials <> '{}';

CREATE SEQUENCE messages_buried_no OWNED BY messages.buried_no;
UPDATE messages SET buried_no = ranked.place
FROM (SELECT no, row_number() OVER (ORDER BY ended_at, no) AS place FROM messages WHERE state = 'dead') AS ranked
WHERE messages.no = ranked.no;
SELECT setval('messages_buried_no', max(buried_no)) FROM messages HAVING max(buried_no) IS NOT NULL;

CREATE TABLE happenings (
  queue    text NOT NULL,
  minute   bigint NOT NULL,
  what     text NOT NULL,
  backend  bigint NOT NULL,
  number   bigint NOT NULL,
  PRIMARY KEY (queue, minute, what, backend)
);

DROP INDEX messages_due;
CREATE INDEX messages_due ON messages (queue, priority, due_at, no) WHERE state = 'waiting';
DROP INDEX messages_dead;
CREATE INDEX messages_dead ON messages (queue, buried_no) WHERE state = 'dead';
CREATE INDEX messages_ended ON messages (ended_at) WHERE state = 'acknowledged';
