"""All routes, in the order in which they are described."""

from quire.api import act, batches, blobs, callbacks, follow, front_door, hooks, house

ROUTES = (
    *batches.ROUTES,
    *blobs.ROUTES,
    *follow.ROUTES,
    *act.ROUTES,
    *hooks.ROUTES,
    *callbacks.ROUTES,
    *house.ROUTES,
    *front_door.ROUTES,
)
