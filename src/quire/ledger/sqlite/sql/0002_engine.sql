-- Rounds, ranks, units, priorities, holds, costs, and who is at work.

ALTER TABLE batches ADD COLUMN round          INTEGER NOT NULL DEFAULT 1;
ALTER TABLE batches ADD COLUMN rank           INTEGER;                    -- whose tasks may start; NULL: any
ALTER TABLE batches ADD COLUMN tier           INTEGER NOT NULL DEFAULT 3; -- 1 critical … 5 background
ALTER TABLE batches ADD COLUMN tenant         TEXT NOT NULL DEFAULT '';
ALTER TABLE batches ADD COLUMN served_at      REAL NOT NULL DEFAULT 0;    -- when it last got work
ALTER TABLE batches ADD COLUMN hold           TEXT;                       -- paused, budget: no task starts
ALTER TABLE batches ADD COLUMN hold_reason    TEXT;
ALTER TABLE batches ADD COLUMN mover          INTEGER;                    -- the crew member who moves it now
ALTER TABLE batches ADD COLUMN phase_retries  INTEGER NOT NULL DEFAULT 0; -- failed moves since the last good one
ALTER TABLE batches ADD COLUMN rests_until    REAL NOT NULL DEFAULT 0;    -- no move before
ALTER TABLE batches ADD COLUMN dispatch_at    REAL NOT NULL DEFAULT 0;    -- no task starts before
ALTER TABLE batches ADD COLUMN stood          TEXT;                       -- stage in which an ended batch stood
ALTER TABLE batches ADD COLUMN started_at     REAL;
ALTER TABLE batches ADD COLUMN budget_seconds REAL;
ALTER TABLE batches ADD COLUMN budget_tokens  INTEGER;
ALTER TABLE batches ADD COLUMN budget_money   INTEGER;                    -- millionths
ALTER TABLE batches ADD COLUMN refused        INTEGER NOT NULL DEFAULT 0; -- offered files that failed at the door
ALTER TABLE batches ADD COLUMN passed_over    INTEGER NOT NULL DEFAULT 0; -- offered files that were skipped at the door
UPDATE batches SET refused = door.refused, passed_over = door.passed_over
FROM (SELECT batch_no, sum(state = 'failed') AS refused, sum(state = 'skipped') AS passed_over
      FROM uploads WHERE state <> 'taken' GROUP BY batch_no) door
WHERE no = door.batch_no AND stage <> 'open';
CREATE INDEX batches_working ON batches (tier, served_at) WHERE stage = 'working' AND hold IS NULL;

ALTER TABLE files ADD COLUMN parent_no INTEGER;                    -- the file or unit whose task made it
ALTER TABLE files ADD COLUMN round     INTEGER NOT NULL DEFAULT 1; -- the last round that was about it
ALTER TABLE files ADD COLUMN enters    INTEGER NOT NULL DEFAULT 0; -- first phase of that round that sees it
UPDATE files SET parent_no = root_no WHERE born > 0;
CREATE INDEX files_again ON files (batch_no, round, file_no) WHERE round > 1;
CREATE INDEX files_failed ON files (batch_no, path) WHERE outcome = 'failed';
CREATE INDEX files_parent ON files (batch_no, parent_no) WHERE parent_no IS NOT NULL;
CREATE INDEX files_units ON files (batch_no, born, round, file_no) WHERE role = 'unit';
CREATE INDEX files_unit_paths ON files (batch_no, folded) WHERE role = 'unit';
CREATE INDEX uploads_failed ON uploads (batch_no, path) WHERE state = 'failed';

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
  PRIMARY KEY (batch_no, round, phase)
) WITHOUT ROWID;
INSERT INTO rounds (batch_no, round, phase, name, first_task, total, done, failed, cached)
SELECT batch_no, 1, phase, name,
       1 + (SELECT coalesce(sum(total), 0) FROM phases b WHERE b.batch_no = p.batch_no AND b.phase < p.phase),
       total, done, failed, cached
FROM phases p;
DROP TABLE phases;

CREATE TABLE ranks (
  batch_no INTEGER NOT NULL,
  round    INTEGER NOT NULL,
  phase    INTEGER NOT NULL,
  rank     INTEGER NOT NULL,
  total    INTEGER NOT NULL,
  PRIMARY KEY (batch_no, round, phase, rank)
) WITHOUT ROWID;

