-- name: insert_job
INSERT INTO recipe_jobs (id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code,
                         error_message, attempts, batch_id, ingestion_id, revision, created_at, updated_at, started_at,
                         completed_at, committed_at, abandoned_at, canceled_at)
VALUES (%s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING

-- name: insert_ingestion
INSERT INTO recipe_ingestions (id, job_id, user_id, state, images, created_at, updated_at)
VALUES (%s, %s, %s, %s, %s, %s, %s)

-- name: change_ingestion
UPDATE recipe_ingestions SET state = %s, updated_at = %s WHERE id = %s

-- name: ingestion_by_id
SELECT id, job_id, user_id, state, images, created_at, updated_at FROM recipe_ingestions WHERE id = %s

-- name: job_by_id
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs WHERE id = %s

-- name: replace_job
UPDATE recipe_jobs SET status = %s, stage = %s, result = %s, error_code = %s, error_message = %s,
                       attempts = %s, batch_id = %s, updated_at = %s, started_at = %s, completed_at = %s,
                       committed_at = %s, abandoned_at = %s, canceled_at = %s, revision = revision + 1
WHERE id = %s AND revision = %s

-- name: jobs_of_user
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs WHERE user_id = %(user)s AND status = ANY(%(statuses)s) ORDER BY no DESC LIMIT %(limit)s

-- name: unstarted_jobs
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs
WHERE status IN ('PENDING', 'RUNNING') AND stage = 'RECEIVED' AND updated_at < %s ORDER BY updated_at, no LIMIT %s

-- name: unfinished_jobs
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs
WHERE status IN ('PENDING', 'RUNNING') AND stage <> 'RECEIVED' AND updated_at < %s AND id > %s ORDER BY id LIMIT %s

-- name: unsaved_jobs
-- What was written by hand is saved with its job.
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs WHERE status = 'COMPLETE' AND job_type <> 'manual' AND completed_at < %s ORDER BY completed_at, no LIMIT %s

-- name: discardable_jobs
-- What was written by hand is saved with its job.
SELECT id, user_id, job_type, url, use_llm_fallback, job_data, status, stage, result, error_code, error_message, attempts,
       batch_id, ingestion_id, revision, created_at, updated_at, started_at, completed_at, committed_at, abandoned_at,
       canceled_at
FROM recipe_jobs
WHERE emptied_at IS NULL
  AND (status IN ('ERROR', 'CANCELED', 'COMMITTED', 'ABANDONED') OR (status = 'COMPLETE' AND job_type = 'manual'))
  AND updated_at < %s ORDER BY updated_at, no LIMIT %s

-- name: mark_emptied
UPDATE recipe_jobs SET emptied_at = %s WHERE id = %s AND revision = %s

-- name: insert_recipe
INSERT INTO recipes (id, user_id, job_id, recipe, created_at) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING

-- name: recipe_by_id
SELECT id, user_id, job_id, recipe, created_at FROM recipes WHERE id = %s

-- name: insert_request
-- First of all: of two requests with the same key that come at once, the second waits here and finds the first.
INSERT INTO recipe_requests (user_id, key, fingerprint, answer, created_at) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT DO NOTHING

-- name: request_by_key
SELECT fingerprint, answer FROM recipe_requests WHERE user_id = %s AND key = %s

-- name: forget_request
DELETE FROM recipe_requests WHERE user_id = %s AND key = %s AND created_at < %s

-- name: forget_requests
DELETE FROM recipe_requests WHERE created_at < %s
