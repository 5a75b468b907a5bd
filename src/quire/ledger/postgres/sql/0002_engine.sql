-- Rounds, ranks, units, priorities, holds, costs, and who is at work.

ALTER TABLE batches
  ADD COLUMN round          bigint NOT NULL DEFAULT 1,
  ADD COLUMN rank           bigint,                              -- whose tasks may start; NULL: any
  ADD COLUMN tier           bigint NOT NULL DEFAULT 3,           -- 1 critical … 5 background
  ADD COLUMN tenant         text NOT NULL DEFAULT '',
  ADD COLUMN served_at      double precision NOT NULL DEFAULT 0, -- when it last got work
  ADD COLUMN hold           text,                                -- paused, budget: no task starts
  ADD COLUMN hold_reason    text,
  ADD COLUMN mover          bigint,                              -- the crew member who moves it now
  ADD COLUMN phase_retries  bigint NOT NULL DEFAULT 0,           -- failed moves since the last good one
  ADD COLUMN rests_until    double precision NOT NULL DEFAULT 0, -- no move before
  ADD COLUMN dispatch_at    double precision NOT NULL DEFAULT 0, -- no task starts before
  ADD COLUMN stood          text,                                -- stage in which an ended batch stood
  ADD COLUMN started_at     double precision,
  ADD COLUMN budget_seconds double precision,
  ADD COLUMN budget_tokens  bigint,
  ADD COLUMN budget_money   bigint,                              -- millionths
  ADD COLUMN refused        bigint NOT NULL DEFAULT 0,           -- offered files that failed at the door
  ADD COLUMN passed_over    bigint NOT NULL DEFAULT 0;           -- offered files that were skipped at the door
UPDATE batches SET refused = door.refused, passed_over = door.passed_over
FROM (SELECT batch_no, count(*) FILTER (WHERE state = 'failed') AS refused,
             count(*) FILTER (WHERE state = 'skipped') AS passed_over
      FROM uploads WHERE state <> 'taken' GROUP BY batch_no) door
WHERE no = door.batch_no AND stage <> 'open';
CREATE INDEX batches_working ON batches (tier, served_at) WHERE stage = 'working' AND hold IS NULL;

ALTER TABLE files
  ADD COLUMN parent_no bigint,                    -- the file or unit whose task made it
  ADD COLUMN round     bigint NOT NULL DEFAULT 1, -- the last round that was about it
  ADD COLUMN enters    bigint NOT NULL DEFAULT 0; -- first phase of that round that sees it
UPDATE files SET parent_no = root_no WHERE born > 0;
CREATE INDEX files_again ON files (batch_no, round, file_no) WHERE round > 1;
CREATE INDEX files_failed ON files (batch_no, path) WHERE outcome = 'failed';
CREATE INDEX uploads_failed ON uploads (batch_no, path) WHERE state = 'failed';

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
  PRIMARY KEY (batch_no, round, phase)
);
INSERT INTO rounds (batch_no, round, phase, name, first_task, total, done, failed, cached)
SELECT batch_no, 1, phase, name,
       1 + (SELECT coalesce(sum(total), 0) FROM phases b WHERE b.batch_no = p.batch_no AND b.phase < p.phase),
       total, done, failed, cached
FROM phases p;
DROP TABLE phases;

CREATE TABLE ranks (
  batch_no bigint NOT NULL,
  round    bigint NOT NULL,
  phase    bigint NOT NULL,
  rank     bigint NOT NULL,
  total    bigint NOT NULL,
  PRIMARY KEY (batch_no, round, phase, rank)
);

-- The last attempt of a task lives in its row alone; `attempts` has those before it.
ALTER TABLE tasks
  ADD COLUMN round   bigint NOT NULL DEFAULT 1,
  ADD COLUMN rank    bigint,            -- NULL: the phase has no ranks
  ADD COLUMN member  bigint,            -- whose the running attempt is
  ADD COLUMN outcome text,
  ADD COLUMN worker  text,
  ADD COLUMN seconds double precision,
  ADD COLUMN cost    bytea;
CREATE INDEX tasks_failed ON tasks (batch_no, task_no) WHERE state = 'failed';
CREATE INDEX tasks_of_file ON tasks (batch_no, file_no);
CREATE INDEX tasks_ranked ON tasks (batch_no, rank, task_no) WHERE state = 'ready' AND rank IS NOT NULL;
CREATE INDEX tasks_running ON tasks (member, batch_no, task_no) WHERE state = 'running';
ALTER TABLE attempts ADD COLUMN cost bytea;

-- Attempts that were out belong to nobody here; and whatever waits rings, from now on, by an alarm.
UPDATE tasks SET state = 'waiting', due_at = 0, interruptions = interruptions + 1, outcome = 'interrupted',
                 error_class = 'interrupted', error = 'quire stopped while this attempt was running'
WHERE state = 'running';
INSERT INTO alarms (batch_no, due_at)
SELECT batch_no, min(due_at) FROM tasks WHERE state = 'waiting' GROUP BY batch_no
ON CONFLICT (batch_no) DO UPDATE SET due_at = excluded.due_at;
DELETE FROM alarms WHERE batch_no IN (SELECT no FROM batches WHERE stage IN ('done', 'error', 'cancelled'));
-- A phase whose tasks are all settled was ended when somebody asked; now nobody asks.
UPDATE batches SET stage = 'transforming', cursor = 0
WHERE stage = 'working' AND EXISTS (SELECT 1 FROM rounds r WHERE r.batch_no = batches.no AND r.phase = batches.phase
                                    AND r.done + r.failed = r.total);
UPDATE batches SET started_at = (SELECT min(at) FROM events e WHERE e.batch_no = batches.no AND e.type = 'batch_started');

-- Failed tasks by error class: so that showing a batch counts no rows.
CREATE TABLE failures (
  batch_no    bigint NOT NULL,
  error_class text NOT NULL,
  tasks       bigint NOT NULL,
  PRIMARY KEY (batch_no, error_class)
);
INSERT INTO failures
SELECT batch_no, coalesce(error_class, ''), count(*) FROM tasks WHERE state = 'failed' GROUP BY 1, 2;

ALTER TABLE strays ADD COLUMN kind text NOT NULL DEFAULT 'late';
CREATE INDEX strays_batch ON strays (batch_no, no);

CREATE TABLE crew (
  no          bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,  -- never given twice: an attempt names its member by it
  name        text NOT NULL,
  kind        text NOT NULL,
  place       text NOT NULL,
  beat        bigint NOT NULL DEFAULT 0,
  enlisted_at double precision NOT NULL,
  beat_at     double precision NOT NULL
);

-- A batch as every query gives it.
CREATE VIEW batch_rows AS
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files, last_file,
       last_task, created_at, updated_at, completed_at, error, plan, delivered_at, round, started_at, tier,
       tenant, hold, hold_reason, phase_retries, rests_until, budget_seconds, budget_tokens, budget_money,
       served_at, mover, next_task, rank, dispatch_at, refused, passed_over
FROM batches;
