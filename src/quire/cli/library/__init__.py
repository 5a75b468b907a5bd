"""`quire library`: the PDF library in a bucket."""
