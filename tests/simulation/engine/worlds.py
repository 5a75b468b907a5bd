"""A world by its seed: batches of files, their pipelines, and what each step makes of each file.

What a step gives depends on its input alone, never on when or how often it runs: so a run with faults must
end as one without.
"""

import hashlib
import zlib
from collections.abc import Callable, Container
from enum import StrEnum
from functools import partial
from random import Random

from msgspec import Struct

from quire.blobs import keys
from quire.ledger.port import Upload
from quire.model.batch import Budget
from quire.model.files import File, Product, sibling, stem_and_extension
from quire.model.pipeline import AddedFile, KeptFile, ListChange, Pace, Phase, Pipeline, Unit, from_product
from quire.model.work import EarlierResult, StepResult
from tests.simulation.shared.follower import NEXT

PLACES = ("", "a", "a/b", "a/b/c", "d", "d/e")
TYPES = {".tif": "image/tiff", ".txt": "text/plain", ".raw": "application/octet-stream"}
BODIES = 12  # few different contents, so that equal files meet in the step cache


class Nature(StrEnum):
    """What a step makes of a file, whenever it is tried."""

    GOOD = "good"
    SHAKY = "shaky"  # fails for a while
    REJECTED = "rejected"
    CRASHING = "crashed"
    SLOW = "timed_out"
    HUNGRY = "out_of_memory"


class BatchSpec(Struct, frozen=True, kw_only=True):
    id: str
    pipeline: Pipeline
    uploads: tuple[Upload, ...]
    tier: int
    tenant: str
    at: float  # when its files are handed in
    budget: Budget
    hands_over_to: str = ""


class World(Struct, frozen=True, kw_only=True):
    seed: int
    batches: tuple[BatchSpec, ...]
    trouble: float  # the share of files that never get through a step

    @property
    def pipelines(self) -> dict[str, Pipeline]:
        return {batch.pipeline.name: batch.pipeline for batch in self.batches}

    def phase_of(self, step: str) -> Phase:
        return next(phase for one in self.pipelines.values() for phase in one.phases if phase.step == step)

    def nature(self, phase: Phase, file: File) -> Nature:
        # Equal work is answered by the cache, so it has one nature. A unit's list may differ from round to
        # round (tags are in it): it is known by its path.
        name = file.digest if phase.unit is Unit.FILE else file.path
        drawn = _fraction(f"{self.seed}/{phase.step}/{name}")
        if drawn < self.trouble:
            ends = (Nature.REJECTED, Nature.REJECTED, Nature.CRASHING, Nature.SLOW, Nature.HUNGRY)
            return ends[int(drawn / self.trouble * len(ends))]
        return Nature.SHAKY if drawn < self.trouble + 0.1 else Nature.GOOD


def made_world(seed: int) -> World:
    chance = Random(f"{seed}/world")
    pipelines = [_pipeline(chance, number) for number in range(chance.choice((1, 1, 2)))]
    return World(
        seed=seed,
        batches=tuple(
            _batch(chance, number, pipelines, NEXT if _fraction(f"{seed}/next/{number}") < 0.4 else "")
            for number in range(chance.choice((1, 1, 1, 2, 2, 3)))
        ),
        trouble=chance.choice((0.0, 0.05, 0.15, 0.4)),
    )


def result_of(
    phase: Phase, file: File, earlier: tuple[EarlierResult, ...] = ()
) -> tuple[StepResult, list[bytes]]:
    """What the step gives, and the bodies of its products."""
    told = [product.digest for one in earlier for product in one.result.products]
    # A unit's member list holds tags, which say how often it was seen: its result is named by its path.
    about = file.digest if phase.unit is Unit.FILE else file.path
    bodies = [
        "/".join([phase.step, str(phase.step_version), str(number), about, *told]).encode()
        for number in range(int(phase.options["products"]))
    ]
    return StepResult(products=tuple(map(_product, bodies)), facts={"about": about}), bodies


def _batch(chance: Random, number: int, pipelines: list[Pipeline], hands_over_to: str) -> BatchSpec:
    paths = set()
    for _ in range(chance.randint(3, chance.choice((6, 10, 16)))):
        place, name = chance.choice(PLACES), f"f{chance.randint(0, 9)}{chance.choice(list(TYPES))}"
        paths.add(f"{place}/{name}" if place else name)
    return BatchSpec(
        id=f"{number + 1:026d}",
        pipeline=chance.choice(pipelines),
        uploads=tuple(_upload(chance, path) for path in sorted(paths)),
        tier=chance.randint(1, 5),
        tenant=chance.choice(("", "one", "other")),
        at=chance.uniform(0, 4),
        budget=Budget(seconds=chance.uniform(0.1, 5)) if chance.random() < 0.1 else Budget(),
        hands_over_to=hands_over_to,
    )


