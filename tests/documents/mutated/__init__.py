"""Damaged files by the thousand, each from a seed: made, taken through the product, and judged."""
