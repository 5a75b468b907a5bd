"""`quire pipeline`: the pipelines that this configuration finds."""
