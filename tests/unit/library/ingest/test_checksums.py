"""Sums that are remembered: when they count, and when they must not."""

import errno
import os
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.situations.libraries import digest

from quire.library.ingest import checksums
from quire.library.ingest.checksums import MODIFIED, OURS, SUM, Checksums, ChecksumStore, read_facts
from quire.model.errors import Stale

NOW = 2_000_000_000.0
OLD_NS = 1_700_000_000_123_456_789


class Attributes:
    """As a file system with them has them; they go with the file's number."""

    def __init__(self):
        self.kept = {}

    def get(self, path, name):
        try:
            return self.kept[path.stat().st_ino, name]
        except KeyError:
            raise OSError(errno.ENODATA, "no data") from None

    def set(self, path, name, value):
        self.kept[path.stat().st_ino, name] = value


class NoAttributes:
    def get(self, *_):
        raise OSError(errno.ENOTSUP, "not supported")

    set = get


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(b"%PDF one")
    os.utime(path, ns=(OLD_NS, OLD_NS))
    return path


@pytest.fixture(params=["attributes", "book"])
def sums(request, tmp_path):
    if request.param == "attributes":
        yield Checksums(lambda: NOW, attributes=Attributes())
    else:
        book = ChecksumStore(tmp_path / "home" / "sums.db")
        yield Checksums(lambda: NOW, cache=book, attributes=NoAttributes())
        book.close()


def test_a_sum_is_taken_once(sums, file):
    first, second = sums.sum(file), sums.sum(file)
    assert (first.digest, first.size, first.remembered) == (digest(b"%PDF one"), 8, False)
    assert (second.digest, second.size, second.remembered) == (digest(b"%PDF one"), 8, True)
    assert not sums.sum(file, reread=True).remembered


def test_a_change_within_the_same_second_is_seen(sums, file):
    sums.sum(file)
    file.write_bytes(b"%PDF two")
    os.utime(file, ns=(OLD_NS, OLD_NS + 1))
    assert sums.sum(file).digest == digest(b"%PDF two")


def test_another_size_with_the_same_time_is_seen(sums, file):
    sums.sum(file)
    file.write_bytes(b"%PDF longer")
    os.utime(file, ns=(OLD_NS, OLD_NS))
    assert sums.sum(file).digest == digest(b"%PDF longer")


def test_a_file_that_could_still_change_unseen_is_not_remembered(file):
    sums = Checksums(lambda: OLD_NS / 1e9 + 1, attributes=Attributes())
    sums.sum(file)
    assert not sums.sum(file).remembered


def test_a_file_that_changes_while_it_is_read_has_no_sum(file, monkeypatch):
    attributes = Attributes()
    real = checksums._hash_file

    def slow(path, below):
        found = real(path, below)
        os.utime(path, ns=(OLD_NS, OLD_NS + 5))
        return found

    monkeypatch.setattr(checksums, "_hash_file", slow)
    with pytest.raises(Stale, match="changed while it was read"):
        Checksums(lambda: NOW, attributes=attributes).sum(file)
    assert attributes.kept == {}


def test_published_tools_find_what_they_look_for(file):
    attributes = Attributes()
    Checksums(lambda: NOW, attributes=attributes).sum(file)
    inode = file.stat().st_ino
    assert attributes.kept[inode, SUM] == digest(b"%PDF one").encode()
    assert attributes.kept[inode, MODIFIED] == b"1700000000"
    assert attributes.kept[inode, OURS].decode() == f"{digest(b'%PDF one')} 8 {OLD_NS}"


@pytest.mark.parametrize("said", [b"", b"\xff\xfe", b"x 8 1", b"0" * 64, b"0" * 64 + b" 8", b"g" * 64])
def test_what_others_wrote_into_our_attribute_is_not_believed(file, said):
    attributes = Attributes()
    attributes.set(file, OURS, said.replace(b" 1", f" {OLD_NS}".encode()))
    assert Checksums(lambda: NOW, attributes=attributes).sum(file).digest == digest(b"%PDF one")


def test_nothing_is_written_when_nothing_is_to_be(file):
    attributes = Attributes()
    Checksums(lambda: NOW, attributes=attributes, remember=False).sum(file)
    assert attributes.kept == {}


def test_the_real_attributes_of_this_system(file):
    try:
        os.setxattr(file, "user.checksum.probe", b"1")
    except OSError:
        pytest.skip("no extended attributes here")
    sums = Checksums(lambda: NOW)
    sums.sum(file)
    assert os.getxattr(file, SUM) == digest(b"%PDF one").encode()
    assert sums.sum(file).remembered
    assert file.stat().st_mtime_ns == OLD_NS


def test_the_book_is_bounded_and_forgets_the_oldest(tmp_path, file):
    book = ChecksumStore(tmp_path / "sums.db", max_stored=10)
    base = read_facts(file)
    many = [checksums.FileFacts(f"/{n}", 1, 2**64 - 1, n, n) for n in range(25)]
    for number, one in enumerate(many):
        book.keep(one, f"{number:064x}")
    assert book.find(many[24]) == f"{24:064x}"
    assert book.find(many[0]) is None
    assert sum(book.find(one) is not None for one in many) <= 20
    assert book.find(base) is None
    book.close()


def test_a_damaged_book_only_costs_time(tmp_path, file):
    path = tmp_path / "sums.db"
    path.write_bytes(b"this is no database" * 1000)
    book = ChecksumStore(path)
    sums = Checksums(lambda: NOW, cache=book, attributes=NoAttributes())
    assert sums.sum(file).digest == sums.sum(file).digest == digest(b"%PDF one")
    book.close()


def test_the_book_stands_several_threads(tmp_path):
    book = ChecksumStore(tmp_path / "sums.db")
    sums = Checksums(lambda: NOW, cache=book, attributes=NoAttributes())
    paths = []
    for number in range(40):
        path = tmp_path / f"{number}.pdf"
        path.write_bytes(str(number).encode())
        os.utime(path, ns=(OLD_NS, OLD_NS))
        paths.append(path)
    with ThreadPoolExecutor(8) as pool:
        first = list(pool.map(sums.sum, paths))
        second = list(pool.map(sums.sum, paths))
    assert [one.digest for one in first] == [digest(str(n).encode()) for n in range(40)]
    assert [one.digest for one in second] == [one.digest for one in first]
    assert all(one.remembered for one in second)
    book.close()
