"""The library's manifest: the index of its documents, in `registry/manifest.json` and additions beside it."""
