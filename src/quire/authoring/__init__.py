"""What people write pipelines with: the decorator, documents, outputs, and the loader of their files.

`quire/__init__.py` offers the ten public names. Steps written here become the same values as built-in ones: a
plan and a table of steps.
"""
