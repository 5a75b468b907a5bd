"""CIDs against values that other implementations gave."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.model.errors import Misconfigured
from quire.tools.ipfs import file_cid

MIB = 1 << 20

# 1 MiB of zeros: as computed by the JavaScript importer and by ipfs-car.
KNOWN = [
    ("unixfs-v1-2025", "bafkreibq4fevl27rgurgnxbp7adh42aqiyd6ouflxhj3gzmcxcxzbh6lla"),
    ("unixfs-256k", "bafybeiggzq4ryi7hscq5hzvzcnk4urnxt3asp37dhgvnjilf7exskximla"),
    ("raw", "bafkreibq4fevl27rgurgnxbp7adh42aqiyd6ouflxhj3gzmcxcxzbh6lla"),
]


@pytest.mark.parametrize(("profile", "cid"), KNOWN)
def test_one_mebibyte_of_zeros(profile, cid, tmp_path):
    (tmp_path / "zeros").write_bytes(bytes(MIB))

    assert file_cid(tmp_path / "zeros", profile) == cid


def test_the_empty_file_has_the_well_known_cid(tmp_path):
    (tmp_path / "empty").touch()

    for profile in ("unixfs-v1-2025", "unixfs-256k", "raw"):
        cid = file_cid(tmp_path / "empty", profile)
        assert cid == "bafkreihdwdcefgh4dqkjv67uzcmw7ojee6xedzdetojuzjevtenxquvyku"


@pytest.mark.parametrize(("size", "prefix"), [(MIB, "bafkrei"), (MIB + 1, "bafybei")])
def test_a_tree_begins_with_the_second_chunk(size, prefix, tmp_path):
    (tmp_path / "file").write_bytes(bytes(size))

    assert file_cid(tmp_path / "file").startswith(prefix)


def test_a_tree_of_two_levels_is_balanced(tmp_path):
    """175 chunks: one more than fits under one root."""
    (tmp_path / "one").write_bytes(bytes(174 << 18))
    (tmp_path / "two").write_bytes(bytes((174 << 18) + 1))

    assert file_cid(tmp_path / "one", "unixfs-256k") != file_cid(tmp_path / "two", "unixfs-256k")


def test_an_unknown_profile_names_the_known_ones(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(Misconfigured, match="unixfs-v1-2025, unixfs-256k, raw"):
        file_cid(tmp_path / "file", "unixfs")


@settings(deadline=None, max_examples=30)
@given(content=st.binary(max_size=2000))
def test_small_files_are_one_raw_block_under_every_profile(content, tmp_path_factory):
    path = tmp_path_factory.mktemp("cid") / "file"
    path.write_bytes(content)

    assert len({file_cid(path, profile) for profile in ("unixfs-v1-2025", "unixfs-256k", "raw")}) == 1
