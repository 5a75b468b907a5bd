"""How a batch moves: pure decisions, and the conductor that carries them out."""
