"""Access to SQLite and PostgreSQL: named queries from `.sql` files, transactions, migrations.

The ledger and the queues use it; they may share one database and do not know each other.
"""
