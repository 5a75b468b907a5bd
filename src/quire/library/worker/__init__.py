"""A worker of the library: picks, claims and converts jobs one after the other."""
