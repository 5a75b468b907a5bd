-- The ledger's tables as they are now, to read: the migrations beside this make exactly these, and a test sees to it.
-- A batch is rows: settling a task touches its own rows and one counter row.

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
  error            TEXT,
  round            INTEGER NOT NULL DEFAULT 1,
  rank             INTEGER,                    -- whose tasks may start; NULL: any
  tier             INTEGER NOT NULL DEFAULT 3, -- 1 critical … 5 background
  tenant           TEXT NOT NULL DEFAULT '',
  served_at        REAL NOT NULL DEFAULT 0,    -- when it last got work
  hold             TEXT,                       -- paused, budget: no task starts
  hold_reason      TEXT,
  mover            INTEGER,                    -- the member that moves it now
  phase_retries    INTEGER NOT NULL DEFAULT 0, -- failed moves since the last good one
  rests_until      REAL NOT NULL DEFAULT 0,    -- no move before
  dispatch_at      REAL NOT NULL DEFAULT 0,    -- no task starts before
  stood            TEXT,                       -- stage in which an ended batch stood
  started_at       REAL,
  budget_seconds   REAL,
  budget_tokens    INTEGER,
  budget_money     INTEGER,                    -- millionths
  refused          INTEGER NOT NULL DEFAULT 0, -- offered files that failed at the door
  passed_over      INTEGER NOT NULL DEFAULT 0, -- offered files that were skipped at the door
  hands_over_to    TEXT NOT NULL DEFAULT '',   -- the queue that is told when it is done
  owner            TEXT,                       -- of one that came over HTTP: whose key opened it
  staged           INTEGER NOT NULL DEFAULT 0, -- 1: it has a staging that must be swept
  open_tasks       INTEGER NOT NULL DEFAULT 0, -- tasks and joins that are not settled
  sources          INTEGER NOT NULL DEFAULT 0, -- what may still bring tasks: the intake, a phase being gathered
  admitted         INTEGER NOT NULL DEFAULT 0, -- files up to this number were given their first tasks
  admissible       INTEGER NOT NULL DEFAULT 0, -- files up to this number may be: their folders are listed
  waits_at         INTEGER,                    -- the next phase that waits for other documents
  gathers          INTEGER NOT NULL DEFAULT 0, -- 1: its units are being found, 2: they are given their tasks
  wants_move       INTEGER NOT NULL DEFAULT 0, -- 1: there is something for a scheduler
  plan_digest      TEXT NOT NULL DEFAULT '',   -- of a plan that flows: members with another one leave it alone
  -- A batch of the former form that goes on in this one is adopted in chunks:
  adopts_to        INTEGER,                    -- the last file that was there when that began; NULL: it is not under way
  adopts_from      INTEGER,                    -- the first task of the phase it was in
  adopts_after     INTEGER                     -- what tasks up to this one made was in the list already
);
CREATE INDEX batches_run_key ON batches (run_key);
CREATE INDEX batches_active ON batches (no) WHERE stage NOT IN ('done', 'error', 'cancelled');
CREATE INDEX batches_working ON batches (tier, served_at) WHERE stage = 'working' AND hold IS NULL;
CREATE INDEX batches_flowing ON batches (tier, served_at) WHERE stage = 'flowing' AND hold IS NULL;
CREATE INDEX batches_owned ON batches (owner) WHERE owner IS NOT NULL AND stage NOT IN ('done', 'error', 'cancelled');
CREATE INDEX batches_staged ON batches (completed_at) WHERE staged = 1 AND completed_at IS NOT NULL;
CREATE INDEX batches_kept ON batches (owner) WHERE owner IS NOT NULL AND staged = 1;

-- A batch as every query gives it.
CREATE VIEW batch_rows AS
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files, last_file,
       last_task, created_at, updated_at, completed_at, error, plan, delivered_at, round, started_at, tier,
       tenant, hold, hold_reason, phase_retries, rests_until, budget_seconds, budget_tokens, budget_money,
       served_at, mover, next_task, rank, dispatch_at, refused, passed_over, hands_over_to, open_tasks, sources,
       admitted, admissible, waits_at, gathers, adopts_to
FROM batches;

-- What arrived, by path: taken into the store, or refused or skipped with a reason.
CREATE TABLE uploads (
  batch_no     INTEGER NOT NULL,
  path         TEXT NOT NULL,
  state        TEXT NOT NULL,                  -- awaited, taken, failed, skipped
  size         INTEGER NOT NULL DEFAULT 0,
  stamp        TEXT NOT NULL DEFAULT '',       -- the source's fingerprint (size and time), or the announcement's name, to see changes
  key          TEXT NOT NULL DEFAULT '',
  digest       TEXT NOT NULL DEFAULT '',
  content_type TEXT NOT NULL DEFAULT '',
  error_class  TEXT NOT NULL DEFAULT '',
  reason       TEXT NOT NULL DEFAULT '',
  cid          TEXT,
  config       TEXT NOT NULL DEFAULT '{}',
  upload_id    TEXT NOT NULL DEFAULT '',       -- of an upload in parts
  taken_at     REAL,
  source_file  TEXT,
  tags         TEXT NOT NULL DEFAULT '[]',
  folder       TEXT NOT NULL DEFAULT '',       -- of those over HTTP; never empty there
  PRIMARY KEY (batch_no, path)
) WITHOUT ROWID;
CREATE INDEX uploads_failed ON uploads (batch_no, path) WHERE state = 'failed';
CREATE INDEX uploads_folders ON uploads (batch_no, folder, path) WHERE folder <> '';
CREATE INDEX uploads_awaited ON uploads (batch_no, path) WHERE state = 'awaited';

