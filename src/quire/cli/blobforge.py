"""The `blobforge` command: the commands of `quire library` under the name that scripts know."""

from quire.cli.main import run_command


def main() -> None:
    run_command(_blobforge)


def _blobforge() -> None:
    from quire.cli.library.commands import build_library_app

    build_library_app("blobforge", add_completion=True)(prog_name="blobforge")


if __name__ == "__main__":
    main()
