-- Files that arrive over HTTP: what their senders say of them and of their batches.

ALTER TABLE batches ADD COLUMN hands_over_to TEXT NOT NULL DEFAULT '';   -- the queue that is told when it is done
ALTER TABLE batches ADD COLUMN owner         TEXT;                       -- of one that came over HTTP: whose key opened it
ALTER TABLE batches ADD COLUMN staged        INTEGER NOT NULL DEFAULT 0; -- 1: it has a staging that must be swept
CREATE INDEX batches_owned ON batches (owner) WHERE owner IS NOT NULL AND stage NOT IN ('done', 'error', 'cancelled');
CREATE INDEX batches_staged ON batches (completed_at) WHERE staged = 1 AND completed_at IS NOT NULL;

DROP VIEW batch_rows;
CREATE VIEW batch_rows AS
SELECT no, id, pipeline, pipeline_version, stage, phase, cursor, status, manifest_key, total_files, last_file,
       last_task, created_at, updated_at, completed_at, error, plan, delivered_at, round, started_at, tier,
       tenant, hold, hold_reason, phase_retries, rests_until, budget_seconds, budget_tokens, budget_money,
       served_at, mover, next_task, rank, dispatch_at, refused, passed_over, hands_over_to
FROM batches;

ALTER TABLE uploads ADD COLUMN cid         TEXT;
ALTER TABLE uploads ADD COLUMN config      TEXT NOT NULL DEFAULT '{}';
ALTER TABLE uploads ADD COLUMN upload_id   TEXT NOT NULL DEFAULT ''; -- of an upload in parts
ALTER TABLE uploads ADD COLUMN taken_at    REAL;
ALTER TABLE uploads ADD COLUMN source_file TEXT;
ALTER TABLE uploads ADD COLUMN tags        TEXT NOT NULL DEFAULT '[]';
ALTER TABLE uploads ADD COLUMN folder      TEXT NOT NULL DEFAULT ''; -- of those over HTTP; never empty there
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
  swept_at        REAL
);
CREATE UNIQUE INDEX submissions_key ON submissions (owner, idempotency_key) WHERE idempotency_key IS NOT NULL;
CREATE INDEX submissions_idle ON submissions (active_at) WHERE finalized_at IS NULL AND swept_at IS NULL;
