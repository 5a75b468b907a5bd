"""Checks the output of a step before it is stored and reported.

Promise: an output that passes can be stored and encoded. Steps are written by others; a wrong output becomes
a failed attempt that names the step and the mistake.
"""

import stat
from pathlib import Path
from typing import Any, Protocol

import msgspec

from quire.compute.pool.output_names import check_distinct, check_name
from quire.model.asset import NAMED_ID, AssetDraft
from quire.model.errors import Reject
from quire.model.files import Change
from quire.model.queues import is_queue_name
from quire.model.step import OutputFile, StepOutput
from quire.model.work import LONGEST_WAIT_SECONDS, ExternalRequest, StepCall
from quire.queues.port import MAX_MESSAGE_BYTES

MAX_TAG_BYTES = 200


class CheckedRun(Protocol):
    """The run whose output is checked."""

    call: StepCall
    folder: Path

    def is_input_file(self, path: Path) -> bool:
        """Is this one of the input's files? A step must not return those."""
        ...


def check_output(output: object, run: CheckedRun) -> StepOutput:
    """The output itself. Raises Reject: `bad_result`, `empty_product`, `bad_name` or `name_twice`."""
    if not isinstance(output, StepOutput):
        raise _bad(run, f"a {type(output).__name__} instead of a StepOutput")
    if output.facts:
        _check_facts(output.facts, run, "facts")
    if output.files != ():
        _check_files(output.files, run)
    if output.asset is not None:
        _check_asset(output.asset, run)
    if output.tags != ():
        _check_tags(output.tags, run)
    if output.external is not None:
        _check_request(output.external, run)
    return output


def _check_files(files: Any, run: CheckedRun) -> None:
    if not isinstance(files, tuple):
        raise _bad(run, f"`files` as a {type(files).__name__} instead of a tuple")
    seen: set[Path] = set()
    for one in files:
        if not isinstance(one, OutputFile):
            raise _bad(run, f"a {type(one).__name__} in `files` instead of an OutputFile")
        if not isinstance(one.path, Path):
            raise _bad(run, f"a product {one.role!r} whose path is a {type(one.path).__name__}")
        if one.path in seen:
            raise _bad(run, f"the file {one.path.name!r} as two products")
        seen.add(one.path)
        _check_file(one, run)
        _check_place(one, run)
        if one.facts:
            _check_facts(one.facts, run, f"facts of {one.path.name!r}")
    check_distinct((one.name for one in files if one.name), run.call.step)


def _check_place(file: OutputFile, run: CheckedRun) -> None:
    """What the output is called and what it does to the list."""
    for name in (file.name, file.preferred):
        if name != "":
            check_name(name, run.call.step)
    if file.change != Change.HANG and file.change not in list(Change):
        raise _bad(run, f"the product {file.path.name!r} with an unknown change {str(file.change)[:20]!r}")
    if file.tags != ():
        _check_tags(file.tags, run)


def _check_tags(tags: Any, run: CheckedRun) -> None:
    if not isinstance(tags, tuple) or not all(isinstance(tag, str) for tag in tags):
        raise _bad(run, "`tags` that are not a tuple of texts")
    for tag in tags:
        if not tag.isprintable() or not 0 < len(tag.encode()) <= MAX_TAG_BYTES:
            raise _bad(
                run, f"a tag {tag[:80]!r} that is empty, longer than {MAX_TAG_BYTES} bytes or unprintable"
            )


def check_request(request: ExternalRequest, step: str) -> None:
    """Raises Reject `bad_result` for a request that cannot be sent, or whose answer nobody could await."""
    if request.queue and not is_queue_name(request.queue):
        raise _bad_of(step, f"a request to {request.queue[:80]!r}, which is no name of a queue")
    if len(request.body) > MAX_MESSAGE_BYTES:
        raise _bad_of(step, f"a request of {len(request.body)} bytes, and {MAX_MESSAGE_BYTES} is the limit")
    if not 0 < request.within_seconds <= LONGEST_WAIT_SECONDS:
        raise _bad_of(step, f"a request with a deadline in {request.within_seconds:g} s")


def _check_request(request: Any, run: CheckedRun) -> None:
    if not isinstance(request, ExternalRequest):
        raise _bad(run, f"`external` as a {type(request).__name__} instead of an ExternalRequest")
    try:
        msgspec.convert(msgspec.to_builtins(request), ExternalRequest)
    except Exception as error:
        raise _bad(run, f"a request that cannot be sent: {error}") from error
    check_request(request, run.call.step)


def _check_asset(asset: Any, run: CheckedRun) -> None:
    if not isinstance(asset, AssetDraft):
        raise _bad(run, f"`asset` as a {type(asset).__name__} instead of an AssetDraft")
    if not isinstance(asset.id, str) or not NAMED_ID.fullmatch(asset.id):
        raise _bad(run, "an asset whose id is not a ULID")
    try:
        msgspec.convert(msgspec.to_builtins(asset), AssetDraft)
    except Exception as error:
        raise _bad(run, f"an asset that cannot be recorded: {error}") from error


def _check_file(file: OutputFile, run: CheckedRun) -> None:
    path = file.path
    try:
        # Most products lie in the folder itself, and that needs no walk through the file system.
        inside = path.parent == run.folder or path.resolve().is_relative_to(run.folder.resolve())
        found = path.lstat() if inside else None
    except (OSError, ValueError, RuntimeError) as error:  # RuntimeError: links that run in a circle
        raise _bad(run, f"the product {path.name!r}, which is missing ({type(error).__name__})") from error
    if found is None:
        raise _bad(run, f"the product {path.name!r}, which lies outside its folder")
    if not stat.S_ISREG(found.st_mode):
        raise _bad(run, f"the product {path.name!r}, which is {_kind(found.st_mode)} and not a file")
    if run.is_input_file(path):
        raise _bad(run, f"its own input as the product {file.role!r}; copy it")
    if found.st_size == 0:
        raise Reject(
            f"the step {run.call.step} returned the product {path.name!r}, which is empty",
            code="empty_product",
        )


def _check_facts(facts: Any, run: CheckedRun, what: str) -> None:
    try:
        # Both: facts travel as MessagePack and are shown as JSON, and neither takes all that the other does.
        msgspec.json.encode(facts)
        msgspec.msgpack.decode(msgspec.msgpack.encode(facts), type=dict[str, Any])
    except Exception as error:
        raise _bad(run, f"{what} that cannot be encoded: {error}") from error


def _kind(mode: int) -> str:
    if stat.S_ISLNK(mode):
        return "a symbolic link"
    return "a folder" if stat.S_ISDIR(mode) else "a special file"


def _bad(run: CheckedRun, what: str) -> Reject:
    return _bad_of(run.call.step, what)


def _bad_of(step: str, what: str) -> Reject:
    return Reject(f"the step {step} returned {what}", code="bad_result")
