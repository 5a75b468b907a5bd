"""Names of worker processes: one each, and what the one before left."""

import pytest

from quire.library.worker import slots
from quire.library.worker.slots import UnfinishedJob
from quire.model.errors import Misconfigured


def test_processes_at_the_same_time_have_different_names(tmp_path):
    first, second = slots.take_slot(tmp_path, "w"), slots.take_slot(tmp_path, "w")
    assert (first.name, second.name) == ("w", "w-2")
    first.close()
    third = slots.take_slot(tmp_path, "w")
    assert third.name == "w"
    second.close()
    third.close()


def test_what_was_noted_is_found_by_the_next_one_alone(tmp_path):
    first = slots.take_slot(tmp_path, "w")
    assert first.read() is None
    first.write("a" * 64, 12, 1000)
    first.write("b" * 64, 3, 2000)
    first.close()  # as a killed process does
    second = slots.take_slot(tmp_path, "w")
    assert second.read() == UnfinishedJob("b" * 64, 3, 2000)
    other = slots.take_slot(tmp_path, "w")
    assert other.read() is None
    other.close()
    second.clear()
    second.close()
    third = slots.take_slot(tmp_path, "w")
    assert third.read() is None
    third.close()


def test_a_damaged_note_says_nothing(tmp_path):
    (tmp_path / "w.slot").write_bytes(b"\xff{")
    slot = slots.take_slot(tmp_path, "w")
    assert slot.read() is None
    slot.close()


@pytest.mark.parametrize("worker", ["", "a/b", "../x", ".x", "a\nb", "x" * 101])
def test_ids_that_would_not_do_as_names_are_refused(tmp_path, worker):
    with pytest.raises(Misconfigured, match="cannot be the id"):
        slots.take_slot(tmp_path, worker)


def test_a_folder_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(Misconfigured, match="Choose another one"):
        slots.take_slot(tmp_path / "file", "w")
