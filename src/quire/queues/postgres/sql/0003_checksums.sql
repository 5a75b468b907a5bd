-- A checksum with every message: damaged ones are not delivered. -1: sent by a version that stored none (also while
-- both run), delivered unchecked.

ALTER TABLE messages ADD COLUMN checksum bigint NOT NULL DEFAULT -1;
