"""Results of all times and makers are read; what is malicious or broken is refused, and nothing escapes."""

import io
import stat
import zipfile

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.situations.bucket_folder import archive

from quire.library import archives
from quire.library.archives import ResultArchive, relink_assets
from quire.model.errors import Reject


def opened(tmp_path, members):
    path = tmp_path / "result.zip"
    path.write_bytes(archive(members))
    return ResultArchive(path)


@pytest.mark.parametrize(
    "members",
    [
        {"content.md": "text", "index.md": "other", "notes.md": "other"},
        {"index.md": "text", "notes.md": "other"},
        {"sub/Only.MD": "text", "info.json": "{}"},
    ],
)
def test_the_text_is_found_in_archives_of_all_times(tmp_path, members):
    with opened(tmp_path, members) as found:
        assert found.text() == "text"


@pytest.mark.parametrize("members", [{}, {"a.md": "", "b.md": ""}, {"a.txt": ""}])
def test_an_archive_without_one_text_is_refused(tmp_path, members):
    with opened(tmp_path, members) as found, pytest.raises(Reject, match="Markdown"):
        found.text()


@pytest.mark.parametrize("body", [b"", b"no zip", b"PK\x03\x04" + b"\0" * 40])
def test_what_is_no_archive_is_refused(tmp_path, body):
    path = tmp_path / "x.zip"
    path.write_bytes(body)
    with pytest.raises(Reject, match="cannot be read"):
        ResultArchive(path)


def test_damaged_members_are_refused(tmp_path):
    path = tmp_path / "x.zip"
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("content.md", "text " * 1000)
    body = bytearray(buffer.getvalue())
    body[45:60] = b"\xff" * 15
    path.write_bytes(body)
    with ResultArchive(path) as found, pytest.raises(Reject, match="cannot be read"):
        found.text()


EVIL = ["../x", "assets/../../x", "/etc/x", "assets//x", "assets/./x", "assets\\..\\x", "C:/x"]


@pytest.mark.parametrize("name", [*EVIL, "assets/\x1b[31m"])
def test_names_that_lead_elsewhere_are_passed_over(tmp_path, name):
    with opened(tmp_path, {"content.md": "x", name: "evil", "assets/ok.png": "ok"}) as found:
        assert found.unpack_assets(tmp_path / "inside" / "assets") == 1
    assert [path.name for path in (tmp_path / "inside").rglob("*") if path.is_file()] == ["ok.png"]
    assert not (tmp_path / "x").exists()


def test_links_are_passed_over(tmp_path):
    path = tmp_path / "x.zip"
    with zipfile.ZipFile(path, "w") as made:
        made.writestr("content.md", "x")
        link = zipfile.ZipInfo("assets/link")
        link.external_attr = (stat.S_IFLNK | 0o777) << 16
        made.writestr(link, "/etc/passwd")
    with ResultArchive(path) as found:
        assert found.assets() == []


def test_what_unpacks_to_more_than_is_allowed_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, "MAX_UNPACKED_BYTES", 1000)
    members = {"content.md": "x", "assets/a": b"\0" * 600, "assets/b": b"\0" * 600}
    with opened(tmp_path, members) as found, pytest.raises(Reject, match="unpacks to more"):
        found.unpack_assets(tmp_path / "assets")
    monkeypatch.setattr(archives, "MAX_TEXT_BYTES", 10)
    with opened(tmp_path, {"content.md": "x" * 11}) as found, pytest.raises(Reject, match="more than"):
        found.text()


@given(name=st.text(min_size=1, max_size=40))
def test_whatever_a_member_is_called_it_stays_in_its_folder(tmp_path_factory, name):
    folder = tmp_path_factory.mktemp("any")
    try:
        found = opened(folder, {"content.md": "x", f"assets/{name}": "x"})
    except (ValueError, Reject):  # a name that no archive can have
        return
    with found:
        try:
            found.unpack_assets(folder / "inside" / "assets")
        except OSError:  # too long for this file system
            return
    outside = [path for path in folder.rglob("*") if path.is_file() and path.parts[-2:-1] != ("inside",)]
    assert all(folder / "inside/assets" in path.parents or path.name == "result.zip" for path in outside)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("![a](assets/x.png)", "![a](B.assets/x.png)"),
        ("[a](<assets/x y.png>)", "[a](<B.assets/x y.png>)"),
        ('<img src="assets/x.png">', '<img src="B.assets/x.png">'),
        ("[1]: ./assets/x.png", "[1]: B.assets/x.png"),
        ("my assets/x.png are here", "my assets/x.png are here"),
        ("![a](other/assets/x.png)", "![a](other/assets/x.png)"),
        ("![a](https://x/assets/y)", "![a](https://x/assets/y)"),
    ],
)
def test_links_lead_to_the_folder_beside(text, wanted):
    assert relink_assets(text, "B.assets") == wanted


def test_an_archive_is_laid_out_again_and_again(tmp_path):
    path = tmp_path / "x.zip"
    path.write_bytes(archive({"content.md": "one", "assets/a.png": "a", "info.json": '{"x":1}'}))
    target = tmp_path / "out"
    target.mkdir()
    assert archives.unpack(path, target) == (target / "content.md", 1)
    path.write_bytes(archive({"index.md": "two"}))
    assert archives.unpack(path, target) == (target / "content.md", 0)
    assert sorted(one.name for one in target.iterdir()) == ["content.md", "info.json"]
