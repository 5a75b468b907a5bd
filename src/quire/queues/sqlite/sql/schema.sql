-- The queues' tables as they are now, to read: the migrations beside this make exactly these, and a test sees to it.

CREATE TABLE messages (
  no          INTEGER PRIMARY KEY,
  queue       TEXT NOT NULL,
  id          TEXT NOT NULL,
  body        BLOB NOT NULL,
  state       TEXT NOT NULL DEFAULT 'waiting',  -- waiting (also while leased), acknowledged (or discarded), dead
  due_at      REAL NOT NULL,                    -- when it may be delivered: also the end of its lease
  token       TEXT,                             -- of the present lease, or of one that ran out
  deliveries  INTEGER NOT NULL DEFAULT 0,
  sent_at     REAL NOT NULL,
  ended_at    REAL,
  trials      TEXT NOT NULL DEFAULT '[]',       -- the history: a JSON object for each delivery in vain
  priority    INTEGER NOT NULL DEFAULT 3,       -- 1 (first) to 5
  worker      TEXT NOT NULL DEFAULT '',         -- who has the lease
  error_class TEXT NOT NULL DEFAULT '',         -- of a dead letter
  buried_no   INTEGER,                          -- of a dead letter: the order of burial
  checksum    INTEGER,                          -- of what was sent (queues/checksums.py); -1: sent without one
  UNIQUE (queue, id)
);
-- Read once for each priority, up to now: delayed and leased messages come after that and are never skipped over.
-- Token, time of sending and state are in it so that what waits is counted without reading the rows.
CREATE INDEX messages_due ON messages (queue, priority, due_at, no, token, sent_at, state) WHERE state = 'waiting';
CREATE INDEX messages_dead ON messages (queue, buried_no) WHERE state = 'dead';
CREATE INDEX messages_ended ON messages (ended_at) WHERE state = 'acknowledged';

-- The number of the last dead letter. It never comes twice, so that who reads on after a number misses none.
CREATE TABLE burials (last INTEGER NOT NULL);
INSERT INTO burials VALUES (0);

-- How often what happened in which minute; minute -1 is everything before the last hour.
CREATE TABLE happenings (
  queue   TEXT NOT NULL,
  minute  INTEGER NOT NULL,
  what    TEXT NOT NULL,
  number  INTEGER NOT NULL,
  PRIMARY KEY (queue, minute, what)
) WITHOUT ROWID;
