-- Documents move on by themselves: a batch that flows has open tasks and sources of more of them, cursors for each phase,
-- groups of steps side by side, and tasks that wait for those of the folders below.

ALTER TABLE batches
  ADD COLUMN open_tasks  bigint NOT NULL DEFAULT 0,      -- tasks and joins that are not settled
  ADD COLUMN sources     bigint NOT NULL DEFAULT 0,      -- what may still bring tasks: the intake, a phase being gathered
  ADD COLUMN admitted    bigint NOT NULL DEFAULT 0,      -- files up to this number were given their first tasks
  ADD COLUMN admissible  bigint NOT NULL DEFAULT 0,      -- files up to this number may be: their folders are listed
  ADD COLUMN waits_at    bigint,                         -- the next phase that waits for other documents
  ADD COLUMN gathers     bigint NOT NULL DEFAULT 0,      -- 1: its units are being found, 2: they are given their tasks
  ADD COLUMN wants_move  boolean NOT NULL DEFAULT false, -- there is something for a scheduler
  ADD COLUMN plan_digest text NOT NULL DEFAULT '',       -- of a plan that flows: members with another one leave it alone
  -- A batch of the former form that goes on in this one is adopted in chunks:
  ADD COLUMN adopts_to    bigint,  -- the last file that was there when that began; NULL: it is not under way
  ADD COLUMN adopts_from  bigint,  -- the first task of the phase it was in
  ADD COLUMN adopts_after bigint;  -- what tasks up to this one made was in the list already
CREATE INDEX batches_flowing ON batches (tier, served_at) WHERE stage = 'flowing' AND hold IS NULL;

DROP VIEW batch_rows;
CREATE VIEW batch_rows AS
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files, last_file,
       last_task, created_at, updated_at, completed_at, error, plan, delivered_at, round, started_at, tier,
       tenant, hold, hold_reason, phase_retries, rests_until, budget_seconds, budget_tokens, budget_money,
       served_at, mover, next_task, rank, dispatch_at, refused, passed_over, hands_over_to, open_tasks, sources,
       admitted, admissible, waits_at, gathers, adopts_to
FROM batches;

ALTER TABLE rounds
  ADD COLUMN next_task   bigint NOT NULL DEFAULT 1,            -- of a phase that flows: the next number to claim
  ADD COLUMN last_task   bigint NOT NULL DEFAULT 0,            -- and the last one that was given
  ADD COLUMN dispatch_at double precision NOT NULL DEFAULT 0;  -- no task of it starts before

ALTER TABLE tasks
  ADD COLUMN branch    bigint NOT NULL DEFAULT 0,  -- which of the phase's steps
  ADD COLUMN tries     bigint NOT NULL DEFAULT 0,  -- tries of its document in earlier phases
  ADD COLUMN given     bytea,                      -- values of earlier steps
  ADD COLUMN waits_for bigint NOT NULL DEFAULT 0,  -- tasks of the folders right below that are not settled
  ADD COLUMN blocks    bigint;                     -- the task of the folder above

-- No index depends on what every task's life changes (`state`, `member`), and pages keep room: claims and settlements
-- of plain tasks touch the row alone.
DROP INDEX tasks_waiting;
DROP INDEX tasks_failed;
DROP INDEX tasks_ranked;
DROP INDEX tasks_running;
CREATE INDEX tasks_due ON tasks (batch_no, due_at, task_no) WHERE due_at IS NOT NULL;
CREATE INDEX tasks_failed ON tasks (batch_no, task_no) WHERE error_class IS NOT NULL;
CREATE INDEX tasks_ranked ON tasks (batch_no, rank, task_no) WHERE rank IS NOT NULL;
ALTER TABLE tasks SET (fillfactor = 50);

ALTER TABLE files
  ADD COLUMN open      bigint NOT NULL DEFAULT 0,  -- inputs only: further documents of it that are on their way
  ADD COLUMN lineage   text NOT NULL DEFAULT '',   -- which step made it of what, for each generation
  ADD COLUMN failed_at text COLLATE "C";           -- inputs only: the place of the failure that is told

ALTER TABLE crew ADD COLUMN format bigint;         -- NULL: of a version that knows no batches that flow

-- Steps side by side on one document: their effects are applied once, when all have settled.
CREATE TABLE joins (
  batch_no bigint NOT NULL,
  phase    bigint NOT NULL,
  file_no  bigint NOT NULL,
  "left"   bigint NOT NULL,                 -- branches that are not settled
  resolved boolean NOT NULL DEFAULT false,  -- the effects are applied
  PRIMARY KEY (batch_no, phase, file_no)
);
CREATE INDEX joins_open ON joins (batch_no, "left", phase) WHERE NOT resolved;
