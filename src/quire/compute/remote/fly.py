"""A launcher on the Machines API of Fly: one machine for each attempt, which is destroyed when it ends.

Promises: an attempt has one machine at most, because the machine is named after the attempt: when an answer
was lost, a second request finds the name in use. Requests respect the rate limit of the API; no message
contains the token. Must not know: what the worker in the machine does.
"""

from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any

import httpx
import msgspec
from msgspec import Struct, field, structs

from quire.compute.redaction import redact
from quire.compute.remote.step_task import is_step_task
from quire.model.backoff import backoff_seconds
from quire.model.clock import Clock
from quire.model.errors import Misconfigured, Retry
from quire.model.work import AttemptKey, Order, StepCall

ATTEMPTS = 5
FIRST_DELAY_SECONDS = 1.0
LONGEST_DELAY_SECONDS = 20.0
MAX_RETRY_AFTER_SECONDS = 60.0
OWNER, ATTEMPT = "quire_house", "quire_attempt"  # keys in the metadata of a machine
_ENDED = frozenset({"stopped", "failed", "destroying", "destroyed"})
_CONFLICT = 409
MEMORY_UNIT_MB = 256
STEP_SETTINGS = "fly.step_app and fly.step_worker"
_NOTHING: Mapping[str, str] = {}


class FlyApp(Struct, frozen=True, kw_only=True):
    """Where machines of one step are started, from which container image, and how large they are; 0: as large
    as the step says.
    """

    app: str
    image: str
    memory_mb: int
    prefix: str


class FlyGuest(Struct, frozen=True, kw_only=True):
    region: str
    cpus: int
    cpu_kind: str


class _Config(Struct, frozen=True):
    metadata: dict[str, Any] | None = None


class _Machine(Struct, frozen=True):
    id: str
    name: str = ""
    state: str = ""
    config: _Config | None = field(default_factory=_Config)


