"""The `quire` program: starts a command and ends the process with its exit code."""

import atexit
import gc
import os
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import NoReturn

INTERRUPTED = 130
# Imports create many objects and hardly any garbage; with the default of 700 the collector takes a tenth
# of the time of a short command.
_GC_THRESHOLD = 20_000
_THREADS_SECONDS = 5.0


def main() -> None:
    run_command(_run_quire)


def _run_quire() -> None:
    # Here: Ctrl-C during the import ends with an exit code, not with a traceback.
    from quire.cli.app import app

    app()


def run_command(command: Callable[[], None]) -> NoReturn:
    """Run a command, then end the process."""
    gc.set_threshold(_GC_THRESHOLD)
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
    if isinstance(code, str):
        sys.exit(code)
    _exit_without_teardown(code or 0)


def _exit_without_teardown(code: int) -> NoReturn:
    """Does what the interpreter does at exit, except destroying every module. That takes a sixth of a short
    command's time, and threads of the S3 client that are still ending would abort the process, whatever its
    exit code.
    """
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):
            stream.flush()
    # A thread that waits for a disk or a network share which does not answer would keep the process for ever.
    late = threading.Timer(_THREADS_SECONDS, os._exit, [code])
    late.daemon = True
    late.start()
    # There is no public way to do this. The first also ends idle threads of pools, which never end alone.
    threading._shutdown()  # type: ignore[attr-defined]  # noqa: SLF001
    atexit._run_exitfuncs()  # noqa: SLF001
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # the reader has closed the pipe
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
