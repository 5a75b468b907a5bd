"""Bits that flip at random in what Quire has stored: each is noticed, none is delivered, all is healed.

A round begins with a copy of an undamaged store, flips one bit in each of several blobs (inputs, values that
steps hand on, results) and lets the next commands find them. `FLIPS` is the number of flips in each of two
kinds of store; `make soak` has a thousand in all.
"""

import hashlib
import json
import os
import random
import shutil
import subprocess
import sys
from pathlib import Path

import obstore
import pytest
from obstore.store import S3Store

pytestmark = [pytest.mark.slow, pytest.mark.timeout(1800)]
SEED = int(os.environ.get("FLIP_SEED", "20261118"))
FLIPS = int(os.environ.get("FLIPS", "20"))
FLIPS_PER_ROUND = 10 if FLIPS < 100 else 20
DOCUMENTS = 20
PIPELINE = """
from quire import Document, Output, Pipeline

letters = Pipeline("letters", version=1)


@letters.step(accepts="*.txt")
def words(document: Document) -> list[str]:
    return document.text().split()


@letters.step
def page(document: Document, words: list[str]) -> Output:
    return Output.text("sorted.txt", "\\n".join(sorted(words)))
"""


class FolderStore:
    def __init__(self, home: Path) -> None:
        self._folder = home / "blobs"
        self.settings: dict[str, str] = {}

    def read_all(self) -> dict[str, bytes]:
        """Every content-addressed blob by its key."""
        found = sorted((self._folder / "cas").glob("*/*"))
        return {str(path.relative_to(self._folder)): path.read_bytes() for path in found}

    def write(self, key: str, data: bytes) -> None:
        path = self._folder / key
        path.chmod(0o644)
        path.write_bytes(data)

    def restore(self, blobs: dict[str, bytes]) -> None:
        """Nothing: the folder lies in the home, which is copied for each round."""


class BucketStore:
    def __init__(self, server, prefix: str) -> None:
        self.settings = {
            "QUIRE_STORE": "s3",
            "QUIRE_S3_BUCKET": server.bucket,
            "QUIRE_S3_ENDPOINT": server.endpoint,
            "QUIRE_S3_ACCESS_KEY_ID": server.access_key_id,
            "QUIRE_S3_SECRET_ACCESS_KEY": server.secret_access_key,
            "QUIRE_S3_ALLOW_HTTP": "true",
            "QUIRE_S3_PREFIX": prefix,
        }
        self._store = S3Store(
            server.bucket,
            endpoint=server.endpoint,
            access_key_id=server.access_key_id,
            secret_access_key=server.secret_access_key,
            prefix=prefix,
            region="us-east-1",
            virtual_hosted_style_request=False,
            client_options={"allow_http": True, "timeout": "60s"},
        )

    def read_all(self) -> dict[str, bytes]:
        paths = sorted(one["path"] for page in obstore.list(self._store, "cas") for one in page)
        return {path: bytes(obstore.get(self._store, path).bytes()) for path in paths}

    def write(self, key: str, data: bytes) -> None:
        obstore.put(self._store, key, data)

    def restore(self, blobs: dict[str, bytes]) -> None:
        there = self.read_all()
        for key, data in blobs.items():
            if there.get(key) != data:
                self.write(key, data)


