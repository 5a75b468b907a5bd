"""`quire batch`: monitor and control batches."""
