-- Who may come in, who wants to be told, and what is on its way to them.

-- Of a key only its hash is kept.
CREATE TABLE api_keys (
  no                  INTEGER PRIMARY KEY,
  id                  TEXT NOT NULL UNIQUE,
  label               TEXT NOT NULL,
  hint                TEXT NOT NULL,              -- how the key begins, for people to tell them apart
  hash                TEXT NOT NULL UNIQUE,
  scope               TEXT NOT NULL,
  tenant              TEXT NOT NULL,
  created_at          REAL NOT NULL,
  expires_at          REAL,
  revoked_at          REAL,
  last_used_at        REAL,
  requests_per_minute INTEGER NOT NULL,           -- 0 is no limit, as of the following
  max_batches         INTEGER NOT NULL,
  max_bytes           INTEGER NOT NULL
);

CREATE TABLE hooks (
  no              INTEGER PRIMARY KEY,
  id              TEXT NOT NULL UNIQUE,
  batch_no        INTEGER,                        -- NULL: of all batches
  url             TEXT NOT NULL,
  secret          TEXT NOT NULL,
  kinds           TEXT NOT NULL,                  -- JSON; [] is every kind
  created_at      REAL NOT NULL,
  disabled_at     REAL,
  disabled_reason TEXT NOT NULL DEFAULT ''
);
-- Asked for every event of every batch.
CREATE INDEX hooks_batch ON hooks (batch_no, disabled_at);

-- One event on its way to one hook.
CREATE TABLE deliveries (
  no            INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: a try may be told late
  id            TEXT NOT NULL UNIQUE,
  hook_no       INTEGER NOT NULL,
  batch_no      INTEGER NOT NULL,
  event_no      INTEGER NOT NULL,
  state         TEXT NOT NULL DEFAULT 'waiting',    -- waiting, delivered, failed
  tries         INTEGER NOT NULL DEFAULT 0,
  next_at       REAL,                               -- of one that is being sent: the end of its lease
  last_status   INTEGER,
  last_error    TEXT NOT NULL DEFAULT '',
  last_tried_at REAL,
  created_at    REAL NOT NULL
);
CREATE INDEX deliveries_due ON deliveries (next_at, no) WHERE state = 'waiting';
CREATE INDEX deliveries_hook ON deliveries (hook_no, no);
CREATE INDEX deliveries_batch ON deliveries (batch_no, no);

CREATE VIEW hook_rows AS
SELECT h.id, h.url, h.secret, coalesce(b.id, '') AS batch_id, h.kinds, h.created_at, h.disabled_at,
       h.disabled_reason, h.no, h.batch_no
FROM hooks h LEFT JOIN batches b ON b.no = h.batch_no;

CREATE VIEW delivery_rows AS
SELECT d.no, d.id, h.id AS hook_id, b.id AS batch_id, d.event_no, e.type AS kind, e.at AS happened_at, e.data,
       d.state, d.tries, d.next_at, d.last_status, d.last_error, d.last_tried_at, d.created_at, d.hook_no, d.batch_no
FROM deliveries d CROSS JOIN hooks h ON h.no = d.hook_no CROSS JOIN batches b ON b.no = d.batch_no
                  CROSS JOIN events e ON e.no = d.event_no;
