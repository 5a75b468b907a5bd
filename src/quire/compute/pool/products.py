"""Stores what a step made: its files, its value, and the record of its asset.

Promise: whatever a result names is in the store when the result is returned. Must not know: how the step ran,
nor who is told of it.
"""

from quire.blobs import content
from quire.blobs.port import Blobs
from quire.compute.assets import register_asset
from quire.compute.pool.values import INLINE_BYTES, inline_value, store_value
from quire.model.files import Change, File, Product
from quire.model.step import OutputFile, StepOutput
from quire.model.work import StepResult


def needs_store(output: StepOutput, value: bytes) -> bool:
    """Is there anything to store? `value` is the encoded value of the output."""
    return bool(output.files) or output.asset is not None or len(value) > INLINE_BYTES


def build_result(output: StepOutput, value: bytes) -> StepResult:
    """The result of a step that made nothing to store."""
    if not value and not output.tags:
        return StepResult(facts=output.facts)
    return StepResult(facts=output.facts, value=inline_value(value), tags=output.tags)


async def store_output(blobs: Blobs, file: File, output: StepOutput, value: bytes) -> StepResult:
    """The result, with everything it names stored. `file` is the one that the step worked on. Raises what the
    store raises.
    """
    stored = await content.put_files(blobs, [one.path for one in output.files], owned=True)
    products = tuple(map(_build_product, output.files, stored))
    if output.asset is not None:
        await register_asset(blobs, output.asset, file, products)
    return StepResult(
        products=products, facts=output.facts, value=await store_value(blobs, value), tags=output.tags
    )


def count_bytes(result: StepResult) -> int:
    """How many bytes of this result are in the store."""
    value = result.value
    return sum(one.size for one in result.products) + (
        value.size if value is not None and value.digest else 0
    )


def _build_product(file: OutputFile, stored: content.Content) -> Product:
    return Product(
        role=file.role,
        key=stored.key,
        size=stored.size,
        content_type=file.content_type,
        digest=stored.digest,
        facts=file.facts,
        name=file.name,
        preferred=file.preferred,
        change=Change(file.change),
        tags=file.tags,
    )
