"""What simulated steps give: a pure function of the seed, the step with its options, and what it is given.

When, where and how often a step runs changes nothing, so the engine must come to what the model comes to. All
that a step does is written in its options, which travel with every order.
"""

import hashlib
import json
from collections.abc import Collection
from enum import StrEnum
from random import Random
from typing import Any

import msgspec
from msgspec import Struct, structs, to_builtins

from quire.blobs import keys
from quire.model.files import Change, File, Product, stem_and_extension
from quire.model.plan import PlanUnit
from quire.model.work import EarlierResult, MemberFile, StepResult, Value
from tests.simulation.flow.endings import Failure, RunStep, Work

TYPES = {".tif": "image/tiff", ".jpg": "image/jpeg", ".txt": "text/plain", ".json": "application/json"}
OTHER_TYPE = "application/octet-stream"


class Nature(StrEnum):
    """How a step ends for this input, whenever it is tried; the words of bad ends are their error classes."""

    GOOD = "good"
    SHAKY = "shaky"  # fails for a while
    REJECTED = "rejected"
    ERRING = "erred"
    CRASHING = "crashed"
    SLOW = "timed_out"
    UNANSWERED = "no_answer"  # somebody outside never answers
    HUNGRY = "out_of_memory"


BAD = (Nature.REJECTED, Nature.REJECTED, Nature.ERRING, Nature.CRASHING, Nature.SLOW, Nature.HUNGRY)


class Shape(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The options of a simulated step: between which outputs, values and tags it draws."""

    least: int = 0  # outputs
    most: int = 2
    names: tuple[str, ...] = ("a.txt",)  # of outputs; walking ones have exactly one dot
    changes: tuple[Change, ...] = (Change.HANG,)
    output_tags: tuple[str, ...] = ()
    tags: tuple[str, ...] = ()
    renames: bool = False  # prefers the document's name with another extension; then its name counts
    value: float = 0.0  # how likely it gives a value
    branch: str = ""
    external: float = 0.0  # how likely it leaves the work to somebody outside
    twice: float = 0.0  # how likely two of its outputs get the same name


class Given(Struct, frozen=True, kw_only=True):
    """Everything that a result depends on."""

    step: str
    version: int
    shape: Shape
    unit: PlanUnit
    file: File
    values: dict[str, Value]
    members: tuple[MemberFile, ...] = ()
    earlier: tuple[EarlierResult, ...] = ()

    def key(self) -> str:
        """Equal for equal work."""
        if self.unit is PlanUnit.FILE:
            about: list[Any] = [self.file.digest, self.file.name if self.shape.renames else ""]
        else:
            about = [[one.path, one.digest, one.tags, _plain(one.values)] for one in self.members]
            about += [[one.path, to_builtins(one.result)] for one in self.earlier]
        words = [self.step, self.version, to_builtins(self.shape), about, _plain(self.values)]
        return hashlib.sha256(json.dumps(words, sort_keys=True).encode()).hexdigest()


class World(Struct, frozen=True):
    """`trouble`: the share of work that never gets done; `healed`: how much of that is repaired later."""

    seed: int
    trouble: float = 0.0
    healed: float = 0.0

    def nature_of(self, given: Given) -> Nature:
        chance = Random(f"{self.seed}/nature/{given.key()}")
        drawn, healing = chance.random(), chance.random()
        if drawn < self.trouble:
            bad = chance.choice(BAD)
            if healing < self.healed:
                return Nature.GOOD
            return Nature.UNANSWERED if bad is Nature.SLOW and self.is_external(given) else bad
        return Nature.SHAKY if drawn < self.trouble + 0.1 else Nature.GOOD

    def result_of(self, given: Given) -> tuple[StepResult, list[bytes]]:
        """What a success gives, and the bodies of its products."""
        shape, key = given.shape, given.key()
        chance = Random(f"{self.seed}/result/{key}")
        products, bodies = [], []
        # No name twice in one result, except on purpose.
        names = chance.sample(shape.names, min(len(shape.names), chance.randint(shape.least, shape.most)))
        if len(names) > 1 and chance.random() < shape.twice:
            names[-1] = names[0]
        for ordinal, name in enumerate(names):
            body = f"{key}/{ordinal}".encode()
            product = _product(body, chance, shape, name)
            if shape.renames and chance.random() < 0.8:
                product = structs.replace(product, preferred=_preferred(given.file.name, chance, name))
            products.append(product)
            bodies.append(body)
        value = (
            Value(data={"of": key[:8], "n": chance.randrange(9)}) if chance.random() < shape.value else None
        )
        tags = tuple(tag for tag in shape.tags if chance.random() < 0.6)
        return StepResult(products=tuple(products), facts={"of": key[:8]}, value=value, tags=tags), bodies

    def is_external(self, given: Given) -> bool:
        return Random(f"{self.seed}/external/{given.key()}").random() < given.shape.external

    def run_step(self, late: Collection[tuple[str, str]] = ()) -> RunStep:
        """For the model: every try of a step at once. `late`: steps on paths that were given up for lost time
        and have succeeded after all.
        """

        def run(work: Work) -> StepResult | Failure:
            given = given_of(work)
            nature = self.nature_of(given)
            if nature is Nature.SLOW and (work.step.name, work.file.path) in late:
                nature = Nature.GOOD
            if nature in {Nature.GOOD, Nature.SHAKY}:
                return self.result_of(given)[0]
            return Failure(nature.value, f"simulated: {nature.value}")

        return run


def given_of(work: Work) -> Given:
    return Given(
        step=work.step.step,
        version=work.step.version,
        shape=shape_of(work.step.options),
        unit=work.unit,
        file=work.file,
        values=work.values,
        members=work.members,
        earlier=work.earlier,
    )


def options_of(shape: Shape) -> dict[str, Any]:
    """As a plan stores them."""
    options: dict[str, Any] = msgspec.json.decode(msgspec.json.encode(shape))
    return options


def shape_of(options: dict[str, Any]) -> Shape:
    return msgspec.convert(options, Shape)


def type_of(name: str) -> str:
    return TYPES.get(stem_and_extension(name)[1].lower(), OTHER_TYPE)


def _product(body: bytes, chance: Random, shape: Shape, name: str) -> Product:
    digest = hashlib.sha256(body).hexdigest()
    walking = name.count(".") == 1
    change = chance.choice(shape.changes) if walking else Change.HANG
    return Product(
        role=chance.choice(("made", "copy")),
        key=keys.content(digest),
        size=len(body),
        content_type=type_of(name),
        digest=digest,
        name=name,
        change=change,
        tags=tuple(tag for tag in shape.output_tags if chance.random() < 0.5),
    )


def _preferred(name: str, chance: Random, output: str) -> str:
    """The document's name with another ending; now and then a name that it must not get."""
    stem, _ = stem_and_extension(name)
    extension = stem_and_extension(output)[1] or ".jpg"
    wrong = chance.random()
    if wrong < 0.03:
        return chance.choice(("../up.jpg", "other.jpg", "", "..", stem))
    return f"{stem}{chance.choice(('', '', '-p0001', '-p0002'))}{extension}"


def _plain(values: dict[str, Value]) -> dict[str, Any]:
    return {name: to_builtins(value) for name, value in values.items()}
