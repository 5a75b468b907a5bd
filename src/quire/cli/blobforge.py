"""The `blobforge` command: the commands of `quire library` under the name that scripts know."""

import sys

from quire.cli.main import INTERRUPTED


def main() -> None:
    # As in `quire.cli.main`: odd names never end a run, nor does Ctrl-C while everything loads.
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        from quire.cli.library import assembled

        assembled("blobforge")(prog_name="blobforge")
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)


if __name__ == "__main__":
    main()
