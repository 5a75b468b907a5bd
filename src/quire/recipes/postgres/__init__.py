"""Recipe jobs in PostgreSQL."""
