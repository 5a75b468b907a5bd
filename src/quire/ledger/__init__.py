"""What is known of batches, files, tasks and attempts: small ports, and adapters for SQLite and PostgreSQL."""
