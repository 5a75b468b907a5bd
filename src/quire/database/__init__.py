"""How we speak to databases: named queries from `.sql` files, one writer with group commit, migrations.

Below ledger and queues, which may share one database and do not know each other.
"""
