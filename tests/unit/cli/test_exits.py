import importlib
import pkgutil

import pytest

import quire
from quire.cli import exits
from quire.model.errors import Missing, QuireError


def _import_everything() -> None:
    for module in pkgutil.walk_packages(quire.__path__, "quire."):
        if not module.name.startswith("quire.testing") and not module.name.endswith("__main__"):
            importlib.import_module(module.name)


def _kinds(root: type[QuireError]) -> set[type[QuireError]]:
    return {root}.union(*(_kinds(kind) for kind in root.__subclasses__()))


def test_every_kind_of_error_is_in_the_table():
    _import_everything()
    assert set(QuireError.__subclasses__()) == set(exits.EXIT_CODES)


def test_every_narrower_kind_has_the_code_of_an_ancestor():
    _import_everything()
    for kind in _kinds(QuireError) - {QuireError}:
        assert any(ancestor in exits.EXIT_CODES for ancestor in kind.__mro__)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (Missing("no such batch"), exits.COULD_NOT_RUN),
        (ValueError("anything else"), exits.COULD_NOT_RUN),
        (KeyboardInterrupt(), exits.INTERRUPTED),
    ],
)
def test_an_error_that_is_not_listed_itself_has_a_code_too(error: BaseException, code: int):
    assert exits.code_for(error) == code


def test_no_error_looks_like_success():
    assert exits.DONE not in exits.EXIT_CODES.values()


def test_the_numbers_that_scripts_rely_on_do_not_move():
    numbers = (exits.DONE, exits.COULD_NOT_RUN, exits.USAGE, exits.FINISHED_WITH_FAILURES, exits.INTERRUPTED)
    assert numbers == (0, 1, 2, 3, 130)
