"""What is known of batches, files, tasks and attempts: small ports, adapters for SQLite and PostgreSQL."""
