"""Where bytes live: the port of a blob store, and its adapters for a folder and for S3."""