class Archive:
    """A folder of letters, and a home in which they have gone through the pipeline once."""

    def __init__(self, folder: Path, store) -> None:
        self.folder, self.home, self.store = folder, folder / "home", store
        self.pipeline = folder / "letters.py"
        self.pipeline.write_text(PIPELINE)
        self.source = folder / "letters"
        self.source.mkdir()
        chance = random.Random(SEED)
        for number in range(DOCUMENTS):
            words = ("".join(chance.choices("abcdefgh", k=6)) for _ in range(1000))
            (self.source / f"{number:02}.txt").write_text(" ".join(words))
        ran = self.run()
        assert ran.returncode == 0, ran.stderr
        self.right = self.results()
        self.blobs = store.read_all()
        assert len(self.blobs) == 3 * DOCUMENTS, "an input, a value and a result of each"
        stored = {path.read_bytes() for path in self.source.iterdir()} | set(self.right.values())
        # A value is made again when a step needs it, not before.
        self.values = {key for key, data in self.blobs.items() if data not in stored}
        assert len(self.values) == DOCUMENTS
        shutil.copytree(self.home, folder / "kept", copy_function=shutil.copy2)

    def begin_round(self) -> None:
        shutil.rmtree(self.home)
        shutil.copytree(self.folder / "kept", self.home, copy_function=shutil.copy2)
        self.store.restore(self.blobs)

    def quire(self, *words: str) -> subprocess.CompletedProcess[str]:
        kept = {name: text for name, text in os.environ.items() if not name.startswith("QUIRE_")}
        return subprocess.run(
            [sys.executable, "-m", "quire.cli.main", *words],
            env=kept | {"QUIRE_HOME": str(self.home)} | self.store.settings,
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    def run(self) -> subprocess.CompletedProcess[str]:
        shutil.rmtree(self.folder / "out", ignore_errors=True)
        out = str(self.folder / "out")
        return self.quire("run", str(self.source), "--pipeline", str(self.pipeline), "--out", out)

    def results(self) -> dict[str, bytes]:
        found = (self.folder / "out").rglob("*.sorted.txt")
        return {path.name: path.read_bytes() for path in found}

    def failures(self) -> dict[str, str]:
        report = json.loads((self.folder / "out" / "report.json").read_text())
        return {one["path"]: one["error_class"] for one in report["files"] if one["status"] == "failed"}

    def flip(self, chance: random.Random, count: int) -> list[str]:
        """Flip one bit in each of so many blobs; their keys."""
        chosen = chance.sample(sorted(self.blobs), count)
        for key in chosen:
            data = bytearray(self.blobs[key])
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)
            self.store.write(key, bytes(data))
        return chosen

    def find_wrong(self) -> list[str]:
        """Keys of blobs that do not hold what their name says, by a look that owes nothing to Quire. Empty
        objects stand in a bucket for blobs that were set aside.
        """
        found = self.store.read_all()
        return [key for key, data in found.items() if data and hashlib.sha256(data).hexdigest() != key[-64:]]


@pytest.fixture(params=["folder", "bucket"])
def archive(request, tmp_path):
    if request.param == "folder":
        return Archive(tmp_path, FolderStore(tmp_path / "home"))
    server = request.getfixturevalue("s3_server")
    return Archive(tmp_path, BucketStore(server, f"flips-{os.getpid()}"))


def test_every_flipped_bit_is_noticed_and_none_is_delivered(archive):
    chance = random.Random(SEED)
    flips = failed = replaced = scrubbed = 0
    for number in range(-(-FLIPS // FLIPS_PER_ROUND)):
        archive.begin_round()
        flipped = archive.flip(chance, min(FLIPS_PER_ROUND, FLIPS - flips))
        flips += len(flipped)
        left = flipped
        if number % 2:
            failed += check_run(archive)
            left = archive.find_wrong()
            replaced += len(flipped) - len(left)
        found = archive.quire("scrub", "--rate", "0", "--from-start", "--json")
        noticed = {one["key"] for one in json.loads(found.stdout)["damaged"]}
        assert noticed >= set(left), f"not noticed: {set(left) - noticed}\n{found.stderr}"
        assert found.returncode == (3 if noticed else 0)
        scrubbed += len(left)
        assert archive.find_wrong() == [], "the scrub has left something wrong in its place"
        healed = archive.run()
        assert healed.returncode == 0, healed.stderr
        assert archive.results() == archive.right
        restored = archive.quire("scrub", "--rate", "0", "--originals", str(archive.source), "--json")
        waiting = {one["key"] for one in json.loads(restored.stdout)["damaged"] if one["state"] != "restored"}
        assert waiting <= archive.values, "an input or a result was not healed"
        assert archive.find_wrong() == []
    sys.stdout.write(
        f"{flips} flips: {replaced} noticed by the next run, which refused {failed} documents, "
        f"{scrubbed} by scrubbing\n"
    )


def check_run(archive) -> int:
    """A run on a store with flipped bits: everything is delivered right, or has failed as damaged."""
    ran = archive.run()
    failures, results = archive.failures(), archive.results()
    assert set(failures.values()) <= {"damaged_blob"}, failures
    assert ran.returncode == (3 if failures else 0), ran.stderr
    assert results.items() <= archive.right.items(), "something wrong was delivered"
    assert len(results) + len(failures) == DOCUMENTS, "a file is neither delivered nor failed"
    return len(failures)
