-- The ledger's tables as they are now, to read: the migrations beside this make exactly these, and a test sees to it.
-- A batch is rows: settling a task touches its own rows and one counter row.
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
  error            text,
  round            bigint NOT NULL DEFAULT 1,
  rank             bigint,                     -- whose tasks may start; NULL: any
  tier             bigint NOT NULL DEFAULT 3,  -- 1 critical … 5 background
  tenant           text NOT NULL DEFAULT '',
  served_at        double precision NOT NULL DEFAULT 0, -- when it last got work
  hold             text,                       -- paused, budget: no task starts
  hold_reason      text,
  mover            bigint,                     -- the member that moves it now
  phase_retries    bigint NOT NULL DEFAULT 0,  -- failed moves since the last good one
  rests_until      double precision NOT NULL DEFAULT 0, -- no move before
  dispatch_at      double precision NOT NULL DEFAULT 0, -- no task starts before
  stood            text,                       -- stage in which an ended batch stood
  started_at       double precision,
  budget_seconds   double precision,
  budget_tokens    bigint,
  budget_money     bigint,                     -- millionths
  refused          bigint NOT NULL DEFAULT 0,  -- offered files that failed at the door
  passed_over      bigint NOT NULL DEFAULT 0,  -- offered files that were skipped at the door
  hands_over_to    text NOT NULL DEFAULT '',   -- the queue that is told when it is done
  owner            text,                       -- of one that came over HTTP: whose key opened it
  staged           boolean NOT NULL DEFAULT false, -- it has a staging that must be swept
  open_tasks       bigint NOT NULL DEFAULT 0,      -- tasks and joins that are not settled
  sources          bigint NOT NULL DEFAULT 0,      -- what may still bring tasks: the intake, a phase being gathered
  admitted         bigint NOT NULL DEFAULT 0,      -- files up to this number were given their first tasks
  admissible       bigint NOT NULL DEFAULT 0,      -- files up to this number may be: their folders are listed
  waits_at         bigint,                         -- the next phase that waits for other documents
  gathers          bigint NOT NULL DEFAULT 0,      -- 1: its units are being found, 2: they are given their tasks
  wants_move       boolean NOT NULL DEFAULT false, -- there is something for a scheduler
  plan_digest      text NOT NULL DEFAULT '',       -- of a plan that flows: members with another one leave it alone
  -- A batch of the former form that goes on in this one is adopted in chunks:
  adopts_to        bigint,                         -- the last file that was there when that began; NULL: it is not under way
  adopts_from      bigint,                         -- the first task of the phase it was in
  adopts_after     bigint                          -- what tasks up to this one made was in the list already
);
CREATE INDEX batches_run_key ON batches (run_key, no);
CREATE INDEX batches_active ON batches (no) WHERE stage NOT IN ('done', 'error', 'cancelled');
CREATE INDEX batches_working ON batches (tier, served_at) WHERE stage = 'working' AND hold IS NULL;
CREATE INDEX batches_flowing ON batches (tier, served_at) WHERE stage = 'flowing' AND hold IS NULL;
CREATE INDEX batches_owned ON batches (owner) WHERE owner IS NOT NULL AND stage NOT IN ('done', 'error', 'cancelled');
CREATE INDEX batches_staged ON batches (completed_at, no) WHERE staged AND completed_at IS NOT NULL;
CREATE INDEX batches_kept ON batches (owner) WHERE owner IS NOT NULL AND staged;

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
  batch_no     bigint NOT NULL,
  path         text COLLATE "C" NOT NULL,
  state        text NOT NULL,                  -- awaited, taken, failed, skipped
  size         bigint NOT NULL DEFAULT 0,
  stamp        text NOT NULL DEFAULT '',       -- the source's fingerprint (size and time), or the announcement's name, to see changes
  key          text NOT NULL DEFAULT '',
  digest       text NOT NULL DEFAULT '',
  content_type text NOT NULL DEFAULT '',
  error_class  text NOT NULL DEFAULT '',
  reason       text NOT NULL DEFAULT '',
  cid          text,
  config       text NOT NULL DEFAULT '{}',
  upload_id    text NOT NULL DEFAULT '',       -- of an upload in parts
  taken_at     double precision,
  source_file  text,
  tags         text NOT NULL DEFAULT '[]',
  folder       text COLLATE "C" NOT NULL DEFAULT '', -- of those over HTTP; never empty there
  PRIMARY KEY (batch_no, path)
);
CREATE INDEX uploads_failed ON uploads (batch_no, path) WHERE state = 'failed';
CREATE INDEX uploads_folders ON uploads (batch_no, folder, path) WHERE folder <> '';
CREATE INDEX uploads_awaited ON uploads (batch_no, path) WHERE state = 'awaited';

