"""The protocol of the bucket library: jobs in an object store, and nothing else.

One object per job is the truth (`queue/state/{id}`), and every write of it names the version that was read.
The result, created only where there is none, is the one commit. All other objects are markers for people and
for the published tools: hints, which the janitor corrects. `docs/decisions/0017` has the table of states and
what was proved of it.
"""
