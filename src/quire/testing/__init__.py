"""Shipped for tests: suites, servers, a fake clock, misbehaving steps. Imported by no room above."""
