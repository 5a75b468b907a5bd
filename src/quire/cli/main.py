"""The `quire` command: the first thing that runs, and the last net under it."""

import sys

INTERRUPTED = 130


def main() -> None:
    # Names on a disk need not fit the terminal's encoding; showing them must never end a run.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        from quire.cli.app import (
            app,  # here, so that Ctrl-C while everything loads is an answer, not a traceback
        )

        app()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
