"""The page on work that leaves the process names all that a worker is told, and the files beside it exist."""

import re
from pathlib import Path

import pytest

from quire.compute.remote.output_keys import RESULT, ROLES, url_variable

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "how-to" / "scale-out.md").read_text("utf-8")


def _variables() -> set[str]:
    said = "".join(
        (ROOT / "src/quire" / name).read_text("utf-8")
        for name in ("compute/remote/environment.py", "batches/remote/tasks.py")
    )
    named = set(re.findall(r'"([A-Z][A-Z0-9]*(?:_[A-Z0-9]+)+)"', said))
    return named | {url_variable(role) for roles in ROLES.values() for role in (*roles, RESULT)}


@pytest.mark.parametrize("name", sorted(_variables()))
def test_a_variable_is_explained(name: str):
    assert f"`{name}`" in PAGE


def test_the_container_runs_the_worker_and_is_bound_to_no_host():
    text = (ROOT / "Containerfile").read_text("utf-8")
    assert 'ENTRYPOINT ["quire", "task", "run"]' in text
    assert "://" not in text
    assert "index-url" not in text
    for copied in ("pyproject.toml", "README.md", "LICENSE", "src"):
        assert (ROOT / copied).exists()


def test_the_example_of_an_app_builds_that_container():
    text = (ROOT / "examples" / "fly.toml").read_text("utf-8")
    found = re.search(r'dockerfile = "([^"]+)"', text)
    assert found is not None
    assert (ROOT / "examples" / found[1]).resolve() == ROOT / "Containerfile"
