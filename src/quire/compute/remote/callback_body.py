"""What a callback says: its body, and what it claims to have stored.

Must not know: the ledger and the store. Whoever reads a claim looks whether it is true.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field, structs

from quire.compute.remote.output_keys import (
    JPEG,
    MAX_PAGES,
    VARIANTS,
    house_key,
    page_key,
)
from quire.model.errors import Reject
from quire.model.files import Product

_Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Reference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What a `.ref.json` holds."""

    url: str = ""
    ipfs_cid: str | None = None
    type: str | None = None
    size: _Number | None = None
    filename: str | None = None


class OwnProduct(Struct, frozen=True, kw_only=True):
    role: str
    key: str
    size: _Number
    content_type: str
    facts: dict[str, Any] = field(default_factory=dict)


class Own(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What workers of ours tell beyond the contract: what the step found out and all that it made, or how it
    failed.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    products: tuple[OwnProduct, ...] = ()
    outcome: Literal["rejected", "erred", "out_of_memory", "interrupted"] = "erred"
    error_class: str = ""


class Callback(Struct, frozen=True, kw_only=True):
    """What a worker says, of a TIFF or of a picture. What a success needs is looked at apart: without it the
    attempt has failed, and the body is still one.
    """

    task_id: str
    batch_id: str
    status: Literal["success", "error"]
    error: str | None = None
    output_r2_key: str | None = None
    output_file_name: str | None = None
    output_file_size: _Number | None = None
    ref_json_r2_key: str | None = None
    ref_data: Reference | None = None
    archive_r2_key: str | None = None
    performance: dict[str, float] | None = None
    quire: Own | None = None


# What is said to be stored, with the size as told, and the facts of the result.
Claimed = tuple[list[tuple[Product, int | None]], dict[str, Any]]


def _jpegs(said: Callback, attempt: int) -> Claimed:
    """Where the pages of a converted TIFF lie: the first as the contract has it, the others where this
    attempt was told to put them.
    """
    if not said.output_r2_key or not said.output_file_name or said.output_file_size is None:
        raise bad("a success names output_r2_key, output_file_name and output_file_size")
    if said.output_file_size <= 0:
        raise bad(f"an output has more than {said.output_file_size} bytes")
    own = said.quire or Own()
    later = [one for one in own.products if one.role == JPEG and one.key != said.output_r2_key]
    pages = 1 + len(later)
    if pages > MAX_PAGES:
        raise bad(f"a callback names {MAX_PAGES} pages at most")
    if own.facts.get("pages", pages) != pages:
        raise bad(f"the callback names {pages} of {str(own.facts['pages'])[:20]} pages")
    first = (said.output_r2_key, said.output_file_size)
    told = {one.key: one.facts for one in own.products}
    claimed: list[tuple[Product, int | None]] = []
    for page, (key, size) in enumerate([first, *((one.key, one.size) for one in later)], 1):
        if page > 1 and key != page_key(said.batch_id, said.task_id, attempt, page):
            raise bad(f"page {page} is not where it was told to lie, or pages are missing before it")
        # The digest is not known without reading the bytes again; the next phase does that anyway.
        jpeg = Product(
            role=JPEG,
            key=key,
            size=0,
            content_type="image/jpeg",
            digest="",
            facts=_facts(told.get(key, {})) | {"page": page, "pages": pages},
        )
        claimed.append((jpeg, size))
    return claimed, own.facts | {"pages": pages, "file_name": said.output_file_name}


def _facts(told: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in told.items() if name != "cid" or isinstance(value, str)}


def _reference(said: Callback, attempt: int) -> Claimed:  # noqa: ARG001
    """Where a picture's reference lies, whose size is told by the store alone, and its smaller copies."""
    if not said.ref_json_r2_key or said.ref_data is None:
        raise bad("a success names ref_json_r2_key and ref_data")
    if not said.ref_data.url.startswith(("https://", "http://")):
        raise bad("the url of ref_data begins with http:// or https://")
    own = said.quire or Own()
    found = next((one.facts for one in own.products if one.key == said.ref_json_r2_key), {})
    reference = Product(
        role="ref",
        key=said.ref_json_r2_key,
        size=0,
        content_type="application/json",
        digest="",
        facts=_facts(found),
    )
    copies: list[tuple[Product, int | None]] = [
        (
            Product(
                role=one.role, key=one.key, size=0, content_type="image/jpeg", digest="", facts=one.facts
            ),
            one.size,
        )
        for one in own.products
        if one.role in VARIANTS
    ]
    facts = own.facts | {"ref_data": msgspec.to_builtins(said.ref_data)}
    if said.ref_data.ipfs_cid is not None:
        facts["cid"] = said.ref_data.ipfs_cid
    if said.archive_r2_key is not None:
        facts["archive_r2_key"] = said.archive_r2_key
    return [*copies, (reference, None)], facts


# By the step that the worker does in our place.
SHAPES: dict[str, Callable[[Callback, int], Claimed]] = {
    "tiff_to_jpeg": _jpegs,
    "image_variants": _reference,
}


def in_house(said: Callback, prefix: str) -> Callback:
    """With the keys as the house knows them; workers that have keys of the store know those of the bucket."""
    if not prefix:
        return said

    def mapped(key: str | None) -> str | None:
        return key and house_key(key, prefix, said.batch_id)

    own = said.quire
    if own is not None:
        products = [
            structs.replace(one, key=house_key(one.key, prefix, said.batch_id)) for one in own.products
        ]
        own = structs.replace(own, products=tuple(products))
    return structs.replace(
        said,
        output_r2_key=mapped(said.output_r2_key),
        ref_json_r2_key=mapped(said.ref_json_r2_key),
        quire=own,
    )


def bad(words: str) -> Reject:
    return Reject(words, code="bad_callback")
