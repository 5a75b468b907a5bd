"""Bytes that rot in the store: they are noticed, never laid out, and made right by running again."""

from pathlib import Path

import pytest

pytestmark = pytest.mark.slow
WORDS = Path(__file__).resolve().parents[1] / "situations" / "words.py"


@pytest.fixture
def texts(quire):
    folder = quire.folder / "texts"
    folder.mkdir()
    for name, text in {"a.txt": "one two three", "b.txt": "four five"}.items():
        (folder / name).write_text(text)
    return folder


def blob_with(quire, content):
    """The stored file with exactly these bytes."""
    (found,) = [path for path in quire.home.rglob("cas/*/*") if path.read_bytes() == content]
    return found


def flip(path):
    before = path.read_bytes()
    path.chmod(0o644)
    path.write_bytes(bytes([before[0] ^ 1]) + before[1:])


def run(quire, texts, *, out="out"):
    done = quire("run", str(texts), "--pipeline", str(WORDS), "--out", str(quire.folder / out))
    quire.out = quire.folder / out
    return done, {one["path"]: one for one in quire.report()["files"]}


def test_a_damaged_result_is_not_laid_out_and_is_made_again_by_the_next_run(quire, texts):
    assert run(quire, texts)[0].returncode == 0
    right = (quire.out / "a.txt.words.json").read_bytes()
    flip(blob_with(quire, right))
    # Results come from the step cache: a damaged one looks present until it is copied.
    done, files = run(quire, texts, out="second")
    assert done.returncode == 3, done.stderr
    assert not (quire.out / "a.txt.words.json").exists()
    assert files["a.txt"]["error_class"] == "damaged_blob"
    assert "not to blame" in files["a.txt"]["reason"]
    assert (quire.out / "b.txt.words.json").exists(), "the others are laid out"
    done, files = run(quire, texts, out="second")
    assert done.returncode == 0, done.stderr
    assert (quire.out / "a.txt.words.json").read_bytes() == right


def test_a_damaged_input_is_replaced_when_the_same_bytes_come_again(quire, texts):
    assert run(quire, texts)[0].returncode == 0
    right = (quire.out / "a.txt.words.json").read_bytes()
    # Its result is gone too, so that the step has to read the input again.
    blob_with(quire, right).unlink()
    damaged = blob_with(quire, b"one two three")
    flip(damaged)
    (texts / "a.txt").write_text("one two three")  # the same bytes come again
    done, _ = run(quire, texts, out="second")
    assert done.returncode == 0, done.stderr
    assert (quire.out / "a.txt.words.json").read_bytes() == right
    assert damaged.read_bytes() == b"one two three"
