"""`quire task`: one task of a batch as a process of its own, for machines that come and go."""

import asyncio

import typer

from quire.cli import exits
from quire.cli.errors import told_to_people

task = typer.Typer(
    name="task", help="Work on single tasks, on machines that come and go.", no_args_is_help=True
)


@task.callback()
def _group() -> None:
    """Work on single tasks, on machines that come and go."""


@task.command("run")
def run() -> None:
    """Do the one task that the environment describes, and call back.

    For containers and machines that a server starts: TASK_ID, BATCH_ID, INPUT_R2_KEY, CALLBACK_URL and, for
    the bytes, INPUT_URL and OUTPUT_URL, or R2_BUCKET with its keys. No settings are read.

    Examples:
      quire task run

    Exit codes: 0 the task is done, 1 it failed, or nobody could be told.
    """
    from quire.assembly.remote_worker import run_errand

    with told_to_people(json_output=False):
        if not asyncio.run(run_errand()):
            raise typer.Exit(exits.COULD_NOT_RUN)