def _upload(chance: Random, path: str) -> Upload:
    if chance.random() < 0.05:
        return Upload(path=path, state="skipped", error_class="hidden", reason="not wanted")
    body = f"body {chance.randrange(BODIES)}".encode()
    digest = hashlib.sha256(body).hexdigest()
    return Upload(
        path=path,
        state="taken",
        size=len(body),
        key=keys.content(digest),
        digest=digest,
        content_type=TYPES[stem_and_extension(path)[1]],
    )


def _pipeline(chance: Random, number: int) -> Pipeline:
    return Pipeline(
        name=f"line{number}",
        version=1,
        queue=f"line{number}" if chance.random() < 0.7 else "shared",
        phases=tuple(_phase(chance, number, place) for place in range(1, chance.choice((2, 3, 3, 4)))),
    )


def _phase(chance: Random, line: int, place: int) -> Phase:
    unit = chance.choice((Unit.FILE, Unit.FILE, Unit.FILE, Unit.FILE, Unit.DIRECTORY, Unit.BATCH))
    kind = chance.choice(tuple(_BECOMES)) if unit is Unit.FILE else "replace"
    mark = f"p{line}{place}"
    wanted = chance.choice((1.0, 1.0, 0.7))
    paced = chance.random() < 0.1
    ranked = (unit is Unit.DIRECTORY and chance.random() < 0.6) or chance.random() < 0.1
    return Phase(
        name=f"PHASE_{place}",
        task_prefix="t",
        step=f"{kind}-{unit.value}-{line}-{place}",
        step_version=1,
        finds=partial(_finds, mark, wanted),
        becomes=partial(_BECOMES[kind] if unit is Unit.FILE else _summarise, mark),
        rivals=_rivals if kind == "rename" else lambda _file, _result: (),
        options={"products": 0 if kind in {"preserve", "remove"} else chance.choice((1, 1, 2))},
        timeout_seconds=5.0,
        max_attempts=chance.choice((2, 3, 3)),
        cached=chance.random() < 0.6,
        unit=unit,
        rank=_depth_first if ranked else None,
        pace=Pace(first_seconds=0.5, between_seconds=0.3, at_once=2) if paced else Pace(),
    )


def _finds(mark: str, wanted: float, file: File) -> bool:
    return _fraction(f"{mark}/{file.path}") < wanted


def _depth_first(file: File) -> int:
    return -file.path.count("/") - bool(file.path)


def _made(mark: str, file: File, result: StepResult, *, listed: bool = True) -> tuple[AddedFile, ...]:
    return tuple(
        AddedFile(
            from_product(one, path=f"{file.path}.{mark}{number}", source=file, tags=_tagged(file, mark)),
            one.role,
            listed=listed,
        )
        for number, one in enumerate(result.products)
    )


def _replace(mark: str, file: File, result: StepResult, _taken: Container[str]) -> ListChange:
    return ListChange(None, _made(mark, file, result))


def _augment(mark: str, file: File, result: StepResult, _taken: Container[str]) -> ListChange:
    return ListChange(KeptFile(_tagged(file, mark)), _made(mark, file, result, listed=False))


def _preserve(mark: str, file: File, _result: StepResult, _taken: Container[str]) -> ListChange:
    return ListChange(KeptFile(_tagged(file, mark)))


def _remove(_mark: str, _file: File, _result: StepResult, _taken: Container[str]) -> ListChange:
    return ListChange(None)


def _rename(mark: str, file: File, result: StepResult, taken: Container[str]) -> ListChange:
    """The short name for the first product when it is free."""
    short = _short(file)
    added = list(_made(mark, file, result))
    if added and short.casefold() not in taken:
        first = result.products[0]
        made = from_product(first, path=short, source=file, tags=_tagged(file, mark))
        added[0] = AddedFile(made, first.role)
    return ListChange(None, tuple(added))


def _rivals(file: File, _result: StepResult) -> tuple[str, ...]:
    return (_short(file),)


def _short(file: File) -> str:
    return sibling(file.path, stem_and_extension(file.name)[0] + ".jpg")


def _summarise(mark: str, file: File, result: StepResult, _taken: Container[str]) -> ListChange:
    """Of a directory or a batch: a file in it."""
    folder = f"{file.path}/" if file.path else ""
    return ListChange(
        None,
        tuple(
            AddedFile(from_product(one, path=f"{folder}{mark}.{number}", source=file, tags=(mark,)), one.role)
            for number, one in enumerate(result.products)
        ),
    )


Becomes = Callable[[str, File, StepResult, Container[str]], ListChange]
_BECOMES: dict[str, Becomes] = {
    "replace": _replace,
    "augment": _augment,
    "preserve": _preserve,
    "remove": _remove,
    "rename": _rename,
}


def _tagged(file: File, mark: str) -> tuple[str, ...]:
    return file.tags if mark in file.tags else (*file.tags, mark)


def _product(body: bytes) -> Product:
    digest = hashlib.sha256(body).hexdigest()
    return Product(
        role="made", key=keys.content(digest), size=len(body), content_type="image/jpeg", digest=digest
    )


def _fraction(name: str) -> float:
    return zlib.crc32(name.encode()) / 2**32
