"""The body of a callback, and the products that it claims to have stored.

Must not know: the ledger and the store. The caller verifies the claims.
"""

from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field, structs

from quire.compute.remote.output_keys import JPEG, MAX_PAGES, VARIANTS, page_key, strip_prefix
from quire.compute.remote.step_claims import ClaimedCost, StepClaims
from quire.model.errors import Reject
from quire.model.files import Product

MAX_BODY_BYTES = 4 * 1024 * 1024  # enough for every page of a long TIFF
LONGEST_DELAY_SECONDS = 366 * 86_400.0
_Number = Annotated[int, Meta(ge=-(2**63), le=2**63 - 1)]


class Reference(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The content of a `.ref.json`."""

    url: str = ""
    ipfs_cid: str | None = None
    type: str | None = None
    size: _Number | None = None
    filename: str | None = None


class CallbackProduct(Struct, frozen=True, kw_only=True):
    role: str
    key: str
    size: _Number
    content_type: str
    facts: dict[str, Any] = field(default_factory=dict)


class CallbackExtension(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What workers of Quire send beyond the published contract: facts and all products of the step, or how it
    failed. `step` is the result of a step that people have written.
    """

    facts: dict[str, Any] = field(default_factory=dict)
    products: tuple[CallbackProduct, ...] = ()
    outcome: Literal["rejected", "erred", "out_of_memory", "interrupted"] = "erred"
    error_class: str = ""
    delay_seconds: Annotated[float, Meta(ge=0, le=LONGEST_DELAY_SECONDS)] = 0.0
    step: StepClaims | None = None
    cost: ClaimedCost | None = None
    warning: str = ""


class Callback(Struct, frozen=True, kw_only=True):
    """The callback of a worker, for a TIFF or a picture. The fields that a success needs are checked later:
    without them the attempt has failed, but the body is valid.
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
    quire: CallbackExtension | None = None


# Products with the size that the worker claims, and the facts of the result.
Claims = tuple[list[tuple[Product, int | None]], dict[str, Any]]


def _read_jpegs(callback: Callback, attempt: int) -> Claims:
    """The pages of a converted TIFF: the first as published, the others under the keys that this attempt was
    given.
    """
    if not callback.output_r2_key or not callback.output_file_name or callback.output_file_size is None:
        raise bad_callback("a success names output_r2_key, output_file_name and output_file_size")
    if callback.output_file_size <= 0:
        raise bad_callback(f"an output has more than {callback.output_file_size} bytes")
    extension = callback.quire or CallbackExtension()
    later = [one for one in extension.products if one.role == JPEG and one.key != callback.output_r2_key]
    pages = 1 + len(later)
    if pages > MAX_PAGES:
        raise bad_callback(f"a callback names {MAX_PAGES} pages at most")
    if extension.facts.get("pages", pages) != pages:
        raise bad_callback(f"the callback names {pages} of {str(extension.facts['pages'])[:20]} pages")
    first = (callback.output_r2_key, callback.output_file_size)
    facts_by_key = {one.key: one.facts for one in extension.products}
    claimed: list[tuple[Product, int | None]] = []
    for page, (key, size) in enumerate([first, *((one.key, one.size) for one in later)], 1):
        if page > 1 and key != page_key(callback.batch_id, callback.task_id, attempt, page):
            raise bad_callback(f"page {page} is not under its key, or pages are missing before it")
        # The digest is not known without reading the bytes again; the next phase does that anyway.
        jpeg = Product(
            role=JPEG,
            key=key,
            size=0,
            content_type="image/jpeg",
            digest="",
            facts=_clean_facts(facts_by_key.get(key, {})) | {"page": page, "pages": pages},
        )
        claimed.append((jpeg, size))
    return claimed, extension.facts | {"pages": pages, "file_name": callback.output_file_name}


def _clean_facts(facts: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in facts.items() if name != "cid" or isinstance(value, str)}


def _read_reference(callback: Callback, attempt: int) -> Claims:  # noqa: ARG001
    """The reference of a picture, whose size only the store knows, and its smaller copies."""
    if not callback.ref_json_r2_key or callback.ref_data is None:
        raise bad_callback("a success names ref_json_r2_key and ref_data")
    if not callback.ref_data.url.startswith(("https://", "http://")):
        raise bad_callback("the url of ref_data begins with http:// or https://")
    extension = callback.quire or CallbackExtension()
    found = next((one.facts for one in extension.products if one.key == callback.ref_json_r2_key), {})
    reference = Product(
        role="ref",
        key=callback.ref_json_r2_key,
        size=0,
        content_type="application/json",
        digest="",
        facts=_clean_facts(found),
    )
    copies: list[tuple[Product, int | None]] = [
        (
            Product(
                role=one.role, key=one.key, size=0, content_type="image/jpeg", digest="", facts=one.facts
            ),
            one.size,
        )
        for one in extension.products
        if one.role in VARIANTS
    ]
    facts = extension.facts | {"ref_data": msgspec.to_builtins(callback.ref_data)}
    if callback.ref_data.ipfs_cid is not None:
        facts["cid"] = callback.ref_data.ipfs_cid
    if callback.archive_r2_key is not None:
        facts["archive_r2_key"] = callback.archive_r2_key
    return [*copies, (reference, None)], facts


# By the step that the worker ran.
CLAIM_READERS: dict[str, Callable[[Callback, int], Claims]] = {
    "tiff_to_jpeg": _read_jpegs,
    "image_variants": _read_reference,
}


def strip_bucket_prefix(callback: Callback, prefix: str) -> Callback:
    """The callback with keys of the blob store; workers that access the bucket use keys of the bucket."""
    if not prefix:
        return callback

    def strip(key: str | None) -> str | None:
        return key and strip_prefix(key, prefix, callback.batch_id)

    extension = callback.quire
    if extension is not None:
        products = [
            structs.replace(one, key=strip_prefix(one.key, prefix, callback.batch_id))
            for one in extension.products
        ]
        extension = structs.replace(extension, products=tuple(products))
    return structs.replace(
        callback,
        output_r2_key=strip(callback.output_r2_key),
        ref_json_r2_key=strip(callback.ref_json_r2_key),
        quire=extension,
    )


def bad_callback(words: str) -> Reject:
    return Reject(words, code="bad_callback")
