-- Batches that flow while their files still come in: names are listed folder by folder, then files are taken.

-- name: intake_begin
UPDATE batches SET stage = 'flowing', phase = 1, cursor = 0, sources = 1, wants_move = 0, waits_at = ?1, status = ?2,
                   updated_at = ?3, started_at = coalesce(started_at, ?3)
WHERE no = ?4 AND stage = 'open'

-- name: intake_open
-- Every statement of the intake begins with this one.
SELECT last_file FROM batches WHERE no = ? AND stage = 'flowing' AND sources > 0 AND manifest_key IS NULL

-- name: intake_known
SELECT f.file_no, f.path, f.role FROM json_each(?2) wanted
CROSS JOIN files f INDEXED BY files_folded ON f.batch_no = ?1 AND f.folded = wanted.value
WHERE f.born = 0 ORDER BY f.file_no

-- name: intake_listed
UPDATE batches SET last_file = ?, updated_at = ? WHERE no = ?

-- name: intake_names
SELECT file_no, path, role FROM files WHERE batch_no = ? AND file_no > ? AND born = 0 ORDER BY file_no LIMIT ?

-- name: intake_taken_before
SELECT file_no FROM files WHERE batch_no = ?1 AND file_no IN (SELECT value FROM json_each(?2)) AND role = 'input'

-- name: intake_take
UPDATE files SET role = 'input', listed = 1, key = ?, size = ?, content_type = ?, digest = ?, open = ?
WHERE file_no = ? AND batch_no = ?

-- name: intake_refuse
UPDATE files SET role = 'name' WHERE batch_no = ? AND file_no = ? AND role = 'awaited'

-- name: intake_count
UPDATE batches SET total_files = total_files + ? WHERE no = ?

-- name: intake_close
UPDATE batches SET manifest_key = ?, total_files = ?, refused = ?, passed_over = ?, message = ?, updated_at = ?,
                   sources = sources - 1
WHERE no = ? AND stage = 'flowing' AND sources > 0 AND manifest_key IS NULL

-- name: intake_finished
-- Inputs in a range of numbers and those of the list, and whether they have walked to their ends.
SELECT file_no, path, open < 0 FROM files
WHERE batch_no = ?1 AND file_no > ?2 AND file_no <= ?3 AND born = 0 AND role IN ('input', 'awaited')
UNION ALL
SELECT f.file_no, f.path, f.open < 0 FROM json_each(?4) wanted CROSS JOIN files f ON f.batch_no = ?1 AND f.file_no = wanted.value
WHERE f.role IN ('input', 'awaited')

-- name: intake_last_file
SELECT last_file FROM batches WHERE no = ?

-- name: intake_withdrawn
-- Only what nobody else is called like today.
SELECT f.file_no, f.key, f.path, f.name, f.size, f.content_type, f.digest, f.cid, f.source_file, f.tags, f.config
FROM files f
WHERE f.batch_no = ?1 AND f.file_no > ?2 AND f.born > 0 AND f.gone = 0 AND f.role NOT IN ('unit', 'kept')
  AND NOT EXISTS (SELECT 1 FROM files o INDEXED BY files_folded WHERE o.batch_no = f.batch_no AND o.folded = f.folded
                  AND o.born > 0 AND o.gone IS NOT 0 AND o.role NOT IN ('unit', 'kept'))
ORDER BY f.file_no LIMIT ?3

-- name: intake_runs
SELECT * FROM batch_rows WHERE no IN (SELECT no FROM batches WHERE run_key = ?) ORDER BY no
