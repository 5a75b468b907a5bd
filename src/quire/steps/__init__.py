"""What is done to a document: one transformation per module."""
