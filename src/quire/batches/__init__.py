"""Use cases on batches: run a folder, submit, control, inspect, export, package.

Must not know: HTTP, terminals.
"""
