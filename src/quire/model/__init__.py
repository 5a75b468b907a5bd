"""The nouns and the wire formats: pure values. No I/O, no clock, no chance in this room."""
