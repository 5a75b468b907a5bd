-- The ledger's tables. A batch is rows: settling a task touches its own rows and one counter row.
-- Paths are compared by bytes (COLLATE "C"), whatever the database's language: pages of them follow it.
-- JSON is text: it comes back as it was written, and may hold what jsonb refuses.

CREATE TABLE batches (
  no               bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id               text NOT NULL UNIQUE,
  run_key          text,                       -- who submits again with the same key resumes
  pipeline         text NOT NULL,
  pipeline_version bigint NOT NULL,
  plan             text NOT NULL,              -- the pipeline as it was at submission, JSON
  stage            text NOT NULL,
  phase            bigint NOT NULL DEFAULT 0,
  cursor           bigint NOT NULL DEFAULT 0,
  status           text NOT NULL,              -- what people see: a phase's name, DONE, ERROR …
  message          text,                       -- the queue message, untouched
  manifest_key     text,
  total_files      bigint NOT NULL DEFAULT 0,
  last_file        bigint NOT NULL DEFAULT 0,
  last_task        bigint NOT NULL DEFAULT 0,
  next_task        bigint NOT NULL DEFAULT 1,  -- tasks below it have been claimed at least once
  created_at       double precision NOT NULL,
  updated_at       double precision NOT NULL,
  completed_at     double precision,
  delivered_at     double precision,           -- when its results were laid out for the one who asked
  error            text
);
CREATE INDEX batches_run_key ON batches (run_key, no);
CREATE INDEX batches_active ON batches (no) WHERE stage NOT IN ('done', 'error', 'cancelled');

-- What arrived, by path: taken into the store, or refused or skipped with a reason.
CREATE TABLE uploads (
  batch_no     bigint NOT NULL,
  path         text COLLATE "C" NOT NULL,
  state        text NOT NULL,                  -- taken, failed, skipped
  size         bigint NOT NULL DEFAULT 0,
  stamp        text NOT NULL DEFAULT '',       -- the source's fingerprint (size and time), to see changes
  key          text NOT NULL DEFAULT '',
  digest       text NOT NULL DEFAULT '',
  content_type text NOT NULL DEFAULT '',
  error_class  text NOT NULL DEFAULT '',
  reason       text NOT NULL DEFAULT '',
  PRIMARY KEY (batch_no, path)
);

-- The evolving file list with its history: a file is in the list from phase `born` until phase `gone`.
CREATE TABLE files (
  batch_no     bigint NOT NULL,
  file_no      bigint NOT NULL,
  root_no      bigint NOT NULL,                -- the input file it descends from; inputs are their own
  born         bigint NOT NULL,                -- phase that made it; 0 for inputs
  gone         bigint,                         -- phase that replaced or removed it
  listed       boolean NOT NULL DEFAULT true,  -- false: an asset beside the list
  role         text NOT NULL DEFAULT '',
  path         text COLLATE "C" NOT NULL,
  folded       text COLLATE "C" NOT NULL,      -- path without case, to find names that collide
  name         text NOT NULL,
  key          text NOT NULL,
  size         bigint NOT NULL,
  content_type text NOT NULL,
  digest       text NOT NULL DEFAULT '',
  cid          text,
  source_file  text,
  tags         text NOT NULL DEFAULT '[]',
  config       text NOT NULL DEFAULT '{}',
  outcome      text,                           -- inputs only: done, failed, skipped
  attempts     bigint NOT NULL DEFAULT 0,      -- inputs only: tries of all tasks on it and its descendants
  error_class  text,
  reason       text,
  PRIMARY KEY (batch_no, file_no)
);
CREATE INDEX files_folded ON files (batch_no, folded);
CREATE INDEX files_made ON files (batch_no, root_no) WHERE born > 0;

CREATE TABLE phases (
  batch_no bigint NOT NULL,
  phase    bigint NOT NULL,
  name     text NOT NULL,
  total    bigint NOT NULL DEFAULT 0,
  done     bigint NOT NULL DEFAULT 0,
  failed   bigint NOT NULL DEFAULT 0,
  cached   bigint NOT NULL DEFAULT 0,
  PRIMARY KEY (batch_no, phase)
);

-- The current attempt lives in its task's row; `attempts` is the history, written when one ends.
CREATE TABLE tasks (
  batch_no      bigint NOT NULL,
  task_no       bigint NOT NULL,
  phase         bigint NOT NULL,
  file_no       bigint NOT NULL,
  state         text NOT NULL DEFAULT 'ready',
  attempt       bigint NOT NULL DEFAULT 0,
  failures      bigint NOT NULL DEFAULT 0,     -- attempts that ended by the task's own fault
  interruptions bigint NOT NULL DEFAULT 0,     -- attempts that ended because the house stopped
  cached        boolean NOT NULL DEFAULT false, -- the result came from the step cache, nothing ran
  started_at    double precision,
  due_at        double precision,
  result        bytea,
  error_class   text,
  error         text,
  PRIMARY KEY (batch_no, task_no)
);
CREATE INDEX tasks_waiting ON tasks (batch_no, due_at, task_no) WHERE state = 'waiting';

CREATE TABLE attempts (
  batch_no    bigint NOT NULL,
  task_no     bigint NOT NULL,
  attempt     bigint NOT NULL,
  outcome     text NOT NULL,
  worker      text NOT NULL,
  started_at  double precision NOT NULL,
  seconds     double precision NOT NULL,
  error_class text,
  error       text,
  PRIMARY KEY (batch_no, task_no, attempt)
);

-- Reports that changed nothing: duplicate, late or of an attempt that never was.
CREATE TABLE strays (
  no          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  batch_no    bigint NOT NULL,
  task_no     bigint NOT NULL,
  attempt     bigint NOT NULL,
  outcome     text NOT NULL,
  worker      text NOT NULL,
  received_at double precision NOT NULL
);

CREATE TABLE step_cache (
  key     text COLLATE "C" PRIMARY KEY,
  result  bytea NOT NULL,
  made_at double precision NOT NULL
);

CREATE TABLE outbox (
  no         bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  queue      text NOT NULL,
  message_id text NOT NULL,
  body       bytea NOT NULL,
  created_at double precision NOT NULL
);

CREATE TABLE alarms (
  batch_no bigint PRIMARY KEY,
  due_at   double precision NOT NULL
);

CREATE TABLE events (
  no       bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  batch_no bigint NOT NULL,
  at       double precision NOT NULL,
  type     text NOT NULL,
  data     text NOT NULL
);
CREATE INDEX events_batch ON events (batch_no, no);
