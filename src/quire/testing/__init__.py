"""Shipped for tests: conformance suites, servers, fake clock, misbehaving steps. Imported by no room above."""
