-- A checksum with every message: damaged ones are not delivered.

-- No default: a row without this column is damaged, and so is one that says NULL.
ALTER TABLE messages ADD COLUMN checksum INTEGER;
-- -1: sent by a version that stored none, delivered unchecked.
UPDATE messages SET checksum = -1;
