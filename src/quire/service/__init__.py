"""Use cases, one function each. No HTTP words, no terminal words."""
