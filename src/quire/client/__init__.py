"""`quire upload` and the Python client of the HTTP API."""
