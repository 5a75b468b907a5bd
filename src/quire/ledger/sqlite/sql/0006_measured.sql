-- Uploads are measured: what the files of a submission were announced with, and what an owner has staged.

ALTER TABLE submissions ADD COLUMN bytes_announced INTEGER NOT NULL DEFAULT 0;
UPDATE submissions
SET bytes_announced = coalesce((SELECT sum(size) FROM uploads WHERE uploads.batch_no = submissions.batch_no), 0);

CREATE INDEX batches_kept ON batches (owner) WHERE owner IS NOT NULL AND staged = 1;
