"""A pool of warm worker processes on this machine; Ray keeps the same pool on other machines."""
