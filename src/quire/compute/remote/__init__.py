"""Compute on processes and machines that run one task each and call back."""
