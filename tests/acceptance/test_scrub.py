"""`quire scrub` as a process: what it says, how it ends and continues, and what the doctor knows of it."""

import json
import signal

import pytest
from tests.acceptance.ingest.conftest import s3_environment
from tests.acceptance.test_fixity import WORDS, blob_with, flip

pytestmark = [pytest.mark.slow, pytest.mark.timeout(120)]
TEXTS = {"a.txt": "one two three", "b.txt": "four five"}


@pytest.fixture
def texts(quire):
    folder = quire.folder / "texts"
    folder.mkdir()
    for name, text in TEXTS.items():
        (folder / name).write_text(text)
    done = quire.run(str(folder), "--pipeline", str(WORDS))
    assert done.returncode == 0, done.stderr
    return folder


def last_scrub(quire):
    document = json.loads(quire("doctor", "--json").stdout)
    (found,) = [
        check
        for section in document["sections"]
        for check in section["checks"]
        if check["name"] == "last scrub"
    ]
    assert document["fine"], "a damaged blob does not keep quire from running"
    return found


def test_a_store_that_was_never_scrubbed(quire):
    assert last_scrub(quire)["detail"] == "never"
    assert list(quire.home.rglob("state.json")) == [], "looking is no scrub"


def test_a_damaged_input_and_a_damaged_result_are_told_and_healed(quire, texts):
    right = (quire.out / "a.txt.words.json").read_bytes()
    result, given = blob_with(quire, right), blob_with(quire, b"four five")
    assert quire("scrub").returncode == 0
    assert last_scrub(quire)["state"] == "ok"
    flip(result)
    flip(given)
    found = quire("scrub")
    assert found.returncode == 3, found.stderr
    assert f"{result.name} (a.txt.words.json of batch" in found.stdout
    assert f"{given.name} (b.txt of batch" in found.stdout
    assert "2 damaged, 0 of them restored." in found.stdout
    told = last_scrub(quire)
    assert told["state"] == "warning"
    assert "2 damaged" in told["detail"]
    assert not result.exists()
    # The next run makes the result again, and the original file restores the input.
    assert quire.run(str(texts), "--pipeline", str(WORDS)).returncode == 0
    assert result.read_bytes() == right
    healed = quire("scrub", "--originals", str(texts), "--json")
    assert healed.returncode == 0, healed.stdout
    assert given.read_bytes() == b"four five"
    assert "damaged_blob" not in healed.stdout
    assert last_scrub(quire)["state"] == "ok"


def test_ctrl_c_saves_the_position_and_the_next_scrub_continues(quire, texts):
    # A small blob counts as 16 KiB: it waits a second and a half after the first of four.
    scrub = quire.started("scrub", "--rate", "0.01", "--json")
    assert scrub.stderr.readline() == "Reading the store …\n"
    scrub.send_signal(signal.SIGINT)
    out, err = scrub.communicate(timeout=60)
    assert scrub.returncode == 130, err
    assert json.loads(out)["finished"] is False
    assert last_scrub(quire)["detail"].startswith("under way since")
    rest = quire("scrub", "--rate", "0", "--json")
    assert rest.returncode == 0
    found = json.loads(rest.stdout)
    assert (found["finished"], found["counts"]["blobs"]) == (True, 4)
    assert found["started_at"] == json.loads(out)["started_at"], "it is the same pass"


@pytest.mark.parametrize("words", [["--rate", "-1"], ["--originals", "nowhere"]])
def test_a_wrong_option_is_refused(quire, texts, words):
    assert quire("scrub", *words).returncode == 2


def test_a_home_that_does_not_exist_is_not_created(quire):
    assert quire("scrub").returncode == 1
    assert not quire.home.exists()


@pytest.mark.service
def test_in_a_bucket_the_checksums_of_the_store_are_compared(quire, s3_server):
    bucket = s3_environment(s3_server, f"scrub/{quire.folder.name}") | {"QUIRE_S3_CHECKSUMS": "true"}
    folder = quire.folder / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("one two three")
    done = quire.run(str(folder), "--pipeline", str(WORDS), **bucket)
    assert done.returncode == 0, done.stderr
    unread = json.loads(quire("scrub", "--json", **bucket).stdout)["counts"]
    assert (unread["blobs"], unread["by_checksum"]) == (2, 2)
    read = json.loads(quire("scrub", "--json", "--read-all", **bucket).stdout)["counts"]
    assert (read["blobs"], read["by_checksum"]) == (2, 0)
    assert "last scrub" in quire("doctor", **bucket).stdout
