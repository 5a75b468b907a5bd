"""Where work waits: the port of message queues, and adapters for SQLite, PostgreSQL and Redis."""
