"""Which steps run in which order: the built-in pipelines, as values."""
