"""Looks at what a step gave back, before anybody relies on it.

Promise: what passes can be stored and told. Steps are written by others; whatever they return becomes at
worst a failed attempt that names the step and the mistake.
"""

import stat
from pathlib import Path
from typing import Any

import msgspec

from quire.compute.pool.job import Job
from quire.model.asset import NAMED_ID, AssetDraft
from quire.model.errors import Reject
from quire.model.step import Made, StepOutput


def checked(output: object, job: Job) -> StepOutput:
    """The output itself. Raises Reject with code `bad_result` or `empty_product`."""
    if not isinstance(output, StepOutput):
        raise _bad(job, f"a {type(output).__name__} instead of a StepOutput")
    if output.facts:
        _check_facts(output.facts, job, "facts")
    if output.made != ():
        _check_made(output.made, job)
    if output.asset is not None:
        _check_asset(output.asset, job)
    return output


def _check_made(made: Any, job: Job) -> None:
    if not isinstance(made, tuple):
        raise _bad(job, f"`made` as a {type(made).__name__} instead of a tuple")
    seen: set[Path] = set()
    for one in made:
        if not isinstance(one, Made):
            raise _bad(job, f"a {type(one).__name__} in `made` instead of a Made")
        if not isinstance(one.path, Path):
            raise _bad(job, f"a product {one.role!r} whose path is a {type(one.path).__name__}")
        if one.path in seen:
            raise _bad(job, f"the file {one.path.name!r} as two products")
        seen.add(one.path)
        _check_file(one, job)
        if one.facts:
            _check_facts(one.facts, job, f"facts of {one.path.name!r}")


def _check_asset(asset: Any, job: Job) -> None:
    if not isinstance(asset, AssetDraft):
        raise _bad(job, f"`asset` as a {type(asset).__name__} instead of an AssetDraft")
    if not isinstance(asset.id, str) or not NAMED_ID.fullmatch(asset.id):
        raise _bad(job, "an asset whose id is not a ULID")
    try:
        msgspec.convert(msgspec.to_builtins(asset), AssetDraft)
    except Exception as error:
        raise _bad(job, f"an asset that cannot be recorded: {error}") from error


def _check_file(made: Made, job: Job) -> None:
    path = made.path
    try:
        # Most products lie in the folder itself, and that needs no walk through the file system.
        inside = path.parent == job.folder or path.resolve().is_relative_to(job.folder.resolve())
        found = path.lstat() if inside else None
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that run in a circle
        raise _bad(job, f"the product {path.name!r}, which is not there ({type(error).__name__})") from error
    if found is None:
        raise _bad(job, f"the product {path.name!r}, which lies outside its folder")
    if not stat.S_ISREG(found.st_mode):
        raise _bad(job, f"the product {path.name!r}, which is {_kind(found.st_mode)} and not a file")
    if job.was_fetched(path):
        raise _bad(job, f"its own input as the product {made.role!r}; copy it")
    if found.st_size == 0:
        raise Reject(
            f"the step {job.call.step} made the product {path.name!r} without a single byte",
            code="empty_product",
        )


def _check_facts(facts: Any, job: Job, what: str) -> None:
    try:
        # Both: facts travel as MessagePack and are shown as JSON, and neither takes all that the other does.
        msgspec.json.encode(facts)
        msgspec.msgpack.decode(msgspec.msgpack.encode(facts), type=dict[str, Any])
    except Exception as error:
        raise _bad(job, f"{what} that cannot be told: {error}") from error


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a folder" if stat.S_ISDIR(mode) else "a special file"


def _bad(job: Job, what: str) -> Reject:
    return Reject(f"the step {job.call.step} gave back {what}", code="bad_result")
