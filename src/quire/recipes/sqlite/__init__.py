"""Recipe jobs in SQLite."""
