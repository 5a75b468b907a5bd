"""Damaged files of every kind that the product reads, by `quire run` with real workers: each ends with a
result that an independent decoder agrees with, or with an error of a known class. No worker hangs or
dies, and memory stays bounded.

`make soak` takes ten thousand of each kind and prints the figures. A file is found again by its number:
`python -m tests.documents.mutated.campaign --kind tiff --files 1 --seed NUMBER`.
"""

import pytest
from tests.documents.mutated import campaign, originals

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]
FILES = 60  # of each kind


def test_every_damaged_file_ends_with_a_right_result_or_a_known_error():
    found = campaign.run_all(originals.KINDS, FILES * len(originals.KINDS), seed=1)

    assert found.wrong == {}
    assert sum(found.verdicts.values()) == FILES * len(originals.KINDS)
    assert found.peak_mb < campaign.MEMORY_MB
    for kind in originals.KINDS:
        assert found.verdicts[f"{kind} agrees"], "damage that no pixel depends on is no failure"
        assert found.verdicts[f"{kind} error: corrupt"]


def test_the_sound_files_that_are_damaged_are_sound(run_step, tmp_path):
    """Otherwise the campaign would show nothing."""
    for kind, step in {"jpeg": "image_variants", "png": "image_variants", "tiff": "tiff_to_jpeg"}.items():
        for name, whole in originals.of_kind(kind).items():
            (tmp_path / name).write_bytes(whole)
            assert run_step(step, tmp_path / name).files
