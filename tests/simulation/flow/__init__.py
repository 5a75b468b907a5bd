"""Batches whose documents move on by themselves, against a plain model of what must come of them."""
