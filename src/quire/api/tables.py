"""All routes, in the order in which they are described."""

from quire.api import act, batches, blobs, follow, front_door, house

ROUTES = (*batches.ROUTES, *blobs.ROUTES, *follow.ROUTES, *act.ROUTES, *house.ROUTES, *front_door.ROUTES)
