"""Checks whether a Redis server may lose messages: for the queues on streams when they are opened, for those
on lists when somebody asks.
"""

from quire.model.errors import Bug, Misconfigured
from quire.model.probe import Probe
from quire.queues.redis_server import Server

OLDEST = (6, 2)


async def probe(server: Server) -> list[Probe]:
    """A warning for each thing that may be lost, with the setting that prevents it.

    Raises Misconfigured for a server older than 6.2 and for one that throws keys away when it is full.
    """
    info = _parse_info(await server.ask("INFO", "everything"))
    version = info.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        raise Misconfigured(f"{server.name} is version {version}: queues need 6.2 or newer", code="too_old")
    policy = info.get("maxmemory_policy", "noeviction")
    if policy.startswith("allkeys"):
        raise Misconfigured(
            f"{server.name} throws messages away when its memory is full (maxmemory-policy {policy}): "
            "set maxmemory-policy noeviction, or use a server of its own",
            code="evicts",
        )
    warnings = await _check_persistence(server, info)
    if policy != "noeviction":
        advice = (
            "messages are safe from it, but set noeviction: then a full server refuses instead of throwing "
            "other things away"
        )
        warnings.append(_warn("maxmemory-policy", f"{server.name}: maxmemory-policy is {policy}", advice))
    if info.get("role") != "master":
        seen = f"{server.name} is a replica: it takes no messages"
        warnings.append(_warn("role", seen, "name its primary"))
    return warnings


def _warn(name: str, detail: str, advice: str = "") -> Probe:
    return Probe(name=name, ok=False, needed=False, detail=detail, advice=advice)


async def _check_persistence(server: Server, info: dict[str, str]) -> list[Probe]:
    if info.get("aof_enabled") != "1":
        lost = "a restart loses what came after the last snapshot, set appendonly yes and appendfsync always"
        return [_warn("appendonly", f"{server.name}: appendonly is off", lost)]
    try:
        known = await server.ask("CONFIG", "GET", "appendfsync")
    except (Bug, Misconfigured):
        # Hosted servers do not show their settings.
        seen = f"{server.name} does not tell its appendfsync: unless it is always, a power cut loses messages"
        return [_warn("appendfsync", seen)]
    how = _parse_config(known).get("appendfsync", "unknown")
    if how == "always":
        return []
    lost = "a power cut loses what was answered in the last seconds, set appendfsync always"
    return [_warn("appendfsync", f"{server.name}: appendfsync is {how}", lost)]


def _parse_info(answer: object) -> dict[str, str]:
    """The lines of INFO; the library may have taken them apart already."""
    if isinstance(answer, dict):
        return {str(name): str(value) for name, value in answer.items()}
    lines = bytes(answer).decode().splitlines() if isinstance(answer, bytes) else []
    return dict(line.split(":", 1) for line in lines if ":" in line)


def _parse_config(answer: object) -> dict[str, str]:
    if isinstance(answer, dict):
        pairs = list(answer.items())
    else:
        flat = list(answer) if isinstance(answer, list | tuple) else []
        pairs = list(zip(flat[::2], flat[1::2], strict=True))
    return {_decode(name): _decode(value) for name, value in pairs}


def _decode(value: object) -> str:
    return value.decode() if isinstance(value, bytes) else str(value)
