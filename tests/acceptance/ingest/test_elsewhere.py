"""Work that leaves the server: the same batch on every compute, and everything that can go wrong with it."""

import pytest
from tests.acceptance.ingest.conftest import s3_environment, serving
from tests.acceptance.ingest.elsewhere import (
    FAST,
    PROCESS,
    finished,
    on_fly,
    outcomes,
    sent,
    strays,
)

pytestmark = pytest.mark.slow


def result(server):
    batch = sent(server)
    progress = finished(server, batch)
    assert strays(server, batch) == []
    return progress, outcomes(server, batch)


@pytest.fixture(scope="module")
def at_home_result(tmp_path_factory):
    with serving(tmp_path_factory.mktemp("local"), FAST, "--workers", "2") as server:
        return result(server)


def check(found, expected):
    progress, files = found
    assert progress["status"] == expected[0]["status"] == "DONE"
    assert progress["phases"] == expected[0]["phases"]
    assert files == expected[1]


def test_the_local_result_is_what_the_others_are_compared_with(at_home_result):
    _, files = at_home_result
    ends = {path: (outcome, why) for path, (outcome, why, _) in files.items()}
    assert ends["/box/p1.tif"] == ("done", "")
    assert ends["/box/broken.tif"][0] == ends["/box/broken.jpg"][0] == "failed"
    assert ("medium", "/box/p1.jpg.medium.jpg") in files["/box/p1.tif"][2]
    pages = [path for role, path in files["/box/many.tif"][2] if role == "jpeg"]
    assert sorted(pages) == ["/box/many-p002.jpg", "/box/many-p003.jpg", "/box/many.jpg"]


def test_processes_give_the_same(tmp_path, at_home_result):
    with serving(tmp_path, FAST | PROCESS) as server:
        check(result(server), at_home_result)


@pytest.mark.service
def test_processes_give_the_same_on_s3(tmp_path, at_home_result, s3_server):
    store = s3_environment(s3_server, f"elsewhere/{tmp_path.name}")
    with serving(tmp_path, FAST | PROCESS | store) as server:
        check(result(server), at_home_result)


def test_one_phase_here_and_one_elsewhere_give_the_same(tmp_path, at_home_result):
    mixed = {"QUIRE_COMPUTE_TIFF": "local", "QUIRE_COMPUTE_IMAGE": "process"}
    with serving(tmp_path, FAST | mixed, "--workers", "1") as server:
        check(result(server), at_home_result)


def test_machines_give_the_same(tmp_path, at_home_result):
    with on_fly(tmp_path) as (server, machines):
        check(result(server), at_home_result)
        machines.wait_until(lambda: not machines.running())
        assert {one.app for one in machines.machines} == {"tiffs", "pictures"}
