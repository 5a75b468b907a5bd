-- Files that arrive over HTTP: what their senders say of them and of their batches.

ALTER TABLE batches
  ADD COLUMN hands_over_to text NOT NULL DEFAULT '',       -- the queue that is told when it is done
  ADD COLUMN owner         text,                           -- of one that came over HTTP: whose key opened it
  ADD COLUMN staged        boolean NOT NULL DEFAULT false; -- it has a staging that must be swept
CREATE INDEX batches_owned ON batches (owner) WHERE owner IS NOT NULL AND stage NOT IN ('done', 'error', 'cancelled');
CREATE INDEX batches_staged ON batches (completed_at, no) WHERE staged AND completed_at IS NOT NULL;

CREATE OR REPLACE VIEW batch_rows AS
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files, last_file,
       last_task, created_at, updated_at, completed_at, error, plan, delivered_at, round, started_at, tier,
       tenant, hold, hold_reason, phase_retries, rests_until, budget_seconds, budget_tokens, budget_money,
       served_at, mover, next_task, rank, dispatch_at, refused, passed_over, hands_over_to
FROM batches;

ALTER TABLE uploads
  ADD COLUMN cid         text,
  ADD COLUMN config      text NOT NULL DEFAULT '{}',
  ADD COLUMN upload_id   text NOT NULL DEFAULT '',            -- of an upload in parts
  ADD COLUMN taken_at    double precision,
  ADD COLUMN source_file text,
  ADD COLUMN tags        text NOT NULL DEFAULT '[]',
  ADD COLUMN folder      text COLLATE "C" NOT NULL DEFAULT ''; -- of those over HTTP; never empty there
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
  swept_at        double precision
);
CREATE UNIQUE INDEX submissions_key ON submissions (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX submissions_idle ON submissions (active_at, batch_no) WHERE finalized_at IS NULL AND swept_at IS NULL;
