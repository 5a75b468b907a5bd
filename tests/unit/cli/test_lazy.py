"""Commands are imported when they run: help shows the lines of a table, and the table tells the truth."""

import subprocess
import sys

import pytest
from tests.situations.commands import load_commands
from typer.testing import CliRunner

from quire.cli.app import app
from quire.cli.lazy import CommandEntry, LazyGroup

# What a process may not have imported after a command, by the first parts of names.
HEAVY = (
    *("litestar", "uvicorn", "httpx", "PIL", "pyvips", "pikepdf", "pypdfium2", "obstore", "psycopg", "redis"),
    *("ray", "anthropic", "openai", "tesserocr"),
)
SLOW = ("rich", "msgspec", "asyncio", "pydantic")
ROOMS = ("compute", "tools", "steps", "pipelines", "api", "library", "client", "consumers", "engine.loop")
# Modules loaded at most; a few dozen more than today, for other versions of Python and its libraries.
LIMITS = {"--help": 220, "--version": 220, "batch list": 560}
FORBIDDEN = {
    "--help": (
        *HEAVY,
        "rich",
        "msgspec",
        "asyncio",
        "pydantic",
        "quire.settings",
        "quire.model",
        "quire.assembly",
    ),
    "--version": (*HEAVY, "rich", "msgspec", "asyncio", "pydantic", "quire.settings", "quire.model"),
    "batch list": (*HEAVY, "quire.compute", "quire.tools", "quire.api", "quire.library", "quire.client"),
}
PROGRAM = """
import sys
from quire.cli.app import app
try:
    app(sys.argv[1:])
except SystemExit as ended:
    assert not ended.code, ended.code
print("\\n".join(sys.modules), file=sys.stderr)
"""


def _functions(group, path=()):
    for name, entry in group.entries.items():
        command = group.commands[name]
        if isinstance(command, LazyGroup):
            yield from _functions(command, (*path, name))
        else:
            yield pytest.param(entry, command, id=" ".join((*path, name)))


FUNCTIONS = list(_functions(load_commands()))


@pytest.fixture
def modules(tmp_path):
    """The modules that a process has imported when a command has ended."""

    def run(words):
        home = tmp_path / "home"
        home.mkdir()
        more = [] if words.startswith("-") else ["--home", str(home)]
        ran = subprocess.run(
            [sys.executable, "-c", PROGRAM, *words.split(), *more],
            capture_output=True,
            text=True,
            check=True,
            timeout=60,
            cwd=tmp_path,
        )
        return set(ran.stderr.split())

    return run


@pytest.mark.parametrize("words", LIMITS)
def test_a_command_imports_what_it_uses_and_no_more(modules, words):
    loaded = modules(words)
    assert "quire.cli.app" in loaded
    found = [one for one in loaded if any(f"{one}.".startswith(f"{name}.") for name in FORBIDDEN[words])]
    assert sorted(found) == []
    assert len(loaded) <= LIMITS[words]


@pytest.mark.parametrize(("entry", "command"), FUNCTIONS)
def test_the_table_of_commands_has_the_first_line_of_each_help(entry, command):
    assert isinstance(entry, CommandEntry)
    first = command.help.removeprefix("\b\n").partition("\n\n")[0]
    assert entry.help == " ".join(first.split())


@pytest.mark.parametrize(("entry", "command"), FUNCTIONS)
def test_a_line_of_help_is_short(entry, command):
    assert len(entry.help) <= 65
    assert entry.help.endswith(".")


def test_help_keeps_the_lines_of_examples():
    lines = CliRunner().invoke(app, ["batch", "list", "--help"]).stdout.splitlines()
    assert "    quire batch list --running" in lines


def test_the_former_name_of_the_scheduler_is_hidden_and_works():
    assert "conductor" not in CliRunner().invoke(app, ["--help"]).stdout
    ran = CliRunner().invoke(app, ["conductor", "--help"])
    assert (ran.exit_code, "quire scheduler" in ran.stdout) == (0, True)


def test_an_unknown_command_is_a_mistake_and_the_nearest_is_named():
    ran = CliRunner().invoke(app, ["bacth"])
    assert ran.exit_code == 2
    assert "batch" in ran.stderr


@pytest.mark.parametrize(
    ("words", "expected"),
    [("quire sch", "scheduler"), ("quire batch re", "resume"), ("quire run --pri", "--priority")],
)
def test_the_shell_completes_commands_and_options(words, expected, tmp_path):
    ran = subprocess.run(
        [sys.executable, "-c", "from quire.cli.app import app; app(prog_name='quire')"],
        env={"_QUIRE_COMPLETE": "complete_bash", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
        cwd=tmp_path,
    )
    assert expected in ran.stdout.split()
