"""Random plans and random inputs by their seed, rich in names that collide."""

import hashlib
from random import Random

from msgspec import Struct

from quire.blobs import keys
from quire.model.files import Change, File
from quire.model.plan import (
    Accepts,
    OnFailure,
    Pace,
    Plan,
    PlanPhase,
    PlanStep,
    PlanUnit,
    TakenValue,
    parse_accepts,
)
from tests.simulation.flow.naming import ancestors_of, fold, folder_path
from tests.simulation.flow.steps import Shape, World, options_of, type_of

MOST_PHASES = 5
BODIES = 8  # few different contents, so that equal files meet in the step cache
PLACES = ("", "", "a", "a/b", "a/b/c", "A", "d", "d/e/f", "letter.txt.a.txt", "x.jpg")
NAMES = (
    *("x.pdf", "x-p0001.tif", "x.tif", "x", "x.jpg"),
    *("a.tif", "a.tiff", "A.TIF", "a.jpg", "a-p0001.jpg"),
    *("letter", "letter.txt", "letter.a.txt", "letter.txt.a.txt", "Letter.TXT", "letter.txt.b.json.c.jpg"),
    *("caf\u00e9.txt", "cafe\u0301.txt", "stra\u00dfe.tif", "STRASSE.TIF", "overview", "overview.json"),
)
OUTPUTS = ("a.txt", "A.TXT", "b.json", "c.jpg", "d.tif", "overview.json", "x.jpg", "p0001.jpg")
HANGING = ("note", "txt")  # only outputs that do not walk may do without a dot
TAGS = ("seen", "scanned", "odd")
CONFIGS = ("lang", "pages")
KINDS = ("text/plain", "image/*", "application/json", "*.tif", "*.t*", "*.jpg", "x*", "letter*")
RENAMED = (".tif", ".tiff", ".pdf")
UNIT_GROUPS = False  # whether phases about folders or the batch may have several steps


class Case(Struct, frozen=True, kw_only=True):
    """A plan, the files it is run over, and what its steps make of them."""

    seed: int
    plan: Plan
    inputs: tuple[File, ...]
    world: World


def made_case(seed: int, name: str = "line") -> Case:
    chance = Random(f"{seed}/case/{name}")
    return Case(
        seed=seed,
        plan=made_plan(chance, name),
        inputs=made_inputs(chance, chance.randint(1, chance.choice((3, 8, 14)))),
        world=World(seed, trouble=chance.choice((0.0, 0.05, 0.2, 0.5))),
    )


def made_inputs(chance: Random, number: int) -> tuple[File, ...]:
    """By path. No file is called like a folder of another."""
    paths: set[str] = set()
    folders: set[str] = set()
    for _ in range(number):
        place = chance.choice(PLACES)
        path = f"{place}/{chance.choice(NAMES)}" if place else chance.choice(NAMES)
        above = {fold(folder) for folder in ancestors_of(folder_path(path))}
        if fold(path) in folders or above & set(map(fold, paths)):
            continue
        paths.add(path)
        folders |= above
    return tuple(_input(chance, path) for path in sorted(paths))


def made_plan(chance: Random, name: str) -> Plan:
    phases: list[PlanPhase] = []
    for number in range(1, chance.randint(1, MOST_PHASES) + 1):
        units = (PlanUnit.FILE,) * 7 + (PlanUnit.FOLDER,) * 2 + (PlanUnit.BATCH,)
        phases.append(_phase(chance, name, number, chance.choice(units), phases))
    return Plan(name=name, version=1, phases=tuple(phases), queue=name)


def _input(chance: Random, path: str) -> File:
    body = f"body {chance.randrange(BODIES)}".encode()
    digest = hashlib.sha256(body).hexdigest()
    config = {key: chance.choice(("de", 1)) for key in CONFIGS if chance.random() < 0.3}
    return File(
        key=keys.content(digest),
        path=path,
        name=path.rpartition("/")[2],
        size=len(body),
        content_type=type_of(path),
        digest=digest,
        processing_config=config,
    )


def body_of(file: File) -> bytes:
    """The bytes of an input."""
    bodies = (f"body {number}".encode() for number in range(BODIES))
    return next(body for body in bodies if hashlib.sha256(body).hexdigest() == file.digest)


