"""The registry of steps agrees with itself."""

from quire.model.files import File
from quire.steps.registry import STEPS


def test_steps_are_filed_under_their_names():
    assert all(step.name == name and step.version >= 1 for name, step in STEPS.items())


def test_steps_read_only_fields_that_files_have():
    read = {name.partition(".")[0] for step in STEPS.values() for name in step.reads}
    assert read <= set(File.__struct_fields__)
