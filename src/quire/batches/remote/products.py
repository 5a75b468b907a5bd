"""Outputs that somebody outside has stored: they are new, in the batch's own folder, and of the size that was
told.
"""

from msgspec import structs

from quire.batches.remote.context import RemoteContext
from quire.blobs import keys
from quire.compute.remote.callback_body import bad_callback
from quire.model.batch import Batch
from quire.model.errors import Reject
from quire.model.files import Product

VERIFIED_AT_ONCE = 16


async def verify_product(context: RemoteContext, batch: Batch, product: Product, size: int | None) -> Product:
    """The product with its size in the store. Raises Reject."""
    await _check_place(context, batch, product.key)
    stored = (await context.blobs.head(product.key)).size
    if stored <= 0 or size not in {None, stored}:
        raise Reject(
            f"the output {product.key[:200]!r} has {stored} bytes in the store, the worker says {size}",
            code="size_mismatch",
        )
    return structs.replace(product, size=stored)


async def _check_place(context: RemoteContext, batch: Batch, key: str) -> None:
    """Raises Reject unless the key is new and in the batch's own folder: when a worker has overwritten a
    file, both must not be listed.
    """
    keys.check(key)
    folder = f"staging/{batch.id}"
    if not key.startswith(f"{folder}/"):
        raise bad_callback(f"the output {key[:200]!r} is not in {folder}")
    path = key.removeprefix(folder)
    files = [
        one
        for form in (path, path.removeprefix("/"))
        for one in (await context.records.get_file_history(batch.no, form))[0]
    ]
    if key == batch.manifest_key or any(one.key == key and one.gone != 0 for one in files):
        raise bad_callback(f"the output {key[:200]!r} has the key of another file of the batch")