class FlyLauncher:
    """`owner` distinguishes the machines of this installation from others in the same app; `own` is for
    steps that people have written.
    """

    def __init__(
        self,
        *,
        api: str,
        token: str,
        apps: Mapping[str, FlyApp],  # by step
        guest: FlyGuest,
        owner: str,
        per_second: float,
        clock: Clock,
        sleep: Callable[[float], Awaitable[None]],
        fraction: Callable[[], float],
        own: FlyApp | None = None,
    ) -> None:
        self._apps = apps
        self._own = own
        self._guest = guest
        self._owner = owner
        self._between_seconds = 1.0 / per_second
        self._clock = clock
        self._sleep = sleep
        self._fraction = fraction
        self._next_at = 0.0
        self._http = httpx.AsyncClient(
            base_url=api.rstrip("/"),
            headers={"Authorization": f"Bearer {token}"},
            timeout=httpx.Timeout(30.0, connect=10.0),
        )

    async def launch(self, order: Order, call: StepCall, environment: Mapping[str, str]) -> str:
        app = self._own if is_step_task(environment) else self._apps.get(call.step)
        if app is None:
            raise Misconfigured(f"there is no app for machines of the step {call.step}; set {STEP_SETTINGS}")
        name = f"{app.prefix}-{environment['TASK_ID']}-a{order.attempt}"
        if is_step_task(environment):  # side by side on a document, they have one task id
            name = f"{app.prefix}-{environment['BATCH_ID']}-{order.task_no}-a{order.attempt}".lower()
            app = structs.replace(app, memory_mb=app.memory_mb or _round_memory(call.memory_mb))
        body = msgspec.json.encode(self._body(app, name, order, environment))
        await self._pace()
        answer = await self._request("POST", app.app, "", body)
        # A success repeats the environment, in which a file may have any name.
        if not answer.is_success and (answer.status_code == _CONFLICT or "already exists" in answer.text):
            # An earlier request succeeded and its answer was lost. A machine that is not listed has ended.
            there = [one.id for one in await self._machines(app.app) if one.name == name]
            return f"{app.app}/{there[0] if there else name}"
        if not answer.is_success:
            raise _refusal(answer, app.app, environment)
        return f"{app.app}/{_decode(answer, _Machine).id}"

    async def find_ended(self, handles: Collection[str]) -> dict[str, str]:
        found = {}
        for app in sorted({handle.partition("/")[0] for handle in handles}):
            states = {f"{app}/{one.id}": one.state for one in await self._machines(app)}
            for handle in handles:
                if handle.partition("/")[0] == app:
                    # Lists may lag behind: a machine that is not listed yet is requested by itself.
                    state = states.get(handle) or await self._state(handle)
                    if state in _ENDED:
                        found[handle] = state
        return found

    async def end(self, handle: str) -> None:
        app, _, machine = handle.partition("/")
        answer = await self._request("DELETE", app, f"/{machine}?force=true")
        if not answer.is_success and answer.status_code != httpx.codes.NOT_FOUND:
            raise _refusal(answer, app)

    async def list_machines(self) -> dict[str, AttemptKey]:
        found = {}
        own = [self._own] if self._own is not None else []
        for app in sorted({one.app for one in (*self._apps.values(), *own)}):
            for machine in await self._machines(app):
                said = (machine.config or _Config()).metadata or {}
                name = _parse_attempt(said.get(ATTEMPT))
                if said.get(OWNER) == self._owner and name is not None and machine.state != "destroyed":
                    found[f"{app}/{machine.id}"] = name
        return found

    async def close(self) -> None:
        await self._http.aclose()

    def _body(self, app: FlyApp, name: str, order: Order, environment: Mapping[str, str]) -> dict[str, Any]:
        guest = {"memory_mb": app.memory_mb, "cpus": self._guest.cpus, "cpu_kind": self._guest.cpu_kind}
        return {
            "name": name,
            "region": self._guest.region,
            "config": {
                "image": app.image,
                "auto_destroy": True,
                "restart": {"policy": "no"},
                "guest": guest,
                "env": dict(environment),
                "metadata": {OWNER: self._owner, ATTEMPT: ".".join(map(str, order.attempt_key))},
            },
        }

    async def _state(self, handle: str) -> str:
        app, _, machine = handle.partition("/")
        answer = await self._request("GET", app, f"/{machine}")
        if answer.status_code == httpx.codes.NOT_FOUND:
            return "destroyed"
        if not answer.is_success:
            raise _refusal(answer, app)
        return str(_decode(answer, _Machine).state)

    async def _machines(self, app: str) -> list[_Machine]:
        answer = await self._request("GET", app, "")
        if not answer.is_success:
            raise _refusal(answer, app)
        found: list[_Machine] = _decode(answer, list[_Machine])
        return found

    async def _request(self, method: str, app: str, rest: str, body: bytes | None = None) -> httpx.Response:
        """Send a request; passing faults are tried again, later each time. Raises Retry."""
        headers = {"content-type": "application/json"} if body is not None else {}
        url = f"/v1/apps/{app}/machines{rest}"
        fault, retry_after = "", 0.0
        for attempt in range(ATTEMPTS):
            if attempt:
                delay = backoff_seconds(
                    attempt,
                    first=FIRST_DELAY_SECONDS,
                    longest=LONGEST_DELAY_SECONDS,
                    fraction=self._fraction(),
                )
                await self._sleep(max(retry_after, delay))
            try:
                answer = await self._http.request(method, url, content=body, headers=headers)
            except httpx.TransportError as error:
                fault, retry_after = f"no answer ({type(error).__name__})", 0.0
                continue
            if answer.status_code != httpx.codes.TOO_MANY_REQUESTS and answer.status_code < 500:
                return answer
            if "already exists" in answer.text:
                return answer
            fault, retry_after = f"it answered {answer.status_code}", _read_retry_after(answer)
        raise Retry(f"the Machines API cannot be used: {fault}", code="no_answer")

    async def _pace(self) -> None:
        now = self._clock.monotonic()
        wait, self._next_at = self._next_at - now, max(now, self._next_at) + self._between_seconds
        if wait > 0:
            await self._sleep(wait)


def _round_memory(memory_mb: int) -> int:
    """The memory of a machine: a multiple of what the provider sells."""
    return -(-memory_mb // MEMORY_UNIT_MB) * MEMORY_UNIT_MB


def _read_retry_after(answer: httpx.Response) -> float:
    """The seconds of the Retry-After header, limited; a date is ignored."""
    said = answer.headers.get("retry-after", "")
    return min(MAX_RETRY_AFTER_SECONDS, float(said)) if said.isascii() and said.isdecimal() else 0.0


def _decode(answer: httpx.Response, kind: Any) -> Any:
    try:
        return msgspec.json.decode(answer.content, type=kind)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise Misconfigured("the server at fly.api is no Machines API; correct the address") from error


def _refusal(answer: httpx.Response, app: str, environment: Mapping[str, str] = _NOTHING) -> Misconfigured:
    """`environment` was in the request and may be repeated in the answer."""
    return Misconfigured(
        f"the Machines API refused a request for the app {app} with {answer.status_code}: "
        f"{redact(answer.text, environment)[:200]}; check fly.token, the app and the container image"
    )


def _parse_attempt(said: object) -> AttemptKey | None:
    parts = said.split(".") if isinstance(said, str) else []
    if len(parts) != 3 or not all(part.isascii() and part.isdecimal() for part in parts):
        return None
    return int(parts[0]), int(parts[1]), int(parts[2])
