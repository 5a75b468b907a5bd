"""The `quire` command: the first thing that runs, and the last net under it."""

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
    lead(_quire)


def _quire() -> None:
    from quire.cli.app import app  # here, so that Ctrl-C while everything loads is an answer, not a traceback

    app()


def lead(command: Callable[[], None]) -> NoReturn:
    """Run a command to its end, which is the process's."""
    # Names on a disk need not fit the terminal's encoding; showing them must never end a run.
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
        _leave(code or 0)
    sys.exit(code)


def _leave(code: int) -> NoReturn:
    """What the interpreter does at its end but for taking itself apart: threads of the S3 client may still be
    on their way out then, and end the process by SIGABRT, whatever the command has achieved.
    """
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    atexit._run_exitfuncs()  # noqa: SLF001 - there is no other way to ask for them
    for stream in (sys.stdout, sys.stderr):
        with suppress(OSError, ValueError):  # whoever read it has gone
            stream.flush()
    os._exit(code)


if __name__ == "__main__":
    main()
