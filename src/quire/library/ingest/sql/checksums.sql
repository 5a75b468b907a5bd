-- name: make
-- One row for each path; whatever else is said in it must be true of the file for the sum to count.
CREATE TABLE IF NOT EXISTS checksums (
  path TEXT PRIMARY KEY, device INTEGER, inode INTEGER, size INTEGER, modified_ns INTEGER, sha256 TEXT
);

-- name: find
SELECT sha256 FROM checksums
 WHERE path = ? AND device = ? AND inode = ? AND size = ? AND modified_ns = ?;

-- name: keep
-- A row that is written anew gets a new number: the smallest ones are the oldest.
INSERT OR REPLACE INTO checksums (path, device, inode, size, modified_ns, sha256) VALUES (?, ?, ?, ?, ?, ?);

-- name: count
SELECT count(*) FROM checksums;

-- name: shrink
DELETE FROM checksums WHERE rowid IN (SELECT rowid FROM checksums ORDER BY rowid LIMIT ?);
