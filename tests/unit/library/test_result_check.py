"""Results that are not what was wanted are found out before they are committed; good ones are read again."""

import json
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from quire.library.archives import ArchiveLimits, ResultArchive, write_archive
from quire.model.errors import Reject

HASH = "ab" * 32
INFO = {"hash": HASH, "pages": 1, "blank_pages": []}
PNG = b"\x89PNG\r\n\x1a\n"


def packed(path, members):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return path


def proper(**changes):
    return {
        "content.md": "Hello ![](assets/page-1-0001.png)",
        "assets/page-1-0001.png": PNG,
        "info.json": json.dumps(INFO),
    } | changes


def check(path, expected=HASH, **limits):
    with ResultArchive(path, ArchiveLimits(**limits)) as archive:
        archive.check(expected)


def refusal(path, *args, **limits):
    with pytest.raises(Reject) as refused:
        check(path, *args, **limits)
    assert refused.value.code == "bad_archive"
    assert str(path.parent) not in str(refused.value)
    return str(refused.value)


def test_a_proper_archive_passes(tmp_path):
    check(packed(tmp_path / "a.zip", proper()))


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
    assert word in refusal(packed(tmp_path / "a.zip", proper(**change)))


@pytest.mark.parametrize("name", ["content.md", "info.json"])
def test_a_missing_member_is_refused(name, tmp_path):
    members = proper()
    del members[name]

    assert name in refusal(packed(tmp_path / "a.zip", members))


def test_an_empty_text_is_right_when_all_pages_are_blank(tmp_path):
    info = json.dumps({"hash": HASH, "pages": 2, "blank_pages": [1, 2]})
    check(packed(tmp_path / "a.zip", {"content.md": "", "info.json": info}))


@pytest.mark.parametrize("where", ["assets/page-1-0001.png", "content.md", "info.json"])
def test_changed_bytes_of_any_member_are_found(where, tmp_path):
    path = packed(tmp_path / "a.zip", proper(**{"assets/page-1-0001.png": PNG + bytes(range(256)) * 40}))
    with zipfile.ZipFile(path) as archive:
        member = archive.getinfo(where)
    data = bytearray(path.read_bytes())
    at = member.header_offset + 30 + len(where) + member.compress_size // 2
    data[at] ^= 0x55
    path.write_bytes(data)

    refusal(path)


@pytest.mark.parametrize("share", [0.0, 0.3, 0.9])
def test_a_cut_off_archive_is_refused(share, tmp_path):
    path = packed(tmp_path / "a.zip", proper())
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])

    refusal(path)


def test_limits_hold_while_it_is_checked(tmp_path):
    path = packed(tmp_path / "a.zip", proper())
    assert "more than" in refusal(path, max_asset_bytes=4)
    assert "more than" in refusal(path, max_info_bytes=4)
    assert "more than" in refusal(path, max_text_bytes=4)


@pytest.mark.parametrize("name", ["../x.png", "a/b.png", ".hidden", "a\nb.png", "", "ü.png"])
def test_a_picture_with_a_name_that_leads_elsewhere_is_not_written(name, tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"x")
    with pytest.raises(Reject, match="a picture is called"):
        write_archive(tmp_path / "a.zip", source, {name: source}, INFO)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["source"]


def test_a_result_that_cannot_be_written_leaves_nothing(tmp_path):
    source = tmp_path / "source"
    source.write_bytes(b"x")
    with pytest.raises(FileNotFoundError):
        write_archive(tmp_path / "a.zip", source, {"a.png": tmp_path / "none"}, INFO)
    assert sorted(one.name for one in tmp_path.iterdir()) == ["source"]


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    text=st.text(max_size=200),
    pictures=st.dictionaries(st.integers(1, 999), st.binary(max_size=20), max_size=12),
    name=st.text(max_size=30),
)
def test_what_is_written_is_read_again_and_equal_contents_give_equal_bytes(text, pictures, name, tmp_path):
    folder = tmp_path / "parts"
    folder.mkdir(exist_ok=True)
    (folder / "content.md").write_bytes(text.encode("utf-8", "replace"))
    files = {}
    for number, data in pictures.items():
        files[f"page-{number:03}-0001.png"] = folder / str(number)
        files[f"page-{number:03}-0001.png"].write_bytes(data)
    info = INFO | {"original_filename": name, "size_bytes": 7}
    path = tmp_path / "a.zip"
    write_archive(path, folder / "content.md", files, info)
    with ResultArchive(path) as archive:
        assert archive.text() == text.encode("utf-8", "replace").decode()
        assert archive.info() == info
        assert archive.assets() == sorted(files)
    with zipfile.ZipFile(path) as archive:
        assert archive.testzip() is None
        assert archive.namelist() == sorted(archive.namelist())
        assert {one.date_time for one in archive.infolist()} == {(1980, 1, 1, 0, 0, 0)}
        assert {one: archive.read(f"assets/{one}") for one in files} == {
            one: path.read_bytes() for one, path in files.items()
        }
    first = path.read_bytes()
    write_archive(path, folder / "content.md", dict(reversed(files.items())), info)
    assert path.read_bytes() == first
