"""Results of all times and makers are read; what is malicious or broken is refused, and nothing escapes."""

import io
import stat
import zipfile

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.situations.bucket_folder import archive

from quire.library import archives
from quire.library.archives import ArchiveLimits, ResultArchive, relink_assets
from quire.model.errors import Reject


def opened(tmp_path, members, **limits):
    path = tmp_path / "result.zip"
    path.write_bytes(archive(members))
    return ResultArchive(path, ArchiveLimits(**limits))


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


def test_what_unpacks_to_more_than_is_allowed_is_refused(tmp_path):
    members = {"content.md": "x", "assets/a": b"\0" * 600, "assets/b": b"\0" * 600}
    with (
        opened(tmp_path, members, max_asset_bytes=1000) as found,
        pytest.raises(Reject, match="unpacks to more"),
    ):
        found.unpack_assets(tmp_path / "assets")
    with (
        opened(tmp_path, {"content.md": "x" * 11}, max_text_bytes=10) as found,
        pytest.raises(Reject, match="more than"),
    ):
        found.text()
    with pytest.raises(Reject, match="more than 1 members"):
        opened(tmp_path, members, max_members=1)


def test_a_header_that_lies_about_the_size_is_found_out_while_it_is_unpacked(tmp_path):
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as made:
        made.writestr("content.md", "a" * 1_000_000)
    limits = ArchiveLimits(max_text_bytes=10_000)
    with ResultArchive(path, limits) as found, pytest.raises(Reject, match="unpacks to more"):
        found.text()
    data = bytearray(path.read_bytes())
    at = data.index(b"PK\x01\x02")
    assert int.from_bytes(data[at + 24 : at + 28], "little") == 1_000_000
    data[at + 24 : at + 28] = (100).to_bytes(4, "little")
    path.write_bytes(data)
    with ResultArchive(path, limits) as found, pytest.raises(Reject):
        found.text()


def test_two_members_of_one_name_are_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "a.zip", "w") as made:
        made.writestr("content.md", "one")
        with pytest.warns(UserWarning, match="Duplicate"):
            made.writestr("content.md", "two")
    with pytest.raises(Reject, match="two members"):
        ResultArchive(tmp_path / "a.zip")


def test_a_member_that_lies_before_the_file_is_refused(tmp_path):
    path = tmp_path / "before.zip"
    path.write_bytes(archive({"content.md": "words", "info.json": "{}"}))
    data = bytearray(path.read_bytes())
    data[-6] ^= 0x80  # where the list of members begins, as the end of the archive tells it
    path.write_bytes(bytes(data))
    with pytest.raises(Reject) as refusal, ResultArchive(path) as found:
        found.text()
    assert refusal.value.code == "bad_archive"


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
    members = {"content.md": "c", "info.json": f'{{"size_bytes": {said}}}'}
    with opened(tmp_path, members) as found:
        assert found.info()["size_bytes"] == size


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
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as made:
        for name, data in members.items():
            made.writestr(name.encode("utf-8", "replace").decode(), data)
    data = bytearray(buffer.getvalue())
    for at, by in flips:
        if at < len(data):
            data[at] ^= by
    path = tmp_path / "hostile.zip"
    path.write_bytes(bytes(data[: max(0, len(data) - cut)] if cut % 3 == 0 else data))
    out = tmp_path / "out"
    limits = ArchiveLimits(max_text_bytes=10_000, max_info_bytes=10_000, max_asset_bytes=10_000)

    def unpack(found):
        archives.remove_folder(out)
        found.unpack_assets(out)

    for use in (
        lambda found: found.text(),
        lambda found: found.info(),
        lambda found: found.lines(3),
        lambda found: found.check("ab" * 32),
        unpack,
    ):
        try:
            with ResultArchive(path, limits) as found:
                use(found)
        except Reject as error:
            assert error.code == "bad_archive"  # noqa: PT017
    assert {one.name for one in tmp_path.iterdir()} <= {"hostile.zip", "out"}


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