-- What a sender said of its batch, and how much of it has arrived: counted by each statement that changes a file.
CREATE TABLE submissions (
  batch_no        INTEGER PRIMARY KEY,
  session_id      TEXT NOT NULL,
  uploader        TEXT NOT NULL,
  root_path       TEXT NOT NULL,
  parent_pi       TEXT NOT NULL,
  file_count      INTEGER NOT NULL,           -- as announced at the opening
  total_size      INTEGER NOT NULL,
  metadata        TEXT NOT NULL,              -- JSON
  custom_prompts  TEXT NOT NULL,              -- JSON
  owner           TEXT NOT NULL,
  idempotency_key TEXT,
  fingerprint     TEXT NOT NULL,
  files_announced INTEGER NOT NULL DEFAULT 0,
  files_taken     INTEGER NOT NULL DEFAULT 0,
  bytes_taken     INTEGER NOT NULL DEFAULT 0,
  revision        INTEGER NOT NULL DEFAULT 0, -- grows with every change of a file
  active_at       REAL NOT NULL,
  finalized_at    REAL,
  swept_at        REAL,
  bytes_announced INTEGER NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX submissions_key ON submissions (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX submissions_idle ON submissions (active_at) WHERE finalized_at IS NULL AND swept_at IS NULL;

-- The evolving file list with its history: a file is in the list from phase `born` until phase `gone`.
CREATE TABLE files (
  batch_no     INTEGER NOT NULL,
  file_no      INTEGER NOT NULL,
  root_no      INTEGER NOT NULL,               -- the input file it descends from; inputs are their own
  born         INTEGER NOT NULL,               -- phase that made it; 0 for inputs
  gone         INTEGER,                        -- phase that replaced or removed it; 0: a later round withdrew it
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
  parent_no    INTEGER,                        -- the file or unit whose task made it
  round        INTEGER NOT NULL DEFAULT 1,     -- the last round that was about it
  enters       INTEGER NOT NULL DEFAULT 0,     -- first phase of that round that sees it
  open         INTEGER NOT NULL DEFAULT 0,     -- inputs only: further documents of it that are on their way
  lineage      TEXT NOT NULL DEFAULT '',       -- which step made it of what, for each generation
  failed_at    TEXT,                           -- inputs only: the place of the failure that is told
  PRIMARY KEY (batch_no, file_no)
) WITHOUT ROWID;
CREATE INDEX files_folded ON files (batch_no, folded);
CREATE INDEX files_made ON files (batch_no, root_no) WHERE born > 0;
CREATE INDEX files_again ON files (batch_no, round, file_no) WHERE round > 1;
CREATE INDEX files_failed ON files (batch_no, path) WHERE outcome = 'failed';
CREATE INDEX files_parent ON files (batch_no, parent_no) WHERE parent_no IS NOT NULL;
CREATE INDEX files_units ON files (batch_no, born, round, file_no) WHERE role = 'unit';
CREATE INDEX files_unit_paths ON files (batch_no, folded) WHERE role = 'unit';

-- Which files belong to a unit (a directory, the batch).
CREATE TABLE members (
  batch_no INTEGER NOT NULL,
  unit_no  INTEGER NOT NULL,
  file_no  INTEGER NOT NULL,
  PRIMARY KEY (batch_no, unit_no, file_no)
) WITHOUT ROWID;
CREATE INDEX members_file ON members (batch_no, file_no);

-- A phase is walked once in each round; its tasks have the numbers from `first_task` on.
CREATE TABLE rounds (
  batch_no   INTEGER NOT NULL,
  round      INTEGER NOT NULL,
  phase      INTEGER NOT NULL,
  name       TEXT NOT NULL,
  first_task INTEGER NOT NULL,
  total      INTEGER NOT NULL DEFAULT 0,
  done       INTEGER NOT NULL DEFAULT 0,
  failed     INTEGER NOT NULL DEFAULT 0,
  cached     INTEGER NOT NULL DEFAULT 0,
  rank_left  INTEGER NOT NULL DEFAULT 0,  -- tasks of the present rank that are not settled
  seconds    REAL NOT NULL DEFAULT 0,
  bytes_in   INTEGER NOT NULL DEFAULT 0,
  bytes_out  INTEGER NOT NULL DEFAULT 0,
  tokens_in  INTEGER NOT NULL DEFAULT 0,
  tokens_out INTEGER NOT NULL DEFAULT 0,
  money      INTEGER NOT NULL DEFAULT 0,  -- millionths
  next_task  INTEGER NOT NULL DEFAULT 1,  -- of a phase that flows: the next number to claim
  last_task  INTEGER NOT NULL DEFAULT 0,  -- and the last one that was given
  dispatch_at REAL NOT NULL DEFAULT 0,    -- no task of it starts before
  PRIMARY KEY (batch_no, round, phase)
) WITHOUT ROWID;

CREATE TABLE ranks (
  batch_no INTEGER NOT NULL,
  round    INTEGER NOT NULL,
  phase    INTEGER NOT NULL,
  rank     INTEGER NOT NULL,
  total    INTEGER NOT NULL,
  PRIMARY KEY (batch_no, round, phase, rank)
) WITHOUT ROWID;

-- The last attempt of a task lives in its row alone; `attempts` has those before it.
CREATE TABLE tasks (
  batch_no      INTEGER NOT NULL,
  task_no       INTEGER NOT NULL,
  phase         INTEGER NOT NULL,
  file_no       INTEGER NOT NULL,
  state         TEXT NOT NULL DEFAULT 'ready',
  attempt       INTEGER NOT NULL DEFAULT 0,
  failures      INTEGER NOT NULL DEFAULT 0,    -- attempts that ended by the task's own fault
  interruptions INTEGER NOT NULL DEFAULT 0,    -- attempts that ended because their process stopped
  cached        INTEGER NOT NULL DEFAULT 0,    -- 1: the result came from the step cache, nothing ran
  started_at    REAL,
  due_at        REAL,
  result        BLOB,
  error_class   TEXT,
  error         TEXT,
  round         INTEGER NOT NULL DEFAULT 1,
  rank          INTEGER,                       -- NULL: the phase has no ranks
  member        INTEGER,                       -- whose the running attempt is
  outcome       TEXT,
  worker        TEXT,
  seconds       REAL,
  cost          BLOB,
  branch        INTEGER NOT NULL DEFAULT 0,    -- which of the phase's steps
  tries         INTEGER NOT NULL DEFAULT 0,    -- tries of its document in earlier phases
  given         BLOB,                          -- values of earlier steps
  waits_for     INTEGER NOT NULL DEFAULT 0,    -- tasks of the folders right below that are not settled
  blocks        INTEGER,                       -- the task of the folder above
  PRIMARY KEY (batch_no, task_no)
) WITHOUT ROWID;
CREATE INDEX tasks_waiting ON tasks (batch_no, due_at) WHERE state = 'waiting';
CREATE INDEX tasks_failed ON tasks (batch_no, task_no) WHERE state = 'failed';
CREATE INDEX tasks_of_file ON tasks (batch_no, file_no);
CREATE INDEX tasks_ranked ON tasks (batch_no, rank, task_no) WHERE state = 'ready' AND rank IS NOT NULL;
CREATE INDEX tasks_running ON tasks (member, batch_no, task_no) WHERE state = 'running';
CREATE INDEX tasks_external ON tasks (batch_no, due_at) WHERE state = 'external';

-- Steps side by side on one document: their effects are applied once, when all have settled.
CREATE TABLE joins (
  batch_no INTEGER NOT NULL,
  phase    INTEGER NOT NULL,
  file_no  INTEGER NOT NULL,
  left     INTEGER NOT NULL,                   -- branches that are not settled
  resolved INTEGER NOT NULL DEFAULT 0,         -- 1: the effects are applied
  PRIMARY KEY (batch_no, phase, file_no)
) WITHOUT ROWID;
CREATE INDEX joins_open ON joins (batch_no, left, phase) WHERE resolved = 0;

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
  cost        BLOB,
  PRIMARY KEY (batch_no, task_no, attempt)
) WITHOUT ROWID;

-- Failed tasks by error class: so that showing a batch counts no rows.
CREATE TABLE failures (
  batch_no    INTEGER NOT NULL,
  error_class TEXT NOT NULL,
  tasks       INTEGER NOT NULL,
  PRIMARY KEY (batch_no, error_class)
) WITHOUT ROWID;

-- Reports that changed nothing: duplicate, late or of an attempt that never was.
CREATE TABLE strays (
  no          INTEGER PRIMARY KEY,
  batch_no    INTEGER NOT NULL,
  task_no     INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  outcome     TEXT NOT NULL,
  worker      TEXT NOT NULL,
  received_at REAL NOT NULL,
  kind        TEXT NOT NULL DEFAULT 'late'
);
CREATE INDEX strays_batch ON strays (batch_no, no);

CREATE TABLE step_cache (
  key     TEXT PRIMARY KEY,
  result  BLOB NOT NULL,
  made_at REAL NOT NULL
) WITHOUT ROWID;

CREATE TABLE outbox (
  no         INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: it may be struck out late
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

CREATE TABLE crew (
  no          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: an attempt names its member by it
  name        TEXT NOT NULL,
  kind        TEXT NOT NULL,
  place       TEXT NOT NULL,
  beat        INTEGER NOT NULL DEFAULT 0,
  enlisted_at REAL NOT NULL,
  beat_at     REAL NOT NULL,
  format      INTEGER                             -- NULL: of a version that knows no batches that flow
);

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
