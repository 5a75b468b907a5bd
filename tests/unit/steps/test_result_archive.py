"""Archives of results: what we write is read again; what a stranger sends is limited, or refused."""

import io
import json
import zipfile
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quire.model.errors import Reject
from quire.steps.result_archive import ArchiveWriter
from quire.steps.result_archive_reader import ReadLimits, check_archive, read_result, unpack_assets

HASH = "ab" * 32
INFO = {"hash": HASH, "pages": 1, "blank_pages": []}
PNG = b"\x89PNG\r\n\x1a\n"


def packed(path: Path, members: dict[str, bytes | str]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def proper(**changes: bytes | str) -> dict[str, bytes | str]:
    return {
        "content.md": "Hello ![](assets/page-1-0001.png)",
        "assets/page-1-0001.png": PNG,
        "info.json": json.dumps(INFO),
    } | changes


def refusal(path: Path, *args) -> str:
    with pytest.raises(Reject) as refused:
        check_archive(path, *args)
    assert refused.value.code == "bad_archive"
    assert str(path.parent) not in str(refused.value)
    return str(refused.value)


def test_a_proper_archive_passes(tmp_path):
    check_archive(packed(tmp_path / "a.zip", proper()), HASH)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"../x": "y"}, "does not belong"),
        ({"/etc/passwd": "y"}, "does not belong"),
        ({"assets/../x.png": "y"}, "does not belong"),
        ({"assets/sub/x.png": "y"}, "does not belong"),
        ({"assets/.hidden": "y"}, "does not belong"),
        ({"assets\\x.png": "y"}, "does not belong"),
        ({"more.md": "y"}, "does not belong"),
        ({"content.md": b"\xff\xfe"}, "UTF-8"),
        ({"content.md": "<!-- page 1 -->\n\n \n"}, "empty"),
        ({"content.md": "![](assets/other.png)"}, "assets/other.png"),
        ({"content.md": "[a [b] c](<assets/other.png>)"}, "assets/other.png"),
        ({"info.json": "[]"}, "hash"),
        ({"info.json": "{"}, "hash"),
        ({"info.json": '{"hash": "cd"}'}, "hash"),
        ({"info.json": json.dumps(INFO | {"hash": "cd" * 32})}, "not of"),
    ],
)
def test_what_does_not_belong_there_is_refused(change, word, tmp_path):
    assert word in refusal(packed(tmp_path / "a.zip", proper(**change)), HASH)


@pytest.mark.parametrize("name", ["content.md", "info.json"])
def test_a_missing_member_is_refused(name, tmp_path):
    members = proper()
    del members[name]

    assert name in refusal(packed(tmp_path / "a.zip", members))


def test_an_empty_text_is_right_when_all_pages_are_blank(tmp_path):
    info = json.dumps({"hash": HASH, "pages": 2, "blank_pages": [1, 2]})
    check_archive(packed(tmp_path / "a.zip", {"content.md": "", "info.json": info}), HASH)


@pytest.mark.parametrize("where", ["assets/page-1-0001.png", "content.md", "info.json"])
def test_changed_bytes_of_any_member_are_found(where, tmp_path):
    path = packed(tmp_path / "a.zip", proper(**{"assets/page-1-0001.png": PNG + bytes(range(256)) * 40}))
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(where)
    data = bytearray(path.read_bytes())
    at = member.header_offset + 30 + len(where) + member.compress_size // 2
    data[at] ^= 0x55
    path.write_bytes(data)

    refusal(path, HASH)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_cut_off_archive_is_refused(share, tmp_path):
    path = packed(tmp_path / "a.zip", proper())
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])

    refusal(path)


def test_two_members_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as archive:
        archive.writestr("content.md", "one")
        with pytest.warns(UserWarning, match="Duplicate"):
            archive.writestr("content.md", "two")

    assert "two members" in refusal(tmp_path / "a.zip")


def test_bombs_are_refused_by_their_header_and_while_they_are_unpacked(tmp_path):
    path = packed(tmp_path / "a.zip", proper(**{"content.md": "a" * 1_000_000}))
    limits = ReadLimits(max_text_bytes=10_000)
    with pytest.raises(Reject, match="larger"):
        read_result(path, limits)
    data = bytearray(path.read_bytes())
    with zipfile.ZipFile(path) as archive:  # a header that lies
        at = data.index(b"PK\x01\x02")
        assert int.from_bytes(data[at + 24 : at + 28], "little") == archive.getinfo("content.md").file_size
    data[at + 24 : at + 28] = (100).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(Reject):
        check_archive(path, None, limits)


@pytest.mark.parametrize(
    ("members", "text"),
    [
        ({"content.md": "c", "index.md": "i", "x.md": "x"}, "c"),
        ({"index.md": "i", "x.md": "x"}, "i"),
        ({"Rules.md": "x", "picture.png": "p"}, "x"),
        ({"folder/rules.MD": "x"}, "x"),
    ],
)
def test_the_text_of_older_archives_is_found(members, text, tmp_path):
    assert read_result(packed(tmp_path / "a.zip", members)).markdown == text


