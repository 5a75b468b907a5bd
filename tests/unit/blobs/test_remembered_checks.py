"""A file that is sent again and again is compared once, as long as it stays as it is."""

import hashlib
import os

import pytest

from quire.blobs import content
from quire.blobs.checked_reads import KEPT_CHECKS, TRUSTED_SECONDS, RememberedChecks
from quire.blobs.local import LocalBlobs
from quire.model.errors import DamagedBlob

RIGHT = b"the right bytes"


@pytest.fixture
def blobs(tmp_path):
    return LocalBlobs(tmp_path / "blobs")


async def given(checks, blobs, stored, now):
    return b"".join([piece async for piece in checks.stream(blobs, stored.key, stored.digest, now)])


def damage(blobs, stored, *, keeps_times=False):
    path = blobs.local_path(stored.key)
    before = path.stat()
    path.chmod(0o644)
    with path.open("r+b") as file:
        file.write(b"T")
    if keeps_times:
        os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize("keeps_times", [False, True])
async def test_a_file_that_was_written_to_is_compared_again(blobs, keeps_times):
    checks, stored = RememberedChecks(), await content.put_bytes(blobs, RIGHT)
    assert await given(checks, blobs, stored, 1.0) == RIGHT
    damage(blobs, stored, keeps_times=keeps_times)
    with pytest.raises(DamagedBlob):
        await given(checks, blobs, stored, 2.0)


async def test_a_check_holds_for_a_while_and_not_longer(blobs, monkeypatch):
    checks, stored = RememberedChecks(), await content.put_bytes(blobs, RIGHT)
    await checks.check(blobs, stored.key, stored.digest, 1.0)
    hashed = []
    sha256 = hashlib.sha256

    def count(*arguments):
        hashed.append(1)
        return sha256(*arguments)

    monkeypatch.setattr(hashlib, "sha256", count)
    assert await given(checks, blobs, stored, 1.0 + TRUSTED_SECONDS - 0.1) == RIGHT
    await checks.check(blobs, stored.key, stored.digest, 1.0 + TRUSTED_SECONDS - 0.1)
    assert hashed == []
    assert await given(checks, blobs, stored, 1.0 + TRUSTED_SECONDS) == RIGHT
    assert hashed == [1]


async def test_what_was_not_sent_to_its_end_counts_as_unchecked(blobs):
    big = bytes(3 << 20)
    checks, stored = RememberedChecks(), await content.put_bytes(blobs, big)
    sending = checks.stream(blobs, stored.key, stored.digest, 1.0)
    assert await anext(sending)
    await sending.aclose()
    assert len(checks._checked) == 0


async def test_few_are_remembered(blobs):
    checks = RememberedChecks()
    for number in range(KEPT_CHECKS + 5):
        checks._remember((str(number), 0, 0, 0, 0), 1.0)
    assert len(checks._checked) == KEPT_CHECKS
