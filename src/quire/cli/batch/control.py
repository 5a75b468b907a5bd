"""`quire batch retry, cancel, pause, resume, reset, priority`: commands that change a batch."""

from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TypeVar

import typer

from quire.cli import exits
from quire.cli.components import operator_action, use_components
from quire.cli.options import BatchId, Config, Home, Json, Yes, is_interactive, print_json
from quire.cli.text import plural, printable

if TYPE_CHECKING:
    from msgspec import UnsetType

    from quire.assembly.components import Components
    from quire.batches.control import RetryPreview
    from quire.batches.lines import BatchDetails
    from quire.ledger.port import OperatorAction
    from quire.model.batch import Batch

N = TypeVar("N", int, float)
Change = Callable[["Components", str, "OperatorAction"], Awaitable["Batch"]]

Reason = Annotated[
    str, typer.Option("--reason", help="Reason, recorded in the events of the batch.", show_default=False)
]
Money = Annotated[
    str | None, typer.Option("--budget-money", help="Cost limit.", metavar="AMOUNT|none", show_default=False)
]
Tokens = Annotated[
    str | None,
    typer.Option("--budget-tokens", help="Limit on model tokens.", metavar="NUMBER|none", show_default=False),
]
Seconds = Annotated[
    str | None,
    typer.Option("--budget-seconds", help="Compute time limit.", metavar="SECONDS|none", show_default=False),
]

CONTINUES = (
    "A running scheduler with workers continues it. If none is running, start one with "
    "`quire scheduler --workers 2 --until-idle`, or run the same `quire run` again."
)
AWAITS_FILES = "It still has files to take in: run the same `quire run` again."


