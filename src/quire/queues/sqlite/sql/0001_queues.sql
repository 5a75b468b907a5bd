-- Messages of all queues. Acknowledged ones stay as a short memory of their id, without body.

CREATE TABLE messages (
  no          INTEGER PRIMARY KEY,
  queue       TEXT NOT NULL,
  id          TEXT NOT NULL,
  body        BLOB NOT NULL,
  state       TEXT NOT NULL DEFAULT 'waiting',  -- waiting (also while leased), acknowledged, dead
  due_at      REAL NOT NULL,                    -- when it may be delivered: also the end of its lease
  token       TEXT,                             -- of the present lease
  deliveries  INTEGER NOT NULL DEFAULT 0,
  sent_at     REAL NOT NULL,
  ended_at    REAL,
  errors      TEXT NOT NULL DEFAULT '[]',       -- one entry per release or burial
  UNIQUE (queue, id)
);
CREATE INDEX messages_due ON messages (queue, due_at) WHERE state = 'waiting';
