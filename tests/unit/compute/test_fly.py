"""The launcher on the Machines API, against a server whose machines are processes."""

import json
import sys

import httpx
import pytest
from tests.standins.machines import MachinesServer, machines_server

from quire.compute.remote.fly import FlyApp, FlyGuest, FlyLauncher
from quire.model.errors import Misconfigured, Retry
from quire.model.work import Order, StepCall
from quire.testing.factories import file
from quire.testing.time import FakeClock

CALL = StepCall(step="tiff_to_jpeg", version=1)
HANGS = (sys.executable, "-c", "import signal; signal.pause()")
ENDS = (sys.executable, "-c", "")
APPS = {
    "tiff_to_jpeg": FlyApp(app="tiffs", image="registry.example/w:1", memory_mb=1024, prefix="tiff"),
    "image_variants": FlyApp(app="pictures", image="registry.example/w:2", memory_mb=2048, prefix="img"),
}


def order(task_no=1, attempt=1):
    return Order(4, task_no, attempt, file())


def environment(task_no=1):
    return {"TASK_ID": f"tiff_{task_no}", "BATCH_ID": "b"}


class Provider:
    def __init__(self, server):
        self.server = server
        self.slept = []
        self.clock = FakeClock()
        self.opened = []

    def launcher(self, **changes):
        async def sleep(seconds):
            self.slept.append(seconds)
            self.clock.advance(seconds)

        parts = {"api": self.server.url, "token": "token", "apps": APPS, "owner": "h1", "per_second": 2.0}
        launcher = FlyLauncher(
            **(parts | changes),
            guest=FlyGuest(region="ord", cpus=2, cpu_kind="shared"),
            clock=self.clock,
            sleep=sleep,
            fraction=lambda: 1.0,
        )
        self.opened.append(launcher)
        return launcher


@pytest.fixture(params=[HANGS], ids=["hangs"])
async def provider(request):
    with machines_server(MachinesServer(command=request.param)) as server:
        provider = Provider(server)
        yield provider
        for launcher in provider.opened:
            await launcher.close()


async def test_the_request_is_that_of_the_contract(provider):
    handle = await provider.launcher().launch(order(), CALL, environment())
    (body,) = provider.server.bodies
    assert body == {
        "name": "tiff-tiff_1-a1",
        "region": "ord",
        "config": {
            "image": "registry.example/w:1",
            "auto_destroy": True,
            "restart": {"policy": "no"},
            "guest": {"memory_mb": 1024, "cpus": 2, "cpu_kind": "shared"},
            "env": {"TASK_ID": "tiff_1", "BATCH_ID": "b"},
            "metadata": {"quire_house": "h1", "quire_attempt": "4.1.1"},
        },
    }
    assert handle == f"tiffs/{provider.server.machines[0].id}"


@pytest.mark.parametrize(
    ("faults", "slept"),
    [
        (["429"], [1.0]),
        (["500", "429", "500"], [1.0, 2.0, 4.0]),
        (["409 after"], []),
        (["lost after"], [1.0]),
        (["500", "lost after"], [1.0, 2.0]),
    ],
)
async def test_an_attempt_has_one_machine(provider, faults, slept):
    provider.server.faults += faults
    handle = await provider.launcher().launch(order(), CALL, environment())
    (machine,) = provider.server.machines
    assert handle == f"tiffs/{machine.id}"
    assert provider.slept == slept


@pytest.mark.parametrize(
    ("said", "slept"),
    [("7", 7.0), ("0", 1.0), ("99999", 60.0), ("-3", 1.0), ("Mon, 16 Nov 2026 08:00:00 GMT", 1.0)],
)
async def test_the_provider_may_say_how_long_to_wait(provider, said, slept):
    answers = [httpx.Response(429, headers={"retry-after": said}), httpx.Response(200, json={"id": "m1"})]
    launcher = provider.launcher()
    await launcher._http.aclose()
    transport = httpx.MockTransport(lambda _request: answers.pop(0))
    launcher._http = httpx.AsyncClient(base_url="https://machines.example", transport=transport)
    assert await launcher.launch(order(), CALL, environment()) == "tiffs/m1"
    assert provider.slept == [slept]


