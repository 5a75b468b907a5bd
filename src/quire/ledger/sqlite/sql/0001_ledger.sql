-- The ledger's tables. A batch is rows: settling a task touches its own rows and one counter row.

CREATE TABLE batches (
  no               INTEGER PRIMARY KEY,
  id               TEXT NOT NULL UNIQUE,
  run_key          TEXT,                       -- who submits again with the same key resumes
  pipeline         TEXT NOT NULL,
  pipeline_version INTEGER NOT NULL,
  plan             TEXT NOT NULL,              -- the pipeline as it was at submission, JSON
  stage            TEXT NOT NULL,
  phase            INTEGER NOT NULL DEFAULT 0,
  cursor           INTEGER NOT NULL DEFAULT 0,
  status           TEXT NOT NULL,              -- what people see: a phase's name, DONE, ERROR …
  message          TEXT,                       -- the queue message, untouched
  manifest_key     TEXT,
  total_files      INTEGER NOT NULL DEFAULT 0,
  last_file        INTEGER NOT NULL DEFAULT 0,
  last_task        INTEGER NOT NULL DEFAULT 0,
  next_task        INTEGER NOT NULL DEFAULT 1, -- tasks below it have been claimed at least once
  created_at       REAL NOT NULL,
  updated_at       REAL NOT NULL,
  completed_at     REAL,
  delivered_at     REAL,                       -- when its results were laid out for the one who asked
  error            TEXT
);
CREATE INDEX batches_run_key ON batches (run_key);
CREATE INDEX batches_active ON batches (no) WHERE stage NOT IN ('done', 'error', 'cancelled');

-- What arrived, by path: taken into the store, or refused or skipped with a reason.
CREATE TABLE uploads (
  batch_no     INTEGER NOT NULL,
  path         TEXT NOT NULL,
  state        TEXT NOT NULL,                  -- taken, failed, skipped
  size         INTEGER NOT NULL DEFAULT 0,
  stamp        TEXT NOT NULL DEFAULT '',       -- the source's fingerprint (size and time), to see changes
  key          TEXT NOT NULL DEFAULT '',
  digest       TEXT NOT NULL DEFAULT '',
  content_type TEXT NOT NULL DEFAULT '',
  error_class  TEXT NOT NULL DEFAULT '',
  reason       TEXT NOT NULL DEFAULT '',
  PRIMARY KEY (batch_no, path)
) WITHOUT ROWID;

-- The evolving file list with its history: a file is in the list from phase `born` until phase `gone`.
CREATE TABLE files (
  batch_no     INTEGER NOT NULL,
  file_no      INTEGER NOT NULL,
  root_no      INTEGER NOT NULL,               -- the input file it descends from; inputs are their own
  born         INTEGER NOT NULL,               -- phase that made it; 0 for inputs
  gone         INTEGER,                        -- phase that replaced or removed it
  listed       INTEGER NOT NULL DEFAULT 1,     -- 0: an asset beside the list
  role         TEXT NOT NULL DEFAULT '',
  path         TEXT NOT NULL,
  folded       TEXT NOT NULL,                  -- path without case, to find names that collide
  name         TEXT NOT NULL,
  key          TEXT NOT NULL,
  size         INTEGER NOT NULL,
  content_type TEXT NOT NULL,
  digest       TEXT NOT NULL DEFAULT '',
  cid          TEXT,
  source_file  TEXT,
  tags         TEXT NOT NULL DEFAULT '[]',
  config       TEXT NOT NULL DEFAULT '{}',
  outcome      TEXT,                           -- inputs only: done, failed, skipped
  attempts     INTEGER NOT NULL DEFAULT 0,     -- inputs only: tries of all tasks on it and its descendants
  error_class  TEXT,
  reason       TEXT,
  PRIMARY KEY (batch_no, file_no)
) WITHOUT ROWID;
CREATE INDEX files_folded ON files (batch_no, folded);
CREATE INDEX files_made ON files (batch_no, root_no) WHERE born > 0;

CREATE TABLE phases (
  batch_no INTEGER NOT NULL,
  phase    INTEGER NOT NULL,
  name     TEXT NOT NULL,
  total    INTEGER NOT NULL DEFAULT 0,
  done     INTEGER NOT NULL DEFAULT 0,
  failed   INTEGER NOT NULL DEFAULT 0,
  cached   INTEGER NOT NULL DEFAULT 0,
  PRIMARY KEY (batch_no, phase)
) WITHOUT ROWID;

-- The current attempt lives in its task's row; `attempts` is the history, written when one ends.
CREATE TABLE tasks (
  batch_no      INTEGER NOT NULL,
  task_no       INTEGER NOT NULL,
  phase         INTEGER NOT NULL,
  file_no       INTEGER NOT NULL,
  state         TEXT NOT NULL DEFAULT 'ready',
  attempt       INTEGER NOT NULL DEFAULT 0,
  failures      INTEGER NOT NULL DEFAULT 0,    -- attempts that ended by the task's own fault
  interruptions INTEGER NOT NULL DEFAULT 0,    -- attempts that ended because the house stopped
  cached        INTEGER NOT NULL DEFAULT 0,    -- 1: the result came from the step cache, nothing ran
  started_at    REAL,
  due_at        REAL,
  result        BLOB,
  error_class   TEXT,
  error         TEXT,
  PRIMARY KEY (batch_no, task_no)
) WITHOUT ROWID;
CREATE INDEX tasks_waiting ON tasks (batch_no, due_at) WHERE state = 'waiting';

CREATE TABLE attempts (
  batch_no    INTEGER NOT NULL,
  task_no     INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  outcome     TEXT NOT NULL,
  worker      TEXT NOT NULL,
  started_at  REAL NOT NULL,
  seconds     REAL NOT NULL,
  error_class TEXT,
  error       TEXT,
  PRIMARY KEY (batch_no, task_no, attempt)
) WITHOUT ROWID;

-- Reports that changed nothing: duplicate, late or of an attempt that never was.
CREATE TABLE strays (
  no          INTEGER PRIMARY KEY,
  batch_no    INTEGER NOT NULL,
  task_no     INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  outcome     TEXT NOT NULL,
  worker      TEXT NOT NULL,
  received_at REAL NOT NULL
);

CREATE TABLE step_cache (
  key     TEXT PRIMARY KEY,
  result  BLOB NOT NULL,
  made_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE outbox (
  no         INTEGER PRIMARY KEY,
  queue      TEXT NOT NULL,
  message_id TEXT NOT NULL,
  body       BLOB NOT NULL,
  created_at REAL NOT NULL
);

CREATE TABLE alarms (
  batch_no INTEGER PRIMARY KEY,
  due_at   REAL NOT NULL
);

CREATE TABLE events (
  no       INTEGER PRIMARY KEY,
  batch_no INTEGER NOT NULL,
  at       REAL NOT NULL,
  type     TEXT NOT NULL,
  data     TEXT NOT NULL
);
CREATE INDEX events_batch ON events (batch_no, no);
