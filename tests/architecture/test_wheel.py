"""The wheel holds all that the package needs at run time, and asks for no extra."""

import subprocess
import sys
import zipfile
from email.parser import Parser
from pathlib import Path

import pytest

import quire

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src"
INFO = f"quire-{quire.__version__}.dist-info"
# Extras, tools of development, and what is too slow to load for every command: none of them may be needed to
# import the command line.
NOT_CORE = (
    *("obstore", "pytest", "hypothesis", "hatchling", "importlinter", "mypy", "uv"),
    *("litestar", "uvicorn", "redis", "psycopg", "ray", "anthropic", "openai"),
)


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    ran = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    (built,) = folder.glob("*.whl")
    return built


def _names(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def test_every_file_of_the_package_is_in_the_wheel(wheel: Path):
    wanted = {
        path.relative_to(SOURCE).as_posix()
        for path in (SOURCE / "quire").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    assert {"quire/py.typed", "quire/ledger/sqlite/sql/queries.sql"} <= wanted
    assert wanted <= _names(wheel)


def test_nothing_but_the_package_is_in_the_wheel(wheel: Path):
    assert {name.partition("/")[0] for name in _names(wheel)} == {"quire", INFO}


def test_the_wheel_names_its_command_and_its_readme(wheel: Path):
    with zipfile.ZipFile(wheel) as archive:
        metadata = Parser().parsestr(archive.read(f"{INFO}/METADATA").decode())
        scripts = archive.read(f"{INFO}/entry_points.txt").decode()
    assert "quire = quire.cli.main:main" in scripts
    assert str(metadata.get_payload()).startswith("# Quire")


def test_the_command_line_is_imported_from_the_wheel_without_any_extra(wheel: Path):
    program = f"""
import sys
from importlib.abc import MetaPathFinder

class Absent(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {NOT_CORE!r}:
            raise ModuleNotFoundError(f"not a core dependency: {{name}}")

sys.meta_path.insert(0, Absent())
sys.path.insert(0, {str(wheel)!r})
import quire.assembly.components, quire.assembly.engine, quire.cli.app
from importlib import import_module
from quire.cli import commands
from quire.cli.library.commands import COMMANDS
for table in [COMMANDS, *(one for one in vars(commands).values() if isinstance(one, dict))]:
    for entry in table.values():
        import_module(getattr(entry, "target", "quire").partition(":")[0])
assert quire.__file__.startswith({str(wheel)!r}), quire.__file__
from quire.ledger.sqlite.rows import SQL
from quire.database.sql import load_migrations
assert SQL and load_migrations("quire.ledger.sqlite.sql") and load_migrations("quire.queues.sqlite.sql")
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
