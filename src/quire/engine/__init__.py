"""How a batch moves: pure decisions, and the scheduler and dispatcher that carry them out."""
