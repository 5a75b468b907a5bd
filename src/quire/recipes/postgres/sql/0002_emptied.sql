-- When the photos and the request of an import that is over were deleted.

ALTER TABLE recipe_jobs ADD COLUMN emptied_at double precision;
CREATE INDEX recipe_jobs_over ON recipe_jobs (updated_at, no) WHERE emptied_at IS NULL
  AND (status IN ('ERROR', 'CANCELED', 'COMMITTED', 'ABANDONED') OR (status = 'COMPLETE' AND job_type = 'manual'));
