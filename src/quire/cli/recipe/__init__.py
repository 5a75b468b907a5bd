"""`quire recipe`: imports recipes from photos and pages."""
