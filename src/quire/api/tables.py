"""All routes, in the order in which they are described."""

from quire.api import (
    about,
    administration,
    assets,
    batches,
    blobs,
    callbacks,
    control,
    iiif,
    ingest,
    webhooks,
)

ROUTES = (
    *ingest.ROUTES,
    *blobs.ROUTES,
    *batches.ROUTES,
    *assets.ROUTES,
    *iiif.ROUTES,
    *control.ROUTES,
    *webhooks.ROUTES,
    *callbacks.ROUTES,
    *administration.ROUTES,
    *about.ROUTES,
)
