"""The asset that a worker which calls back has made of its picture, as a draft for the registry.

Promise: whatever is claimed, a draft can be recorded and delivered: its id is that of the link in the
reference, its type is one of pictures, its sides are numbers of a picture. Must not know: the store.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from quire.compute.remote.callback_body import Callback, CallbackExtension, bad_callback
from quire.model.asset import ID, LONGEST_TEXT, MAX_SIDE, NAMED_ID, TILES, AssetDraft
from quire.model.files import File, Product

# Browsers display these without running anything that is in them.
PICTURES = frozenset({"image/jpeg", "image/png", "image/webp"})
_UNKNOWN = "application/octet-stream"  # delivered as a download, never displayed


def draft_asset(callback: Callback, file: File, options: Mapping[str, Any]) -> AssetDraft | None:
    """The asset of the reference; None for a link that leads to a registry of others. `file` is the picture,
    `options` are those of the step. Raises Reject `bad_callback`. The published callback does not name the
    size of a picture: then its sides are 0.
    """
    reference = callback.ref_data
    ours = f"{str(options.get('public_url', '')).rstrip('/')}/asset/"
    if reference is None or not reference.url.startswith(ours):
        return None
    asset_id = reference.url.removeprefix(ours)
    if not ID.fullmatch(asset_id):
        raise bad_callback(f"the url of ref_data ends with {asset_id[:80]!r}, which is no id of an asset")
    facts = (callback.quire or CallbackExtension()).facts
    if facts.get("asset_id", asset_id) != asset_id:
        raise bad_callback("the facts and the url of ref_data name different assets")
    width, height = read_sides(facts)
    cid = reference.ipfs_cid
    return AssetDraft(
        id=asset_id,
        content_type=_choose_type(reference.type, file.content_type),
        width=width,
        height=height,
        cid=cid if cid and len(cid) <= LONGEST_TEXT else None,
    )


def check_draft(draft: AssetDraft, products: Iterable[Product]) -> None:
    """Raises Reject `bad_callback` for a draft of a step that people have written, or for copies, that cannot
    be recorded.
    """
    if not NAMED_ID.fullmatch(draft.id):
        raise bad_callback("the id of the asset is not a ULID")
    if draft.content_type not in PICTURES:
        raise bad_callback(
            f"an asset is one of {', '.join(sorted(PICTURES))}, not {draft.content_type[:80]!r}"
        )
    if draft.cid is not None and len(draft.cid) > LONGEST_TEXT:
        raise bad_callback(f"the cid of an asset has {LONGEST_TEXT} characters at most")
    read_sides({"width": draft.width, "height": draft.height})
    check_copies(products)


def check_copies(products: Iterable[Product]) -> None:
    """Raises Reject `bad_callback`."""
    for one in products:
        if one.role == TILES:
            raise bad_callback("tiles are made by workers on local, queue or ray, not on process and fly")
        read_sides(one.facts)


def read_sides(facts: Mapping[str, Any]) -> tuple[int, int]:
    """Width and height; 0 where they are not said. Raises Reject `bad_callback`."""
    sides = facts.get("width", 0), facts.get("height", 0)
    for side in sides:
        if isinstance(side, bool) or not isinstance(side, int) or not 0 <= side <= MAX_SIDE:
            raise bad_callback(f"the sides of a picture are from 0 to {MAX_SIDE}, not {str(side)[:20]}")
    return sides


def _choose_type(claimed: str | None, known: str) -> str:
    for one in (claimed, known):
        kind = "image/jpeg" if one == "image/jpg" else one
        if kind in PICTURES:
            return kind
    return _UNKNOWN