async def test_asking_again_gives_the_same_machine_and_another_attempt_another(provider):
    launcher = provider.launcher()
    first = await launcher.launch(order(), CALL, environment())
    assert await launcher.launch(order(), CALL, environment()) == first
    assert await launcher.launch(order(attempt=2), CALL, environment()) != first
    assert [one.name for one in provider.server.machines] == ["tiff-tiff_1-a1", "tiff-tiff_1-a2"]


async def test_a_machine_whose_file_is_called_already_exists_is_a_new_one(provider, monkeypatch):
    launcher = provider.launcher()

    async def listed(_app):
        raise AssertionError("nobody need be looked for")

    monkeypatch.setattr(launcher, "_machines", listed)
    named = environment() | {"INPUT_FILE_NAME": "already exists.tif"}
    handle = await launcher.launch(order(), CALL, named)
    assert handle == f"tiffs/{provider.server.machines[0].id}"


async def test_a_provider_that_is_away_is_a_passing_fault(provider):
    provider.server.faults += ["500"] * 5
    with pytest.raises(Retry, match="answered 500"):
        await provider.launcher().launch(order(), CALL, environment())
    with pytest.raises(Retry, match="no answer"):
        await provider.launcher(api="http://127.0.0.1:9").list_machines()
    assert provider.server.machines == []


@pytest.mark.parametrize(("changes", "words"), [({"token": "wrong"}, "401"), ({"api": "/v9"}, "404")])
async def test_a_refusal_is_for_a_person_and_does_not_show_the_token(provider, changes, words):
    if "api" in changes:
        changes = {"api": provider.server.url + changes["api"]}
    with pytest.raises(Misconfigured, match=words) as caught:
        await provider.launcher(**changes).launch(order(), CALL, environment())
    assert "wrong" not in str(caught.value)


async def test_machines_are_not_asked_for_faster_than_allowed(provider):
    launcher = provider.launcher()
    for number in range(4):
        await launcher.launch(order(number), CALL, environment(number))
    assert provider.slept == [0.5, 0.5, 0.5]


async def test_who_is_gone_is_told_and_ending_is_repeatable(provider):
    launcher = provider.launcher()
    first, second = [await launcher.launch(order(no), CALL, environment(no)) for no in (1, 2)]
    assert await launcher.find_ended([first, second]) == {}
    provider.server.machines[0].kill()
    provider.server.wait_until(lambda: len(provider.server.running()) == 1)
    assert await launcher.find_ended([first, second]) == {first: "destroyed"}
    await launcher.end(second)
    await launcher.end(second)
    assert await launcher.find_ended([second, "pictures/none"]) == {
        second: "destroyed",
        "pictures/none": "destroyed",
    }


@pytest.mark.parametrize("provider", [ENDS], ids=["ends"], indirect=True)
async def test_a_name_that_is_taken_by_one_that_has_ended_is_gone(provider):
    provider.server.faults += ["409 after"]
    launcher = provider.launcher()
    machine = provider.server
    handle = await launcher.launch(order(), CALL, environment())
    machine.wait_until(lambda: machine.machines and not machine.running())
    assert await launcher.find_ended([handle]) == {handle: "destroyed"}


async def test_machines_of_this_house_are_listed_with_their_attempts(provider):
    await provider.launcher(owner="h2").launch(order(9), CALL, environment(9))
    launcher = provider.launcher()
    first = await launcher.launch(order(1, attempt=3), CALL, environment())
    call = StepCall(step="image_variants", version=1)
    second = await launcher.launch(order(2), call, {"TASK_ID": "img_1", "BATCH_ID": "b"})
    assert await provider.launcher().list_machines() == {first: (4, 1, 3), second: (4, 2, 1)}
    assert provider.server.machines[-1].name == "img-img_1-a1"


async def test_a_refusal_that_repeats_the_request_does_not_show_its_secrets(provider):
    launcher = provider.launcher()
    echo = httpx.MockTransport(
        lambda request: httpx.Response(422, json=json.loads(request.content)["config"]["env"])
    )
    launcher._http = httpx.AsyncClient(base_url="https://api.example", transport=echo)
    told = environment() | {
        "R2_SECRET_ACCESS_KEY": "quite secret",
        "CALLBACK_URL": "https://q/callback?sig=1",
    }
    with pytest.raises(Misconfigured, match="422") as caught:
        await launcher.launch(order(), CALL, told)
    assert "…" in str(caught.value)
    assert "secret" not in str(caught.value).lower().replace("r2_secret", "")
    assert "sig=1" not in str(caught.value)
