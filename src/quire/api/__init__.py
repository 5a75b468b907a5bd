"""HTTP in, HTTP out: translation only. Use cases are in `service`."""