def _phase(chance: Random, plan: str, number: int, unit: PlanUnit, before: list[PlanPhase]) -> PlanPhase:
    several = UNIT_GROUPS or unit is PlanUnit.FILE
    kind = chance.choice(("one", "one", "one", "group", "each") if several else ("one",))
    if kind == "each":
        first = _step(chance, plan, f"s{number}", unit, before)
        steps = [_branch(chance, first, branch) for branch in chance.sample("bcde", chance.randint(2, 4))]
    else:
        count = 1 if kind == "one" else chance.randint(2, 3)
        steps = [_step(chance, plan, f"s{number}{letter}", unit, before) for letter in "xyz"[:count]]
    pace = Pace(between_seconds=0.5, at_once=chance.choice((0, 2))) if chance.random() < 0.1 else Pace()
    return PlanPhase(name=f"PHASE_{number}", steps=tuple(steps), unit=unit, task_prefix="t", pace=pace)


def _step(chance: Random, plan: str, name: str, unit: PlanUnit, before: list[PlanPhase]) -> PlanStep:
    renames = unit is PlanUnit.FILE and chance.random() < 0.35
    gives_value = chance.random() < 0.5
    shape = Shape(
        least=chance.choice((0, 1, 1)),
        most=chance.choice((1, 2, 3)),
        names=_names(chance),
        changes=_changes(chance),
        output_tags=tuple(tag for tag in TAGS if chance.random() < 0.3),
        tags=tuple(tag for tag in TAGS if chance.random() < 0.2),
        renames=renames,
        value=chance.choice((1.0, 0.7)) if gives_value else 0.0,
        external=chance.choice((0.5, 1.0)) if chance.random() < 0.15 else 0.0,
        twice=0.3 if chance.random() < 0.1 else 0.0,
    )
    return PlanStep(
        name=name,
        step=f"{plan}.{name}",
        version=chance.randint(1, 3),
        accepts=_accepts(chance),
        options=options_of(shape),
        takes=_takes(chance, unit, before),
        gives_value=gives_value,
        on_failure=OnFailure.STOP if chance.random() < 0.25 else OnFailure.PASS,
        timeout_seconds=5.0,
        max_attempts=chance.choice((2, 3, 3)),
        at_once=chance.choice((0, 0, 0, 1, 2)),
        asynchronous=chance.random() < 0.3,
        cached=chance.random() < 0.6,
        cache_by=("name",) if renames else (),
        renames=tuple(one for one in RENAMED if chance.random() < 0.7) if renames else (),
    )


def _branch(chance: Random, step: PlanStep, branch: str) -> PlanStep:
    """The same step for another name. Some branches give outputs of the same name, others their own."""
    options = step.options | {"branch": branch}
    if chance.random() < 0.5:
        options |= {"names": [f"{branch}.txt", f"{branch}.json"]}
    return PlanStep(
        **{name: getattr(step, name) for name in step.__struct_fields__ if name not in _OF_BRANCH},
        name=f"{step.name}[{branch}]",
        branch=branch,
        options=options,
    )


_OF_BRANCH = frozenset({"name", "branch", "options"})


def _names(chance: Random) -> tuple[str, ...]:
    names = chance.sample(OUTPUTS, chance.randint(1, 4))
    if chance.random() < 0.3:
        names.append(chance.choice(HANGING))
    return tuple(names)


def _changes(chance: Random) -> tuple[Change, ...]:
    return chance.choice(
        (
            *((Change.HANG,), (Change.HANG,), (Change.JOIN,), (Change.REPLACE,), (Change.HANG, Change.JOIN)),
            *((Change.REPLACE, Change.HANG), (Change.HANG, Change.JOIN, Change.REPLACE)),
        )
    )


def _accepts(chance: Random) -> Accepts:
    patterns: list[str] = []
    if chance.random() < 0.4:
        patterns += chance.sample(KINDS, chance.choice((1, 2, 3)))
    drawn = chance.random()
    if drawn < 0.12:
        patterns.append(f"tag:{chance.choice(TAGS)}")
    elif drawn < 0.22:
        patterns.append(f"!tag:{chance.choice(TAGS)}")
    elif drawn < 0.30:
        patterns.append(chance.choice(("config:lang", "config:lang=de", "!config:pages", "config:pages=1")))
    elif drawn < 0.36:
        patterns.append(f"!{chance.choice(KINDS)}")
    return parse_accepts(patterns)


def _takes(chance: Random, unit: PlanUnit, before: list[PlanPhase]) -> tuple[TakenValue, ...]:
    """Of earlier steps with the same unit that give values: one step, or all branches of one."""
    given: dict[str, list[str]] = {}
    for phase in before:
        for step in phase.steps:
            if phase.unit is unit and step.gives_value:
                given.setdefault(step.step, []).append(step.name)
    chosen = [steps for steps in given.values() if chance.random() < 0.4]
    return tuple(
        TakenValue(f"value{number}", tuple(steps), chance.random() < 0.6)
        for number, steps in enumerate(chosen)
    )
