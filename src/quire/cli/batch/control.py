"""`quire batch retry, cancel, pause, resume, reset, priority`: a person intervenes."""

import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Annotated, TypeVar

import msgspec
import typer
from msgspec import UNSET, UnsetType

from quire.batches import control, inspection
from quire.assembly.components import Components
from quire.batches.control import BudgetChange, RetryPreview
from quire.batches.lines import BatchDetails
from quire.cli import exits
from quire.cli.batch.options import (
    Config,
    Home,
    Id,
    Json,
    Reason,
    act_of,
    answered,
    print_json,
)
from quire.cli.text import many, shown
from quire.ledger.port import OperatorAction, Selection
from quire.model.batch import Batch, Stage
from quire.model.cost import exact, micros

N = TypeVar("N", int, float)

Money = Annotated[
    str | None,
    typer.Option("--budget-money", help="What it may cost.", metavar="AMOUNT|none", show_default=False),
]
Tokens = Annotated[
    str | None,
    typer.Option("--budget-tokens", help="Model tokens.", metavar="NUMBER|none", show_default=False),
]
Seconds = Annotated[
    str | None,
    typer.Option("--budget-seconds", help="Compute time.", metavar="SECONDS|none", show_default=False),
]

GOES_ON = (
    "It goes on by itself where a conductor and workers are running; otherwise start them with "
    "`quire conductor --workers 2 --until-idle`, or give the same `quire run` again."
)
TAKES_FILES_IN = "It still has files to take in: give the same `quire run` again."


