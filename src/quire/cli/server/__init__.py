"""`quire serve` and the commands that administer a server: clean, key, webhook."""
