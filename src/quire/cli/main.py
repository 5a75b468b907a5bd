"""The `quire` program: starts a command and ends the process with its exit code."""

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 130
_NATIVE_THREADS = "obstore"  # the S3 client


def main() -> None:
    run_command(_run_quire)


def _run_quire() -> None:
    from quire.cli.app import (
        app,
    )  # here: Ctrl-C during the import ends with an exit code, not with a traceback

    app()


def run_command(command: Callable[[], None]) -> NoReturn:
    """Run a command, then end the process."""
    # File names need not fit the terminal's encoding; printing them must never end a run.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    code: str | int | None
    try:
        command()
        code = 0
    except KeyboardInterrupt:
        code = INTERRUPTED
    except SystemExit as ended:
        code = ended.code
    if _NATIVE_THREADS in sys.modules and (code is None or isinstance(code, int)):
        _exit_without_teardown(code or 0)
    sys.exit(code)


def _exit_without_teardown(code: int) -> NoReturn:
    """Does what the interpreter does at exit, except destroying modules: threads of the S3 client may
    still be ending then and would abort the process, whatever the exit code of the command.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no public way to run them
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has closed the pipe
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