-- The last attempt of a task lives in its row alone; `attempts` has those before it.
ALTER TABLE tasks ADD COLUMN round   INTEGER NOT NULL DEFAULT 1;
ALTER TABLE tasks ADD COLUMN rank    INTEGER;                   -- NULL: the phase has no ranks
ALTER TABLE tasks ADD COLUMN member  INTEGER;                   -- whose the running attempt is
ALTER TABLE tasks ADD COLUMN outcome TEXT;
ALTER TABLE tasks ADD COLUMN worker  TEXT;
ALTER TABLE tasks ADD COLUMN seconds REAL;
ALTER TABLE tasks ADD COLUMN cost    BLOB;
CREATE INDEX tasks_failed ON tasks (batch_no, task_no) WHERE state = 'failed';
CREATE INDEX tasks_of_file ON tasks (batch_no, file_no);
CREATE INDEX tasks_ranked ON tasks (batch_no, rank, task_no) WHERE state = 'ready' AND rank IS NOT NULL;
CREATE INDEX tasks_running ON tasks (member, batch_no, task_no) WHERE state = 'running';
ALTER TABLE attempts ADD COLUMN cost BLOB;

-- Attempts that were out belong to nobody here; and whatever waits rings, from now on, by an alarm.
UPDATE tasks SET state = 'waiting', due_at = 0, interruptions = interruptions + 1, outcome = 'interrupted',
                 error_class = 'interrupted', error = 'quire stopped while this attempt was running'
WHERE state = 'running';
INSERT OR REPLACE INTO alarms (batch_no, due_at)
SELECT batch_no, min(due_at) FROM tasks WHERE state = 'waiting' GROUP BY batch_no;
DELETE FROM alarms WHERE batch_no IN (SELECT no FROM batches WHERE stage IN ('done', 'error', 'cancelled'));
-- A phase whose tasks are all settled was ended when somebody asked; now nobody asks.
UPDATE batches SET stage = 'transforming', cursor = 0
WHERE stage = 'working' AND EXISTS (SELECT 1 FROM rounds r WHERE r.batch_no = batches.no AND r.phase = batches.phase
                                    AND r.done + r.failed = r.total);
UPDATE batches SET started_at = (SELECT min(at) FROM events e WHERE e.batch_no = batches.no AND e.type = 'batch_started');

-- Failed tasks by error class: so that showing a batch counts no rows.
CREATE TABLE failures (
  batch_no    INTEGER NOT NULL,
  error_class TEXT NOT NULL,
  tasks       INTEGER NOT NULL,
  PRIMARY KEY (batch_no, error_class)
) WITHOUT ROWID;
INSERT INTO failures
SELECT batch_no, coalesce(error_class, ''), count(*) FROM tasks WHERE state = 'failed' GROUP BY 1, 2;

ALTER TABLE strays ADD COLUMN kind TEXT NOT NULL DEFAULT 'late';
CREATE INDEX strays_batch ON strays (batch_no, no);

CREATE TABLE crew (
  no          INTEGER PRIMARY KEY AUTOINCREMENT,  -- never given twice: an attempt names its member by it
  name        TEXT NOT NULL,
  kind        TEXT NOT NULL,
  place       TEXT NOT NULL,
  beat        INTEGER NOT NULL DEFAULT 0,
  enlisted_at REAL NOT NULL,
  beat_at     REAL NOT NULL
);

-- A number is never given twice: whoever is late to say that a letter is sent must not strike out another one.
CREATE TABLE letters (
  no         INTEGER PRIMARY KEY AUTOINCREMENT,
  queue      TEXT NOT NULL,
  message_id TEXT NOT NULL,
  body       BLOB NOT NULL,
  created_at REAL NOT NULL
);
INSERT INTO letters SELECT no, queue, message_id, body, created_at FROM outbox;
DROP TABLE outbox;
ALTER TABLE letters RENAME TO outbox;

-- A batch as every query gives it.
CREATE VIEW batch_rows AS
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files, last_file,
       last_task, created_at, updated_at, completed_at, error, plan, delivered_at, round, started_at, tier,
       tenant, hold, hold_reason, phase_retries, rests_until, budget_seconds, budget_tokens, budget_money,
       served_at, mover, next_task, rank, dispatch_at, refused, passed_over
FROM batches;
