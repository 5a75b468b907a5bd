-- Documents move on by themselves: a batch that flows has open tasks and sources of more of them, cursors for each phase,
-- groups of steps side by side, and tasks that wait for those of the folders below.

ALTER TABLE batches ADD COLUMN open_tasks INTEGER NOT NULL DEFAULT 0;  -- tasks and joins that are not settled
ALTER TABLE batches ADD COLUMN sources    INTEGER NOT NULL DEFAULT 0;  -- what may still bring tasks: the intake, a phase being gathered
ALTER TABLE batches ADD COLUMN admitted   INTEGER NOT NULL DEFAULT 0;  -- files up to this number were given their first tasks
ALTER TABLE batches ADD COLUMN admissible INTEGER NOT NULL DEFAULT 0;  -- files up to this number may be: their folders are listed
ALTER TABLE batches ADD COLUMN waits_at   INTEGER;                     -- the next phase that waits for other documents
ALTER TABLE batches ADD COLUMN gathers    INTEGER NOT NULL DEFAULT 0;  -- 1: its units are being made
ALTER TABLE batches ADD COLUMN wants_move INTEGER NOT NULL DEFAULT 0;  -- 1: there is something for a scheduler
ALTER TABLE batches ADD COLUMN plan_digest TEXT NOT NULL DEFAULT '';        -- of a plan that flows: members with another one leave it alone
-- A batch of the former form that goes on in this one is adopted in chunks:
ALTER TABLE batches ADD COLUMN adopts_to    INTEGER;                   -- the last file that was there when that began; NULL: it is not under way
ALTER TABLE batches ADD COLUMN adopts_from  INTEGER;                   -- the first task of the phase it was in
ALTER TABLE batches ADD COLUMN adopts_after INTEGER;                   -- what tasks up to this one made was in the list already
CREATE INDEX batches_flowing ON batches (tier, served_at) WHERE stage = 'flowing' AND hold IS NULL;

DROP VIEW batch_rows;
CREATE VIEW batch_rows AS
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files, last_file,
       last_task, created_at, updated_at, completed_at, error, plan, delivered_at, round, started_at, tier,
       tenant, hold, hold_reason, phase_retries, rests_until, budget_seconds, budget_tokens, budget_money,
       served_at, mover, next_task, rank, dispatch_at, refused, passed_over, hands_over_to, open_tasks, sources,
       admitted, admissible, waits_at, gathers, adopts_to
FROM batches;

ALTER TABLE rounds ADD COLUMN next_task   INTEGER NOT NULL DEFAULT 1;  -- of a phase that flows: the next number to claim
ALTER TABLE rounds ADD COLUMN last_task   INTEGER NOT NULL DEFAULT 0;  -- and the last one that was given
ALTER TABLE rounds ADD COLUMN dispatch_at REAL NOT NULL DEFAULT 0;     -- no task of it starts before

ALTER TABLE tasks ADD COLUMN branch    INTEGER NOT NULL DEFAULT 0;     -- which of the phase's steps
ALTER TABLE tasks ADD COLUMN tries     INTEGER NOT NULL DEFAULT 0;     -- tries of its document in earlier phases
ALTER TABLE tasks ADD COLUMN given     BLOB;                           -- values of earlier steps
ALTER TABLE tasks ADD COLUMN waits_for INTEGER NOT NULL DEFAULT 0;     -- tasks of the folders right below that are not settled
ALTER TABLE tasks ADD COLUMN blocks    INTEGER;                        -- the task of the folder above
CREATE INDEX tasks_external ON tasks (batch_no, due_at) WHERE state = 'external';

ALTER TABLE files ADD COLUMN open      INTEGER NOT NULL DEFAULT 0;     -- inputs only: further documents of it that are on their way
ALTER TABLE files ADD COLUMN lineage   TEXT NOT NULL DEFAULT '';       -- which step made it of what, for each generation
ALTER TABLE files ADD COLUMN failed_at TEXT;                           -- inputs only: the place of the failure that is told

ALTER TABLE crew ADD COLUMN format INTEGER;                            -- NULL: of a version that knows no batches that flow

-- Steps side by side on one document: their effects are applied once, when all have settled.
CREATE TABLE joins (
  batch_no INTEGER NOT NULL,
  phase    INTEGER NOT NULL,
  file_no  INTEGER NOT NULL,
  left     INTEGER NOT NULL,                  -- branches that are not settled
  resolved INTEGER NOT NULL DEFAULT 0,        -- 1: the effects are applied
  PRIMARY KEY (batch_no, phase, file_no)
) WITHOUT ROWID;
CREATE INDEX joins_open ON joins (batch_no, left, phase) WHERE resolved = 0;
