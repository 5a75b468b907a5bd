"""All routes, in the order in which they are described."""

from quire.api import batches, blobs, front_door

ROUTES = (*batches.ROUTES, *blobs.ROUTES, *front_door.ROUTES)