def retry(
    batch_id: Id,
    file: Annotated[str | None, typer.Option("--file", help="Only what failed of this file.")] = None,
    error_class: Annotated[
        str | None, typer.Option("--class", help="Only what failed with this error class.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only tell what would run.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    reason: Reason = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Run what failed once more, or let a cancelled batch or one in error go on where it stood.

    What would run is told first. Files that are done are not touched; earlier attempts stay on record.
    Asks before it begins, unless --yes or --json is given or nobody is at the terminal.

    Examples:
      quire batch retry 01JA… --dry-run

      quire batch retry 01JA… --class timeout --reason "more memory now"

      quire batch retry 01JA… --file scans/p1.tif --yes

    Exit codes: 0 taken up (or told, with --dry-run), 1 could not or not wanted, 2 usage.
    """
    selection = Selection(error_class=error_class, path=file)

    async def look(office: Components, _settings: object) -> RetryPreview:
        return await control.preview_retry(office, batch_id, selection)

    async def do(office: Components, _settings: object) -> tuple[RetryPreview, BatchDetails]:
        done = await control.retry(office, batch_id, act_of(office, reason), selection)
        return done, await inspection.show(office, batch_id)

    preview = answered(look, home=home, config=config, json_output=json_output)
    if not json_output:
        _tell_preview(preview)
    if dry_run:
        if json_output:
            _print_preview(preview, did=None)
        return
    # Two visits to the office: nobody should have to wait, with Ctrl-C unheard, for an answer in between.
    asks = not yes and not json_output and _somebody_is_there()
    if asks and not typer.confirm("Do it?", err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(exits.COULD_NOT_RUN)
    preview, standing = answered(do, home=home, config=config, json_output=json_output)
    if json_output:
        _print_preview(preview, did="continued" if preview.kind == "continues" else "retried")
    else:
        _tell_done(standing, "continued" if preview.kind == "continues" else "taken up again")


def cancel(
    batch_id: Id, reason: Reason = "", json_output: Json = False, home: Home = None, config: Config = None
) -> None:
    """End a batch here. What it has settled stays; it can be continued later with `retry`.

    Examples:
      quire batch cancel 01JA… --reason "wrong folder"

    Exit codes: 0 cancelled, 1 could not (unknown, or it has ended), 2 usage.
    """
    _do(batch_id, control.cancel, "cancelled", reason, home, config, json_output=json_output)


def pause(
    batch_id: Id, reason: Reason = "", json_output: Json = False, home: Home = None, config: Config = None
) -> None:
    """Start no further task of a batch; what is running finishes.

    Examples:
      quire batch pause 01JA… --reason "the scanner needs the machine"

    Exit codes: 0 paused, 1 could not (unknown, paused already, or it has ended), 2 usage.
    """
    _do(batch_id, control.pause, "paused", reason, home, config, json_output=json_output)


def resume(
    batch_id: Id,
    budget_money: Money = None,
    budget_tokens: Tokens = None,
    budget_seconds: Seconds = None,
    reason: Reason = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Let a batch go on that is paused, or held because its budget is spent.

    A limit that is given takes the place of the old one, `none` lifts it; the others stay.

    Examples:
      quire batch resume 01JA…

      quire batch resume 01JA… --budget-money 12.50 --budget-seconds none

    Exit codes: 0 resumed, 1 could not (unknown, not held, or the budget is still spent), 2 usage.
    """
    limits = BudgetChange(
        seconds=_limit(budget_seconds, "--budget-seconds", float),
        tokens=_limit(budget_tokens, "--budget-tokens", _whole),
        money_micros=_limit(budget_money, "--budget-money", micros),
    )

    async def resuming(office: Components, name: str, act: OperatorAction) -> Batch:
        return await control.resume(office, name, act, limits)

    _do(batch_id, resuming, "resumed", reason, home, config, json_output=json_output)


def reset(
    batch_id: Id, reason: Reason = "", json_output: Json = False, home: Home = None, config: Config = None
) -> None:
    """End a batch in error, with the text "Manually reset by admin".

    For a batch that hangs: its start message, delivered again, or `retry` lets it go on where it stood.

    Examples:
      quire batch reset 01JA…

    Exit codes: 0 reset, 1 could not (unknown, or it has ended), 2 usage.
    """
    _do(batch_id, control.reset, "reset", reason, home, config, json_output=json_output)


def priority(
    batch_id: Id,
    tier: Annotated[
        str, typer.Argument(help="1_critical to 5_background; the word or number will do.", metavar="TIER")
    ],
    reason: Reason = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Say how urgent a batch is.

    Examples:
      quire batch priority 01JA… high

    Exit codes: 0 set, 1 could not (unknown batch or tier, or it has ended), 2 usage.
    """

    async def prioritising(office: Components, name: str, act: OperatorAction) -> Batch:
        return await control.prioritise(office, name, tier, act)

    _do(batch_id, prioritising, "given another priority", reason, home, config, json_output=json_output)


def _do(
    batch_id: str,
    doing: Callable[[Components, str, OperatorAction], Awaitable[Batch]],
    did: str,
    reason: str,
    home: Path | None,
    config: Path | None,
    *,
    json_output: bool,
) -> None:
    async def work(office: Components, _settings: object) -> BatchDetails:
        await doing(office, batch_id, act_of(office, reason))
        return await inspection.show(office, batch_id)

    standing = answered(work, home=home, config=config, json_output=json_output)
    if json_output:
        told = {"batch_id": standing.batch_id, "did": did, "status": standing.status, "state": standing.state}
        print_json(told | {"tier": standing.tier})
    else:
        _tell_done(standing, did)


def _limit(text: str | None, option: str, convert: Callable[[Decimal], N]) -> N | UnsetType | None:
    """Not given: stays; `none`: lifted."""
    if text is None:
        return UNSET
    if text.casefold() == "none":
        return None
    try:
        return convert(exact(text))
    except ValueError as error:
        raise typer.BadParameter(f"{option} takes a number that is not negative, or none") from error


def _whole(number: Decimal) -> int:
    if number != int(number):
        raise ValueError(number)
    return int(number)


def _somebody_is_there() -> bool:
    return sys.stdin.isatty()


def _tell_preview(preview: RetryPreview) -> None:
    if preview.kind == "continues":
        where = f" in {shown(preview.from_phase)}" if preview.from_phase else ""
        typer.echo(f"Batch {preview.batch_id} would go on where it stood{where}:")
        typer.echo(f"  {many(preview.unsettled, 'task')} without an end")
    else:
        files = many(preview.files, "file")
        typer.echo(f"Batch {preview.batch_id} would run again, in round {preview.round}, for {files}:")
    for group in preview.failed:
        words = f"{shown(group.phase)}  {shown(group.error_class)}"
        typer.echo(f"  {many(group.tasks, 'failed task')}  {words}")


def _print_preview(preview: RetryPreview, *, did: str | None) -> None:
    print_json(msgspec.to_builtins(preview) | {"tasks": preview.tasks, "did": did})


def _tell_done(standing: BatchDetails, did: str) -> None:
    typer.echo(f"Batch {standing.batch_id} was {did}. Now: {shown(standing.state)}")
    if did in {"resumed", "continued", "taken up again"}:
        typer.echo(TAKES_FILES_IN if standing.status == Stage.OPEN.name else GOES_ON, err=True)
