"""Which computes need the API, because their workers call back, and what workers are given."""

import pytest
from msgspec import structs

from quire.assembly.remote import RemoteComputes, bucket_prefix, prices, remote_compute_names
from quire.model.errors import Misconfigured
from quire.settings import Secret, Settings
from quire.settings.compute import ComputeSettings, FlySettings, LocalSettings, WorkerKeySettings
from quire.settings.values import S3Settings

S3_SETTINGS = S3Settings(
    bucket="scans",
    endpoint="https://inside.example",
    access_key_id=Secret("main"),
    secret_access_key=Secret("main secret"),
    prefix="in/side",
)
KEYS = WorkerKeySettings(
    access_key_id=Secret("worker"), secret_access_key=Secret("worker secret"), account_id="acc"
)


@pytest.mark.parametrize(
    ("tiff", "image", "wanted"),
    [
        ("local", "local", set()),
        ("ray", "local", set()),
        ("process", "ray", {"process"}),
        ("fly", "process", {"fly", "process"}),
    ],
)
def test_processes_and_machines_call_back_and_nobody_else(tiff, image, wanted):
    assert remote_compute_names(Settings(compute=ComputeSettings(tiff=tiff, image=image))) == wanted


def test_machines_and_processes_of_this_machine_have_a_price(tmp_path):
    chosen = Settings(
        home=tmp_path, local=LocalSettings(price_per_second=0.25), fly=FlySettings(price_per_second=0.5)
    )
    assert prices(chosen) == {"fly": 0.5, "process": 0.25}
    _, given = RemoteComputes(chosen, "https://quire.example")._build_launcher("process", None, tmp_path)
    assert given.price_per_second == 0.25


def options(tmp_path, **changes):
    chosen = {"home": tmp_path, "store": "s3", "s3": S3_SETTINGS, "worker_keys": KEYS} | changes
    return RemoteComputes(Settings(**chosen), "https://quire.example")._task_options()


def test_workers_are_given_their_own_key_and_never_the_main_one(tmp_path):
    made = options(tmp_path)
    assert (made.access.access_key_id, made.access.secret_access_key) == ("worker", "worker secret")
    assert (made.access.bucket, made.access.account_id, made.prefix) == ("scans", "acc", "in/side/")
    assert "worker secret" not in repr(made)
    assert "main" not in "".join(made.access.variables("image_variants").values())


def test_without_such_a_key_they_are_given_none_and_know_no_prefix(tmp_path):
    made = options(tmp_path, worker_keys=WorkerKeySettings())
    assert (made.access, made.prefix) == (None, "")
    assert bucket_prefix(Settings(s3=S3_SETTINGS)) == ""


@pytest.mark.parametrize(
    ("public", "own", "wanted"),
    [
        ("", "", "https://inside.example"),
        ("https://outside.example", "", "https://outside.example"),
        ("https://outside.example", "https://theirs.example", "https://theirs.example"),
    ],
)
def test_the_store_is_where_workers_reach_it(tmp_path, public, own, wanted):
    s3 = structs.replace(S3_SETTINGS, public_endpoint=public)
    made = options(tmp_path, s3=s3, worker_keys=structs.replace(KEYS, endpoint=own))
    assert made.access.variables("tiff_to_jpeg")["S3_ENDPOINT_URL"] == wanted


def test_steps_of_own_pipelines_on_fly_need_an_app_and_an_image(tmp_path):
    remote = RemoteComputes(Settings(home=tmp_path, fly=FlySettings(step_app="steps")), "")
    with pytest.raises(Misconfigured, match=r"not set: fly\.step_worker, fly\.token, serve\.public_url"):
        remote._check_fly()
