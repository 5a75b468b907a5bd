"""Metrics of queues in the text format of Prometheus (0.0.4)."""

from collections.abc import Iterator

from quire.consumers.administration import QueueContext
from quire.queues.port import QueueCounter

_HEADS = {
    "quire_queue_messages_total": ("counter", "What has happened to messages."),
    "quire_queue_depth": ("gauge", "Messages by where they are: waiting, delayed, in_flight, dead."),
    "quire_queue_oldest_age_seconds": ("gauge", "Age of the oldest message that waits or is in flight."),
}
Sample = tuple[str, dict[str, str], float]


async def format_metrics(context: QueueContext) -> str:
    """Metrics of all queues that have or recently had messages."""
    samples = [
        sample
        for name in sorted(await context.queues.names())
        for sample in await _collect_samples(context, name)
    ]
    return "".join(line + "\n" for line in _format_lines(samples))


async def _collect_samples(context: QueueContext, queue: str) -> list[Sample]:
    now = context.clock.now()
    depth = await context.queues.depth(queue, now=now)
    counters = await context.queues.counters(queue)
    states = {
        "waiting": depth.waiting,
        "delayed": depth.delayed,
        "in_flight": depth.leased,
        "dead": depth.dead,
    }
    age = 0.0 if depth.oldest_at is None else max(0.0, now - depth.oldest_at)
    return [
        *(
            ("quire_queue_messages_total", {"queue": queue, "happening": one.value}, counters.get(one, 0))
            for one in QueueCounter
        ),
        *(("quire_queue_depth", {"queue": queue, "state": state}, n) for state, n in states.items()),
        ("quire_queue_oldest_age_seconds", {"queue": queue}, round(age, 3)),
    ]


def _format_lines(samples: list[Sample]) -> Iterator[str]:
    for metric, (kind, about) in _HEADS.items():
        yield f"# HELP {metric} {about}"
        yield f"# TYPE {metric} {kind}"
        for name, labels, value in samples:
            if name == metric:
                words = ",".join(f'{label}="{_escape(text)}"' for label, text in labels.items())
                yield f"{name}{{{words}}} {value}"


def _escape(text: str) -> str:
    """Queue names come from outside: none may end its line or its quotes."""
    return text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
