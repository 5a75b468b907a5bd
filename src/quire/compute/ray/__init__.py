"""Compute on a Ray cluster."""
