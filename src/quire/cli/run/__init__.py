"""`quire run`: a pipeline over files and folders."""
