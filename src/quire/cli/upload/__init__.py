"""`quire upload`: send a folder to an ingest service."""
