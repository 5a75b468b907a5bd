"""What would be uploaded, under which path, with which configuration, and what is left out and why."""

import json
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.client.plan import (
    CONFIG_NAME,
    EVERYTHING,
    check_parent,
    check_root_path,
    decode_json,
    find_path_flaw,
    join_path,
    plan_upload,
    read_custom_prompts,
    read_processing_config,
)
from quire.model.errors import Reject


def write(path, data=b"x"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)
    return path


def planned(folder, root_path="/", config=EVERYTHING):
    return plan_upload(folder, root_path=root_path, config=config)


def test_the_smallest_files_come_first_below_the_root_path(tmp_path):
    write(tmp_path / "b" / "large.tif", b"x" * 9)
    write(tmp_path / "small.txt", b"x")
    plan = planned(tmp_path, "/fonds/box-7/")
    assert [file.logical_path for file in plan.files] == [
        "/fonds/box-7/small.txt",
        "/fonds/box-7/b/large.tif",
    ]
    assert plan.total_bytes == 10


def test_what_is_left_out_has_its_reason(tmp_path):
    write(tmp_path / "a.txt")
    write(tmp_path / "empty.txt", b"")
    write(tmp_path / ".hidden")
    write(tmp_path / "what?.txt")
    write(tmp_path / "back\\slash.txt")
    write(tmp_path / "_manifest.json")
    (tmp_path / "link.txt").symlink_to(tmp_path / "a.txt")
    write(tmp_path / "a:b" / "inside.txt")
    os.mkfifo(tmp_path / "pipe")
    plan = planned(tmp_path)
    assert [file.path for file in plan.files] == ["a.txt"]
    assert {one.path: one.error_class for one in plan.skipped} == {
        "empty.txt": "empty_file",
        ".hidden": "hidden",
        "link.txt": "symlink",
        "pipe": "not_a_file",
    }
    refused = {one.path: one.error_class for one in plan.refused}
    assert refused == dict.fromkeys(
        ["what?.txt", "back\\\\slash.txt", "_manifest.json", "a:b/inside.txt"], "bad_name"
    )


def test_the_name_of_the_server_s_list_is_free_elsewhere(tmp_path):
    write(tmp_path / "sub" / "_manifest.json")
    assert len(planned(tmp_path).files) == 1
    write(tmp_path / "_manifest.json")
    assert len(planned(tmp_path, "/fonds").files) == 2


def test_a_configuration_is_for_its_own_folder_alone(tmp_path):
    write(tmp_path / "top.txt")
    write(tmp_path / "a" / "in.txt")
    write(tmp_path / "a" / "b" / "below.txt")
    write(tmp_path / "a" / CONFIG_NAME, json.dumps({"ocr": False, "reorganize": True, "own": 1}).encode())
    plan = planned(tmp_path, config={"ocr": True, "describe": False, "pinax": True})
    configs = {file.path: dict(file.config) for file in plan.files}
    default = {"ocr": True, "describe": False, "pinax": True}
    assert configs["top.txt"] == configs["a/b/below.txt"] == default
    assert configs["a/in.txt"] == default | {"ocr": False, "reorganize": True, "own": 1}
    assert plan.skipped == ()  # the configuration itself is neither sent nor mentioned


@pytest.mark.parametrize(
    "text",
    [b"{", b"[]", b'{"ocr": 1}', b'{"reorganize": "yes"}', b'{"pdf_pages": "all"}', b"\xff", b"x" * 20_000],
)
def test_a_configuration_that_cannot_be_used_is_named(tmp_path, text):
    place = write(tmp_path / "sub" / CONFIG_NAME, text)
    with pytest.raises(Reject) as caught:
        planned(tmp_path)
    assert str(place) in str(caught.value)
    assert caught.value.code == "bad_processing"


def test_a_configuration_that_is_a_link_is_not_ignored(tmp_path):
    write(tmp_path / "other.json", b"{}")
    (tmp_path / CONFIG_NAME).symlink_to(tmp_path / "other.json")
    with pytest.raises(Reject, match="links are not followed"):
        planned(tmp_path)


def test_own_folders_are_not_uploaded(tmp_path):
    write(tmp_path / "home" / "quire.db")
    assert plan_upload(tmp_path, root_path="/", config=EVERYTHING, leave_out=[tmp_path / "home"]).files == ()


def test_a_file_is_no_folder(tmp_path):
    with pytest.raises(Reject, match="not a folder"):
        planned(write(tmp_path / "a.txt"))


@pytest.mark.parametrize(("given", "wanted"), [("/", "/"), ("//", "/"), ("/a/", "/a"), ("/a/b", "/a/b")])
def test_root_paths(given, wanted):
    assert check_root_path(given) == wanted


@pytest.mark.parametrize("root", ["", "a", "/a//b", "/..", "/a/./b", '/a"b', "/a\\b", "/a\x07", "/a:b"])
def test_root_paths_that_the_server_would_refuse(root):
    with pytest.raises(Reject):
        check_root_path(root)


@pytest.mark.parametrize("parent", ["01k8rnkn488rqcg3ygg72qbzs5", "short", "0" * 27])
def test_parents_that_the_server_would_refuse(parent):
    with pytest.raises(Reject):
        check_parent(parent)
    assert check_parent("") == ""


NAMES = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="/\0"), min_size=1, max_size=20)
ROOTS = st.lists(st.text("ab é#%+", min_size=1), max_size=3).map(lambda parts: "/" + "/".join(parts))


@given(ROOTS, st.lists(NAMES, min_size=1, max_size=4).map("/".join))
def test_a_joined_path_has_one_slash_between_and_keeps_both(root, path):
    whole = join_path(check_root_path(root), path)
    assert whole == (f"/{path}" if root == "/" else f"{root}/{path}")
    assert whole.startswith("/")
    assert whole.endswith(f"/{path}")


@given(ROOTS, st.lists(NAMES, min_size=1, max_size=4).map("/".join))
def test_what_is_let_through_keeps_the_published_rules(root, path):
    whole = join_path(check_root_path(root), path)
    if find_path_flaw(whole) is None:
        segments = whole.split("/")
        assert segments[0] == ""
        assert all(segments[1:])
        assert not {".", ".."} & set(segments)
        assert not any(one in '<>:"|?*\\' or ord(one) < 32 for one in whole)


@given(st.text('<>:"|?*\\\x00\x1f\n', min_size=1, max_size=1), st.text("abc", max_size=3))
def test_every_forbidden_character_is_refused(character, around):
    assert find_path_flaw(f"/x/{around}{character}{around}") is not None


@pytest.mark.parametrize("said", [[], "x", {"general": 1}, {"unknown": "x"}])
def test_prompts_that_cannot_be_used_are_refused(said):
    with pytest.raises(Reject, match=r"prompts\.json"):
        read_custom_prompts(said, "prompts.json")


def test_what_a_configuration_does_not_say_is_true():
    assert read_processing_config({}, "x") == {"ocr": True, "describe": True, "pinax": True}
    assert "reorganize" not in read_processing_config({}, "x")  # its absence has a meaning


def test_what_is_no_json_names_its_place():
    with pytest.raises(Reject, match="--metadata is not JSON"):
        decode_json("{oops", "--metadata")
