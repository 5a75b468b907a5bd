"""`quire task run`: one task of a batch as a process of its own, on a machine that a server starts."""

import typer

from quire.cli import exits
from quire.cli.errors import exit_on_error


def run() -> None:
    """Run the task that the environment describes.

    For containers and machines that a server starts; reports the result to CALLBACK_URL. Reads the variables
    TASK_ID, BATCH_ID, INPUT_R2_KEY and, for the bytes, INPUT_URL and OUTPUT_URL, or R2_BUCKET with its keys.
    Reads no settings, except `pipelines` and `model` for a step of a pipeline of your own.

    Examples:
      quire task run

    Exit codes: 0 the task is done, 1 it failed, or the callback failed.
    """
    from quire.assembly.remote_worker import run_remote_task

    with exit_on_error(json_output=False):
        if not run_remote_task():
            raise typer.Exit(exits.COULD_NOT_RUN)
