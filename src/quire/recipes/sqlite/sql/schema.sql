-- The tables as the migrations leave them, for people; a test compares both.

CREATE TABLE recipe_jobs (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    user_id TEXT NOT NULL,
    job_type TEXT NOT NULL,
    url TEXT NOT NULL,
    use_llm_fallback INTEGER NOT NULL,
    job_data TEXT NOT NULL,
    status TEXT NOT NULL,
    stage TEXT NOT NULL,
    result TEXT,
    error_code TEXT,
    error_message TEXT,
    attempts INTEGER NOT NULL,
    batch_id TEXT,
    ingestion_id TEXT,
    revision INTEGER NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    started_at REAL,
    completed_at REAL,
    committed_at REAL,
    abandoned_at REAL,
    canceled_at REAL,
    emptied_at REAL
);
CREATE INDEX recipe_jobs_of_user ON recipe_jobs (user_id, no);
CREATE INDEX recipe_jobs_unfinished ON recipe_jobs (updated_at) WHERE status IN ('PENDING', 'RUNNING');
CREATE INDEX recipe_jobs_unsaved ON recipe_jobs (completed_at) WHERE status = 'COMPLETE';
CREATE INDEX recipe_jobs_over ON recipe_jobs (updated_at, no) WHERE emptied_at IS NULL
  AND (status IN ('ERROR', 'CANCELED', 'COMMITTED', 'ABANDONED') OR (status = 'COMPLETE' AND job_type = 'manual'));

CREATE TABLE recipe_ingestions (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    job_id TEXT NOT NULL UNIQUE,
    user_id TEXT NOT NULL,
    state TEXT NOT NULL,
    images INTEGER NOT NULL,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL
);

CREATE TABLE recipes (
    no INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    user_id TEXT NOT NULL,
    job_id TEXT UNIQUE,
    recipe TEXT NOT NULL,
    created_at REAL NOT NULL
);
CREATE INDEX recipes_of_user ON recipes (user_id, no);

CREATE TABLE recipe_requests (
    user_id TEXT NOT NULL,
    key TEXT NOT NULL,
    fingerprint TEXT NOT NULL,
    answer TEXT NOT NULL,
    created_at REAL NOT NULL,
    PRIMARY KEY (user_id, key)
) WITHOUT ROWID;
CREATE INDEX recipe_requests_by_age ON recipe_requests (created_at);
