"""Reading pictures: engines in tiers, what counts as valid, and the forms in which text is written."""
