"""`quire ocr worker`."""