-- What a sender said of its batch, and how much of it has arrived: counted by each statement that changes a file.
CREATE TABLE submissions (
  batch_no        bigint PRIMARY KEY,
  session_id      text NOT NULL,
  uploader        text NOT NULL,
  root_path       text NOT NULL,
  parent_pi       text NOT NULL,
  file_count      bigint NOT NULL,           -- as announced at the opening
  total_size      bigint NOT NULL,
  metadata        text NOT NULL,             -- JSON
  custom_prompts  text NOT NULL,             -- JSON
  owner           text NOT NULL,
  idempotency_key text,
  fingerprint     text NOT NULL,
  files_announced bigint NOT NULL DEFAULT 0,
  files_taken     bigint NOT NULL DEFAULT 0,
  bytes_taken     bigint NOT NULL DEFAULT 0,
  revision        bigint NOT NULL DEFAULT 0, -- grows with every change of a file
  active_at       double precision NOT NULL,
  finalized_at    double precision,
  swept_at        double precision,
  bytes_announced bigint NOT NULL DEFAULT 0
);
CREATE UNIQUE INDEX submissions_key ON submissions (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX submissions_idle ON submissions (active_at, batch_no) WHERE finalized_at IS NULL AND swept_at IS NULL;

-- The evolving file list with its history: a file is in the list from phase `born` until phase `gone`.
CREATE TABLE files (
  batch_no     bigint NOT NULL,
  file_no      bigint NOT NULL,
  root_no      bigint NOT NULL,                -- the input file it descends from; inputs are their own
  born         bigint NOT NULL,                -- phase that made it; 0 for inputs
  gone         bigint,                         -- phase that replaced or removed it; 0: a later round withdrew it
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
  parent_no    bigint,                         -- the file or unit whose task made it
  round        bigint NOT NULL DEFAULT 1,      -- the last round that was about it
  enters       bigint NOT NULL DEFAULT 0,      -- first phase of that round that sees it
  open         bigint NOT NULL DEFAULT 0,      -- inputs only: further documents of it that are on their way
  lineage      text NOT NULL DEFAULT '',       -- which step made it of what, for each generation
  failed_at    text COLLATE "C",               -- inputs only: the place of the failure that is told
  PRIMARY KEY (batch_no, file_no)
);
CREATE INDEX files_folded ON files (batch_no, folded);
CREATE INDEX files_made ON files (batch_no, root_no) WHERE born > 0;
CREATE INDEX files_again ON files (batch_no, round, file_no) WHERE round > 1;
CREATE INDEX files_failed ON files (batch_no, path) WHERE outcome = 'failed';

-- Which files belong to a unit (a directory, the batch).
CREATE TABLE members (
  batch_no bigint NOT NULL,
  unit_no  bigint NOT NULL,
  file_no  bigint NOT NULL,
  PRIMARY KEY (batch_no, unit_no, file_no)
);
CREATE INDEX members_file ON members (batch_no, file_no);

-- A phase is walked once in each round; its tasks have the numbers from `first_task` on.
CREATE TABLE rounds (
  batch_no   bigint NOT NULL,
  round      bigint NOT NULL,
  phase      bigint NOT NULL,
  name       text NOT NULL,
  first_task bigint NOT NULL,
  total      bigint NOT NULL DEFAULT 0,
  done       bigint NOT NULL DEFAULT 0,
  failed     bigint NOT NULL DEFAULT 0,
  cached     bigint NOT NULL DEFAULT 0,
  rank_left  bigint NOT NULL DEFAULT 0,  -- tasks of the present rank that are not settled
  seconds    double precision NOT NULL DEFAULT 0,
  bytes_in   bigint NOT NULL DEFAULT 0,
  bytes_out  bigint NOT NULL DEFAULT 0,
  tokens_in  bigint NOT NULL DEFAULT 0,
  tokens_out bigint NOT NULL DEFAULT 0,
  money      bigint NOT NULL DEFAULT 0,  -- millionths
  next_task  bigint NOT NULL DEFAULT 1,  -- of a phase that flows: the next number to claim
  last_task  bigint NOT NULL DEFAULT 0,  -- and the last one that was given
  dispatch_at double precision NOT NULL DEFAULT 0, -- no task of it starts before
  PRIMARY KEY (batch_no, round, phase)
);

CREATE TABLE ranks (
  batch_no bigint NOT NULL,
  round    bigint NOT NULL,
  phase    bigint NOT NULL,
  rank     bigint NOT NULL,
  total    bigint NOT NULL,
  PRIMARY KEY (batch_no, round, phase, rank)
);

-- The last attempt of a task lives in its row alone; `attempts` has those before it.
CREATE TABLE tasks (
  batch_no      bigint NOT NULL,
  task_no       bigint NOT NULL,
  phase         bigint NOT NULL,
  file_no       bigint NOT NULL,
  state         text NOT NULL DEFAULT 'ready',
  attempt       bigint NOT NULL DEFAULT 0,
  failures      bigint NOT NULL DEFAULT 0,     -- attempts that ended by the task's own fault
  interruptions bigint NOT NULL DEFAULT 0,     -- attempts that ended because their process stopped
  cached        boolean NOT NULL DEFAULT false, -- the result came from the step cache, nothing ran
  started_at    double precision,
  due_at        double precision,
  result        bytea,
  error_class   text,
  error         text,
  round         bigint NOT NULL DEFAULT 1,
  rank          bigint,                        -- NULL: the phase has no ranks
  member        bigint,                        -- whose the running attempt is
  outcome       text,
  worker        text,
  seconds       double precision,
  cost          bytea,
  branch        bigint NOT NULL DEFAULT 0,     -- which of the phase's steps
  tries         bigint NOT NULL DEFAULT 0,     -- tries of its document in earlier phases
  given         bytea,                         -- values of earlier steps
  waits_for     bigint NOT NULL DEFAULT 0,     -- tasks of the folders right below that are not settled
  blocks        bigint,                        -- the task of the folder above
  PRIMARY KEY (batch_no, task_no)
) WITH (fillfactor = 50);
CREATE INDEX tasks_due ON tasks (batch_no, due_at, task_no) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_failed ON tasks (batch_no, task_no) WHERE error_class IS NOT NULL;
CREATE INDEX tasks_of_file ON tasks (batch_no, file_no);
CREATE INDEX tasks_ranked ON tasks (batch_no, rank, task_no) WHERE rank IS NOT NULL;

-- Steps side by side on one document: their effects are applied once, when all have settled.
CREATE TABLE joins (
  batch_no bigint NOT NULL,
  phase    bigint NOT NULL,
  file_no  bigint NOT NULL,
  "left"   bigint NOT NULL,                    -- branches that are not settled
  resolved boolean NOT NULL DEFAULT false,     -- the effects are applied
  PRIMARY KEY (batch_no, phase, file_no)
);
CREATE INDEX joins_open ON joins (batch_no, "left", phase) WHERE NOT resolved;

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
  cost        bytea,
  PRIMARY KEY (batch_no, task_no, attempt)
);