def retry(
    batch_id: BatchId,
    file: Annotated[str | None, typer.Option("--file", help="Retry only failed tasks of this file.")] = None,
    error_class: Annotated[
        str | None, typer.Option("--class", help="Retry only tasks that failed with this error class.")
    ] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only show what would run.")] = False,
    yes: Yes = False,
    reason: Reason = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Retry failed files, or continue a stopped batch.

    A batch that was cancelled or ended with an error picks up where it left off. Finished files are not
    touched; earlier attempts stay on record. Shows first what will run, and asks for confirmation on a
    terminal unless --yes or --json is given.

    Examples:
      quire batch retry 01JA… --dry-run
      quire batch retry 01JA… --class timeout --reason "more memory now"
      quire batch retry 01JA… --file scans/p1.tif --yes

    Exit codes: 0 retried (or shown, with --dry-run), 1 could not run or not confirmed, 2 usage.
    """
    from quire.batches import control, inspection
    from quire.ledger.port import TaskSelection

    selection = TaskSelection(error_class=error_class, path=file)

    async def start(components: "Components", _settings: object) -> "tuple[RetryPreview, BatchDetails]":
        action = operator_action(components, reason)
        retried = await control.retry(components, batch_id, action, selection)
        return retried, await inspection.show(components, batch_id)

    preview = use_components(
        lambda components, _: control.preview_retry(components, batch_id, selection),
        home=home,
        config=config,
        json_output=json_output,
    )
    if not json_output:
        _show_preview(preview)
    if dry_run:
        if json_output:
            _print_preview(preview, did=None)
        return
    # The components are closed while the question is open: Ctrl-C answers it at once.
    asks = not yes and not json_output and is_interactive()
    if asks and not typer.confirm("Continue?", err=True):
        typer.echo("Nothing was changed.", err=True)
        raise typer.Exit(exits.COULD_NOT_RUN)
    preview, details = use_components(start, home=home, config=config, json_output=json_output)
    did = "continued" if preview.kind == "continues" else "retried"
    if json_output:
        _print_preview(preview, did=did)
    else:
        _show_change(details, did)


def cancel(
    batch_id: BatchId,
    reason: Reason = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Cancel a batch and keep the results so far.

    `quire batch retry` can continue it later.

    Examples:
      quire batch cancel 01JA… --reason "wrong folder"

    Exit codes: 0 cancelled, 1 could not run (unknown batch, or it has ended), 2 usage.
    """
    from quire.batches import control

    _change(batch_id, control.cancel, "cancelled", reason, home, config, json_output=json_output)


def pause(
    batch_id: BatchId,
    reason: Reason = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Stop starting tasks of a batch.

    Running tasks finish. `quire batch resume` continues the batch.

    Examples:
      quire batch pause 01JA… --reason "the scanner needs the machine"

    Exit codes: 0 paused, 1 could not run (unknown batch, already paused, or it has ended), 2 usage.
    """
    from quire.batches import control

    _change(batch_id, control.pause, "paused", reason, home, config, json_output=json_output)


def resume(
    batch_id: BatchId,
    budget_money: Money = None,
    budget_tokens: Tokens = None,
    budget_seconds: Seconds = None,
    reason: Reason = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Resume a batch that is paused or over budget.

    A limit given here replaces the old one, `none` removes it; the other limits stay.

    Examples:
      quire batch resume 01JA…
      quire batch resume 01JA… --budget-money 12.50 --budget-seconds none

    Exit codes: 0 resumed, 1 could not run (unknown batch, not held, or the budget is still spent), 2 usage.
    """
    from quire.batches import control
    from quire.model.cost import to_micros

    limits = control.BudgetChange(
        seconds=_parse_limit(budget_seconds, "--budget-seconds", float),
        tokens=_parse_limit(budget_tokens, "--budget-tokens", _to_integer),
        money_micros=_parse_limit(budget_money, "--budget-money", to_micros),
    )

    async def change(components: "Components", name: str, action: "OperatorAction") -> "Batch":
        return await control.resume(components, name, action, limits)

    _change(batch_id, change, "resumed", reason, home, config, json_output=json_output)


def reset(
    batch_id: BatchId,
    reason: Reason = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """End a stuck batch with an error.

    The text of the error is "Manually reset by admin". To continue the batch where it left off, use
    `quire batch retry` or deliver its start message again.

    Examples:
      quire batch reset 01JA…

    Exit codes: 0 reset, 1 could not run (unknown batch, or it has ended), 2 usage.
    """
    from quire.batches import control

    _change(batch_id, control.reset, "reset", reason, home, config, json_output=json_output)


def priority(
    batch_id: BatchId,
    tier: Annotated[
        str,
        typer.Argument(help="1_critical to 5_background; the number or the word is enough.", metavar="TIER"),
    ],
    reason: Reason = "",
    json_output: Json = False,
    home: Home = None,
    config: Config = None,
) -> None:
    """Set the priority of a batch.

    Examples:
      quire batch priority 01JA… high

    Exit codes: 0 set, 1 could not run (unknown batch or priority, or it has ended), 2 usage.
    """
    from quire.batches import control

    async def change(components: "Components", name: str, action: "OperatorAction") -> "Batch":
        return await control.prioritise(components, name, tier, action)

    _change(batch_id, change, "given another priority", reason, home, config, json_output=json_output)


def _change(
    batch_id: str,
    change: Change,
    did: str,
    reason: str,
    home: Path | None,
    config: Path | None,
    *,
    json_output: bool,
) -> None:
    from quire.batches import inspection

    async def work(components: "Components", _settings: object) -> "BatchDetails":
        await change(components, batch_id, operator_action(components, reason))
        return await inspection.show(components, batch_id)

    details = use_components(work, home=home, config=config, json_output=json_output)
    if json_output:
        document = {
            "batch_id": details.batch_id,
            "did": did,
            "status": details.status,
            "state": details.state,
            "summary": details.summary,
        }
        print_json(document | {"tier": details.tier})
    else:
        _show_change(details, did)


def _parse_limit(text: str | None, option: str, convert: Callable[[Decimal], N]) -> "N | UnsetType | None":
    """Not given: the limit stays; `none`: it is removed."""
    from msgspec import UNSET

    from quire.model.cost import parse_money

    if text is None:
        return UNSET
    if text.casefold() == "none":
        return None
    try:
        return convert(parse_money(text))
    except ValueError as error:
        raise typer.BadParameter(f"{option} takes a number of at least 0, or none") from error


def _to_integer(number: Decimal) -> int:
    if number != int(number):
        raise ValueError(number)
    return int(number)


def _show_preview(preview: "RetryPreview") -> None:
    if preview.kind == "continues":
        where = f" in {printable(preview.from_phase)}" if preview.from_phase else ""
        typer.echo(f"Batch {preview.batch_id} would pick up where it left off{where}:")
        typer.echo(f"  {plural(preview.unsettled, 'unfinished task')}")
    else:
        files = plural(preview.files, "file")
        typer.echo(f"Batch {preview.batch_id} would run again, in round {preview.round}, for {files}:")
    for group in preview.failed:
        words = f"{printable(group.phase)}  {printable(group.error_class)}"
        typer.echo(f"  {plural(group.tasks, 'failed task')}  {words}")


def _print_preview(preview: "RetryPreview", *, did: str | None) -> None:
    import msgspec

    print_json(msgspec.to_builtins(preview) | {"tasks": preview.tasks, "did": did})


def _show_change(details: "BatchDetails", did: str) -> None:
    from quire.model.batch import Stage

    typer.echo(f"Batch {details.batch_id} was {did}. Now: {printable(details.summary)}")
    if did in {"resumed", "continued", "retried"}:
        typer.echo(AWAITS_FILES if details.status == Stage.OPEN.name else CONTINUES, err=True)
