"""The `blobforge` command: the commands of `quire library` under the name that scripts know."""

from quire.cli.main import lead


def main() -> None:
    lead(_blobforge)


def _blobforge() -> None:
    from quire.cli.library.commands import assembled  # late, as in `quire.cli.main`

    assembled("blobforge")(prog_name="blobforge")


if __name__ == "__main__":
    main()
