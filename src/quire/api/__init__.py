"""HTTP in, HTTP out: translation only. Use cases are in the product rooms."""
