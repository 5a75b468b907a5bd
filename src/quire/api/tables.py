"""All routes, in the order in which they are described."""

from quire.api import act, assets, batches, blobs, callbacks, follow, front_door, hooks, house, iiif

ROUTES = (
    *batches.ROUTES,
    *blobs.ROUTES,
    *follow.ROUTES,
    *assets.ROUTES,
    *iiif.ROUTES,
    *act.ROUTES,
    *hooks.ROUTES,
    *callbacks.ROUTES,
    *house.ROUTES,
    *front_door.ROUTES,
)
