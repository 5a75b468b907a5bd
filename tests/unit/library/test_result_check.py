"""Archives that are not what was wanted are found out before they are committed."""

import json
import zipfile

import pytest

from quire.library import archives

JOB = "a" * 64


def archive(path, members):
    with zipfile.ZipFile(path, "w") as made:
        for name, body in members.items():
            made.writestr(name, body)
    return path


GOOD = {"content.md": "# Title\n", "info.json": json.dumps({"hash": JOB}), "assets/1.png": "x"}


def test_a_good_one_passes(tmp_path):
    assert archives.find_fault(archive(tmp_path / "r.zip", GOOD), JOB) == ""


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"content.md": None}, "no content.md"),
        ({"info.json": None}, "no info.json"),
        ({"info.json": "{"}, "cannot be read"),
        ({"info.json": "[]"}, "cannot be read"),
        ({"info.json": json.dumps({"hash": "b" * 64})}, "of another document"),
    ],
)
def test_what_is_missing_or_wrong_is_named(tmp_path, change, words):
    members = {name: body for name, body in {**GOOD, **change}.items() if body is not None}
    assert words in archives.find_fault(archive(tmp_path / "r.zip", members), JOB)


def test_damage_is_found(tmp_path):
    path = archive(tmp_path / "r.zip", GOOD)
    path.write_bytes(path.read_bytes().replace(b"# Title", b"# Tytle", 1))
    assert "damaged" in archives.find_fault(path, JOB)
    path.write_bytes(path.read_bytes()[:40])
    assert "damaged" in archives.find_fault(path, JOB)


def test_what_is_no_file_is_not_followed(tmp_path):
    good = archive(tmp_path / "good.zip", GOOD)
    (tmp_path / "r.zip").symlink_to(good)
    assert "not a file" in archives.find_fault(tmp_path / "r.zip", JOB)
    assert "left no result" in archives.find_fault(tmp_path / "none.zip", JOB)


def test_limits_come_first(tmp_path, monkeypatch):
    path = archive(tmp_path / "r.zip", GOOD)
    monkeypatch.setattr(archives, "MAX_CONTENT_BYTES", 10)
    assert "too much" in archives.find_fault(path, JOB)
