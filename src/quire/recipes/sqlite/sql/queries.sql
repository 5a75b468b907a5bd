-- name: insert_job
INSERT INTO recipe_jobs (id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code,
                         error_message, attempts, batch_id, ingestion_id, revision, created_at, updated_at, started_at,
                         completed_at, committed_at, abandoned_at, canceled_at)
VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: insert_ingestion
INSERT INTO recipe_ingestions (id, job_id, user_id, state, images, created_at, updated_at)
VALUES (?, ?, ?, ?, ?, ?, ?)

-- name: change_ingestion
UPDATE recipe_ingestions SET state = ?, updated_at = ? WHERE id = ?

-- name: ingestion_by_id
SELECT id, job_id, user_id, state, images, created_at, updated_at FROM recipe_ingestions WHERE id = ?

-- name: job_by_id
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs WHERE id = ?

-- name: replace_job
UPDATE recipe_jobs SET status = ?, stage = ?, result = ?, error_code = ?, error_message = ?, attempts = ?,
                       batch_id = ?, updated_at = ?, started_at = ?, completed_at = ?, committed_at = ?,
                       abandoned_at = ?, canceled_at = ?, revision = revision + 1
WHERE id = ? AND revision = ?

-- name: jobs_of_user
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs WHERE user_id = ?1 AND status IN (SELECT value FROM json_each(?2)) ORDER BY no DESC LIMIT ?3

-- name: unstarted_jobs
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs
WHERE status IN ('PENDING', 'RUNNING') AND stage = 'RECEIVED' AND updated_at < ? ORDER BY updated_at, no LIMIT ?

-- name: unfinished_jobs
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs
WHERE status IN ('PENDING', 'RUNNING') AND stage <> 'RECEIVED' AND updated_at < ? AND id > ? ORDER BY id LIMIT ?

-- name: unsaved_jobs
-- What was written by hand is saved with its job.
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs WHERE status = 'COMPLETE' AND job_type <> 'manual' AND completed_at < ? ORDER BY completed_at, no LIMIT ?

-- name: discardable_jobs
-- What was written by hand is saved with its job.
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs
WHERE emptied_at IS NULL
  AND (status IN ('ERROR', 'CANCELED', 'COMMITTED', 'ABANDONED') OR (status = 'COMPLETE' AND job_type = 'manual'))
  AND updated_at < ? ORDER BY updated_at, no LIMIT ?

-- name: mark_emptied
UPDATE recipe_jobs SET emptied_at = ? WHERE id = ? AND revision = ?

-- name: insert_recipe
INSERT INTO recipes (id, user_id, job_id, recipe, created_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: recipe_by_id
SELECT id, user_id, job_id, recipe, created_at FROM recipes WHERE id = ?

-- name: insert_request
-- First of all: of two requests with the same key that come at once, the second waits here and finds the first.
INSERT INTO recipe_requests (user_id, key, fingerprint, answer, created_at) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO NOTHING

-- name: request_by_key
SELECT fingerprint, answer FROM recipe_requests WHERE user_id = ? AND key = ?

-- name: forget_request
DELETE FROM recipe_requests WHERE user_id = ? AND key = ? AND created_at < ?

-- name: forget_requests
DELETE FROM recipe_requests WHERE created_at < ?