-- Failed tasks by error class: so that showing a batch counts no rows.
CREATE TABLE failures (
  batch_no    bigint NOT NULL,
  error_class text NOT NULL,
  tasks       bigint NOT NULL,
  PRIMARY KEY (batch_no, error_class)
);

-- Reports that changed nothing: duplicate, late or of an attempt that never was.
CREATE TABLE strays (
  no          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  batch_no    bigint NOT NULL,
  task_no     bigint NOT NULL,
  attempt     bigint NOT NULL,
  outcome     text NOT NULL,
  worker      text NOT NULL,
  received_at double precision NOT NULL,
  kind        text NOT NULL DEFAULT 'late'
);
CREATE INDEX strays_batch ON strays (batch_no, no);

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

CREATE TABLE crew (
  no          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- never given twice: an attempt names its member by it
  name        text NOT NULL,
  kind        text NOT NULL,
  place       text NOT NULL,
  beat        bigint NOT NULL DEFAULT 0,
  enlisted_at double precision NOT NULL,
  beat_at     double precision NOT NULL,
  format      bigint                                            -- NULL: of a version that knows no batches that flow
);

-- Of a key only its hash is kept.
CREATE TABLE api_keys (
  no                  bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id                  text NOT NULL UNIQUE,
  label               text NOT NULL,
  hint                text NOT NULL,              -- how the key begins, for people to tell them apart
  hash                text NOT NULL UNIQUE,
  scope               text NOT NULL,
  tenant              text NOT NULL,
  created_at          double precision NOT NULL,
  expires_at          double precision,
  revoked_at          double precision,
  last_used_at        double precision,
  requests_per_minute bigint NOT NULL,            -- 0 is no limit, as of the following
  max_batches         bigint NOT NULL,
  max_bytes           bigint NOT NULL
);

CREATE TABLE hooks (
  no              bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id              text NOT NULL UNIQUE,
  batch_no        bigint,                         -- NULL: of all batches
  url             text NOT NULL,
  secret          text NOT NULL,
  kinds           text[] NOT NULL,                -- empty is every kind
  created_at      double precision NOT NULL,
  disabled_at     double precision,
  disabled_reason text NOT NULL DEFAULT ''
);
-- Asked for every event of every batch.
CREATE INDEX hooks_batch ON hooks (batch_no, disabled_at);

-- One event on its way to one hook.
CREATE TABLE deliveries (
  no            bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id            text NOT NULL UNIQUE,
  hook_no       bigint NOT NULL,
  batch_no      bigint NOT NULL,
  event_no      bigint NOT NULL,
  state         text NOT NULL DEFAULT 'waiting',  -- waiting, delivered, failed
  tries         bigint NOT NULL DEFAULT 0,
  next_at       double precision,                 -- of one that is being sent: the end of its lease
  last_status   bigint,
  last_error    text NOT NULL DEFAULT '',
  last_tried_at double precision,
  created_at    double precision NOT NULL
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
FROM deliveries d JOIN hooks h ON h.no = d.hook_no JOIN batches b ON b.no = d.batch_no
                  JOIN events e ON e.no = d.event_no;
