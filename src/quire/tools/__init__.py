"""Outside libraries and programs: one module for each."""
