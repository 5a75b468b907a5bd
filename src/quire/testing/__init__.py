"""For people who write steps, pipelines and adapters: suites, in-memory adapters, a fake clock, factories.

No other room imports it.
"""
