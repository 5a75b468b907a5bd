-- The tables as the migrations leave them, for people; a test compares both.

CREATE TABLE recipe_jobs (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    user_id text NOT NULL,
    job_type text NOT NULL,
    url text NOT NULL,
    use_llm_fallback integer NOT NULL,
    job_data text NOT NULL,
    status text NOT NULL,
    stage text NOT NULL,
    result text,
    error_code text,
    error_message text,
    attempts integer NOT NULL,
    batch_id text,
    ingestion_id text,
    revision integer NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL,
    started_at double precision,
    completed_at double precision,
    committed_at double precision,
    abandoned_at double precision,
    canceled_at double precision,
    emptied_at double precision
);
CREATE INDEX recipe_jobs_of_user ON recipe_jobs (user_id, no);
CREATE INDEX recipe_jobs_unfinished ON recipe_jobs (updated_at) WHERE status IN ('PENDING', 'RUNNING');
CREATE INDEX recipe_jobs_unsaved ON recipe_jobs (completed_at) WHERE status = 'COMPLETE';
CREATE INDEX recipe_jobs_over ON recipe_jobs (updated_at, no) WHERE emptied_at IS NULL
  AND (status IN ('ERROR', 'CANCELED', 'COMMITTED', 'ABANDONED') OR (status = 'COMPLETE' AND job_type = 'manual'));

CREATE TABLE recipe_ingestions (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    job_id text NOT NULL UNIQUE,
    user_id text NOT NULL,
    state text NOT NULL,
    images integer NOT NULL,
    created_at double precision NOT NULL,
    updated_at double precision NOT NULL
);

CREATE TABLE recipes (
    no bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
    id text NOT NULL UNIQUE,
    user_id text NOT NULL,
    job_id text UNIQUE,
    recipe text NOT NULL,
    created_at double precision NOT NULL
);
CREATE INDEX recipes_of_user ON recipes (user_id, no);

CREATE TABLE recipe_requests (
    user_id text NOT NULL,
    key text NOT NULL,
    fingerprint text NOT NULL,
    answer text NOT NULL,
    created_at double precision NOT NULL,
    PRIMARY KEY (user_id, key)
);
CREATE INDEX recipe_requests_by_age ON recipe_requests (created_at);
