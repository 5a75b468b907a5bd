"""What a scan finds, what it passes over and why."""

import os
import socket
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.errors import Reject
from quire.model.files import fold
from quire.tools.folder_scan import find_name_flaw, scan, scan_folders


def found(*roots, **options):
    return {one.path: one for one in scan(list(roots), **options)}


def write(path, data=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def test_files_are_found_by_path_below_the_folder(tmp_path):
    for name in ("b/c.tif", "a.jpg", "b/a.jpg"):
        write(tmp_path / name)
    listed = [one.path for one in scan([tmp_path])]
    assert listed == ["a.jpg", "b/a.jpg", "b/c.tif"]


@pytest.mark.parametrize(
    "name",
    [
        "with blank.tif",
        "100%.tif",
        "a#b.tif",
        "it's “quoted” \".tif",
        "🌷.tif",
        "n" * 246 + ".tif",
        "é́.tif",
        "a:b?.tif",
    ],
)
def test_unusual_names_are_taken_as_they_are(tmp_path, name):
    write(tmp_path / name)
    assert found(tmp_path)[name].state == "found"


def test_links_are_not_followed_and_say_so(tmp_path):
    write(tmp_path / "real.tif")
    (tmp_path / "loop").symlink_to(tmp_path, target_is_directory=True)
    (tmp_path / "file.tif").symlink_to(tmp_path / "real.tif")
    (tmp_path / "dangling.tif").symlink_to(tmp_path / "nowhere")
    result = found(tmp_path)
    assert set(result) == {"real.tif", "loop", "file.tif", "dangling.tif"}
    assert {result[name].state for name in ("loop", "file.tif", "dangling.tif")} == {"skipped"}
    assert "link" in result["loop"].reason


def test_what_is_no_regular_file_is_skipped_with_a_reason(tmp_path):
    os.mkfifo(tmp_path / "pipe.tif")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(str(tmp_path / "socket.tif"))
        result = found(tmp_path)
    assert {one.error_class for one in result.values()} == {"not_a_file"}


def test_hidden_and_system_files_are_skipped_with_a_reason(tmp_path):
    for name in (".DS_Store", "Thumbs.db", "._a.jpg", ".git/config", "ok.jpg"):
        write(tmp_path / name)
    result = found(tmp_path)
    assert {path: one.state for path, one in result.items()} == {
        ".DS_Store": "skipped",
        "Thumbs.db": "skipped",
        "._a.jpg": "skipped",
        ".git/": "skipped",
        "ok.jpg": "found",
    }


def test_an_empty_file_fails_with_a_reason(tmp_path):
    write(tmp_path / "a.tif", b"")
    assert (found(tmp_path)["a.tif"].state, found(tmp_path)["a.tif"].error_class) == ("failed", "empty_file")


@pytest.mark.parametrize("name", ["a\\b.tif", "a\nb.tif", "a\u202eb.tif", "a\x7fb.tif"])
def test_names_that_other_systems_misread_fail_with_advice(tmp_path, name):
    write(tmp_path / name)
    (one,) = scan([tmp_path])
    assert (one.state, one.error_class) == ("failed", "bad_name")
    assert "rename" in one.reason


def test_a_name_that_is_not_utf8_is_shown_and_fails(tmp_path):
    write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/a\xff.tif")))
    (one,) = scan([tmp_path])
    assert (one.path, one.error_class) == ("a\\xff.tif", "bad_name")
    assert "UTF-8" in one.reason


def test_no_two_names_look_alike(tmp_path):
    for raw in (b"a\xff.tif", b"a\\xff.tif"):
        write(Path(os.fsdecode(os.fsencode(tmp_path) + b"/" + raw)))
    assert len(found(tmp_path)) == 2


def test_a_folder_may_be_nested_deeper_than_functions(tmp_path):
    deep = tmp_path.joinpath(*["d"] * 1100)
    for folder in (*reversed(deep.parents), deep):
        folder.mkdir(exist_ok=True)
    write(deep / "a.tif")
    try:
        assert [Path(path).name for path in found(tmp_path)] == ["a.tif"]
    finally:
        # By hand: what clears temporary folders away goes down by calling itself, and not this deep.
        (deep / "a.tif").unlink()
        for folder in (deep, *deep.parents):
            if folder == tmp_path:
                break
            folder.rmdir()


def test_our_own_folders_are_left_out(tmp_path):
    write(tmp_path / "a.tif")
    write(tmp_path / "quire-out" / "a.jpg")
    assert set(found(tmp_path, leave_out=[tmp_path / "quire-out"])) == {"a.tif"}


def test_several_roots_keep_their_names_apart(tmp_path):
    for name in ("x/scans/a.tif", "y/scans/a.tif", "z/a.tif"):
        write(tmp_path / name)
    result = found(tmp_path / "x/scans", tmp_path / "y/scans", tmp_path / "z/a.tif")
    assert set(result) == {"scans/a.tif", "scans-2/a.tif", "a.tif"}


def test_files_of_the_same_name_given_one_by_one_keep_apart(tmp_path):
    for name in ("x/a.tif", "y/a.tif", "other/y/a.tif"):
        write(tmp_path / name)
    paths = [
        one.path for one in scan([tmp_path / "x/a.tif", tmp_path / "y/a.tif", tmp_path / "other/y/a.tif"])
    ]
    assert len(set(paths)) == 3


def test_a_single_file_is_found_by_its_name(tmp_path):
    write(tmp_path / "a.tif")
    assert set(found(tmp_path / "a.tif")) == {"a.tif"}


def test_a_missing_root_is_refused(tmp_path):
    with pytest.raises(Reject, match="No such file"):
        list(scan([tmp_path / "nope"]))


@given(st.text(max_size=60))
def test_any_name_is_judged_without_a_crash(name):
    assert find_name_flaw(name) is None or "rename" in find_name_flaw(name)


def test_folder_by_folder_each_before_those_below_it(tmp_path):
    for name in ("b/c.tif", "a.jpg", "b/x/y.tif", "c/z.tif"):
        write(tmp_path / name)
    (tmp_path / "empty").mkdir()
    listings = list(scan_folders([tmp_path]))
    assert [[one.path for one in listing.files] for listing in listings] == [
        ["a.jpg"],
        ["b/c.tif"],
        ["b/x/y.tif"],
        ["c/z.tif"],
        [],
    ]
    assert [listing.folders for listing in listings] == [["b", "c", "empty"], ["b/x"], [], [], []]


def test_folders_that_differ_in_case_alone_are_listed_together(tmp_path):
    for name in ("Scans/a.tif", "other/b.tif", "scans/A.tif", "Scans/deep/c.tif", "scans/DEEP/c.tif"):
        write(tmp_path / name)
    together = [{one.path for one in listing.files} for listing in scan_folders([tmp_path])]
    assert {"Scans/a.tif", "scans/A.tif"} in together
    assert {"Scans/deep/c.tif", "scans/DEEP/c.tif"} in together
    assert {"other/b.tif"} in together


def test_several_roots_are_folders_of_one_listing(tmp_path):
    write(tmp_path / "one" / "a.tif")
    write(tmp_path / "two" / "b.tif")
    write(tmp_path / "c.tif")
    roots = [tmp_path / "one", tmp_path / "two", tmp_path / "c.tif"]
    first, *others = scan_folders(roots)
    assert ([one.path for one in first.files], first.folders) == (["c.tif"], ["one", "two"])
    assert [[one.path for one in listing.files] for listing in others] == [["one/a.tif"], ["two/b.tif"]]


def test_a_root_that_does_not_exist_is_refused_before_anything_is_listed(tmp_path):
    write(tmp_path / "a.tif")
    with pytest.raises(Reject, match="nowhere"):
        next(scan_folders([tmp_path / "a.tif", tmp_path / "nowhere"]))


_names = st.text(st.sampled_from("aA.é\u0301ß-"), min_size=1, max_size=3).filter(
    lambda name: not name.startswith(".")
)


@given(st.lists(st.lists(_names, min_size=1, max_size=3), max_size=8))
def test_listings_hold_the_files_of_a_scan_and_every_folder_is_listed_before(paths):
    with TemporaryDirectory() as folder:
        for parts in paths:
            place = Path(folder, *parts)
            with suppress(OSError):  # a file where a folder is, or the other way round
                write(place)
        listings = list(scan_folders([Path(folder)]))
        scanned = list(scan([Path(folder)]))
    assert sorted(one.path for listing in listings for one in listing.files) == sorted(
        one.path for one in scanned
    )
    known = {""}
    for listing in listings:
        places = {fold(one.path.rpartition("/")[0]) for one in listing.files}
        places |= {fold(path.rpartition("/")[0]) for path in listing.folders}
        assert len(places) <= 1
        assert places <= known
        known |= {fold(path) for path in listing.folders}
    where = [fold(one.path.rpartition("/")[0]) for listing in listings for one in listing.files[:1]]
    assert len(set(where)) == len(where)