@pytest.mark.parametrize("members", [{}, {"a.md": "a", "b.md": "b"}, {"a.txt": "a"}])
def test_an_archive_without_one_text_is_refused(members, tmp_path):
    with pytest.raises(Reject):
        read_result(packed(tmp_path / "a.zip", members))


@pytest.mark.parametrize(
    ("said", "size"),
    [
        ('"52428800"', 52428800),
        ("52428800", 52428800),
        ('"many"', None),
        ("true", None),
        ("null", None),
        ('"²"', None),
    ],
)
def test_sizes_are_read_as_numbers_and_as_texts(said, size, tmp_path):
    path = packed(tmp_path / "a.zip", {"content.md": "c", "info.json": f'{{"size_bytes": {said}}}'})

    assert read_result(path).info["size_bytes"] == size


def test_assets_are_unpacked_within_their_folder_and_within_the_limit(tmp_path):
    members = proper(
        **{"assets/../../evil.png": PNG, "assets/_page_0_Picture_1.jpeg": b"jpeg", "assets/a/b": b"x"}
    )
    path = packed(tmp_path / "a.zip", members)
    (tmp_path / "out").mkdir()

    written = unpack_assets(path, tmp_path / "out")
    assert [one.name for one in written] == ["_page_0_Picture_1.jpeg", "page-1-0001.png"]
    assert sorted(one.name for one in tmp_path.iterdir()) == ["a.zip", "out"]
    with pytest.raises(Reject, match="larger"):
        unpack_assets(path, tmp_path / "out", ReadLimits(max_asset_bytes=6))


def test_a_writer_that_is_left_with_an_error_leaves_nothing(tmp_path):
    def fail():
        with ArchiveWriter(tmp_path / "a.zip", 1, 100) as archive:
            archive.add_picture(1, PNG)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    assert list(tmp_path.iterdir()) == []


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(max_size=200),
    pictures=st.lists(st.tuples(st.integers(1, 12), st.binary(max_size=20)), max_size=12),
    name=st.text(max_size=30),
)
def test_what_is_written_is_read_again(text, pictures, name, tmp_path):
    path = tmp_path / "a.zip"
    with ArchiveWriter(path, 12, 10_000) as archive:
        links = {}
        for page, data in sorted(pictures):
            link = archive.add_picture(page, PNG + data)
            assert links.setdefault(data, link) == link  # equal ones have one name
        archive.add_text(text)
        archive.finish(INFO | {"original_filename": name, "size_bytes": 7})
    result = read_result(path)

    assert result.markdown == text.encode("utf-8", "replace").decode()
    assert result.info["original_filename"] == name
    assert {f"assets/{one}" for one in result.assets} == set(links.values())
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == sorted(archive.namelist())
        assert {name: archive.read(link) for name, link in links.items()} == {one: PNG + one for one in links}


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    members=st.dictionaries(
        st.one_of(
            st.sampled_from(["content.md", "index.md", "info.json", "assets/a.png", "assets/", "../a.md"]),
            st.text(min_size=1, max_size=20).filter(lambda name: "\0" not in name),
        ),
        st.binary(max_size=60),
        max_size=6,
    ),
    flips=st.lists(st.tuples(st.integers(0, 2000), st.integers(1, 255)), max_size=4),
    cut=st.integers(0, 2000),
)
def test_hostile_archives_are_read_or_refused_and_nothing_else(members, flips, cut, tmp_path):
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name.encode("utf-8", "replace").decode(), data)
    data = bytearray(buffer.getvalue())
    for at, by in flips:
        if at < len(data):
            data[at] ^= by
    path = tmp_path / "hostile.zip"
    path.write_bytes(bytes(data[: max(0, len(data) - cut)] if cut % 3 == 0 else data))
    out = tmp_path / "out"
    out.mkdir(exist_ok=True)
    limits = ReadLimits(max_text_bytes=10_000, max_info_bytes=10_000, max_asset_bytes=10_000)
    for use in (
        lambda: read_result(path, limits),
        lambda: check_archive(path, HASH, limits),
        lambda: unpack_assets(path, out, limits),
    ):
        try:
            use()
        except Reject as error:
            assert error.code == "bad_archive"  # noqa: PT017
    assert {one.name for one in tmp_path.iterdir()} == {"hostile.zip", "out"}
    assert all(one.parent == out for one in out.rglob("*"))


def test_a_member_that_lies_before_the_file_is_refused(tmp_path):
    path = tmp_path / "before.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content.md", b"words")
        archive.writestr("info.json", b"{}")
    data = bytearray(path.read_bytes())
    data[-6] ^= 0x80  # where the list of members begins, as the end of the archive tells it
    path.write_bytes(bytes(data))

    with pytest.raises(Reject) as refusal:
        read_result(path)
    assert refusal.value.code == "bad_archive"
