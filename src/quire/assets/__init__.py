"""Pictures and files with a permanent address: registry, delivery, IIIF, tiles."""
