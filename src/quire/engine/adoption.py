"""Batches that went from phase to phase, all documents together, go on as batches that flow: what becomes of
each document, as pure rules, and the moves of a scheduler that have the ledger apply it.

A document without a task in the present phase walks on; a task that is done has its effects, one that has
failed lets its document pass; one that is open is left. Earlier phases are over.
"""

from collections.abc import Sequence

from quire.engine.flow import Settled, follow, list_rivals, next_waiting_phase, plan_effects
from quire.engine.names import Listed
from quire.ledger.adoption_port import AdoptedDocument, AdoptionStore, FormerDocument, FormerTask
from quire.ledger.flow_values import BranchResult, Effects, TaskPlace
from quire.ledger.port import FlowStore
from quire.model.batch import Batch, TaskState
from quire.model.clock import Clock
from quire.model.errors import Misconfigured
from quire.model.former import has_former_phases, read_former_plan
from quire.model.plan import Plan, digest_of, encode_plan

ROWS_AT_ONCE = 2000
_SETTLED = frozenset({TaskState.DONE, TaskState.FAILED})


def check_phases(batch: Batch, plan: Plan) -> None:
    """Raises Misconfigured when the plan's phases are not those that the batch was submitted to."""
    if has_former_phases(batch, plan):
        return
    before = ", ".join(one.name for one in read_former_plan(batch).phases) or "none"
    here = ", ".join(one.name for one in plan.phases)
    raise Misconfigured(
        f"batch {batch.id} was begun by an earlier version of pipeline {plan.name} with the phases "
        f"{before}, and cannot go on with {here}; finish it with the version that began it, or cancel it and "
        "submit its files again",
        code="other_plan",
    )


def find_named(plan: Plan, phase: int, documents: Sequence[FormerDocument]) -> set[str]:
    """The folded paths whose existence decides how results that are not in the list yet are named."""
    found: set[str] = set()
    for one in documents:
        if one.takes_part and one.task is not None and not one.task.folded:
            found |= list_rivals(plan, _settled(phase, one, one.task))
    return found


def adopt(
    plan: Plan, phase: int, documents: Sequence[FormerDocument], listed: Listed
) -> list[AdoptedDocument]:
    """What becomes of the documents of a batch in this phase."""
    return [_adopt_one(plan, phase, one, listed) for one in documents if one.takes_part]


def _adopt_one(plan: Plan, phase: int, one: FormerDocument, listed: Listed) -> AdoptedDocument:
    task, root = one.task, one.listed.root_no
    if task is not None and task.state not in _SETTLED:
        return AdoptedDocument(root, open_task=task.no)
    if task is not None and not task.folded:
        effects, doubts = plan_effects(plan, _settled(phase, one, task), listed)
        told = tuple((doubt.branch, doubt.error_class, doubt.error) for doubt in doubts)
        return AdoptedDocument(root, effects, told)
    is_through = task is not None or one.born >= phase
    after = phase if is_through else max(phase, one.enters) - 1
    number = one.listed.no
    follower = follow(plan, one.listed.file, number, after)
    if follower is None and one.outcome is None and not one.born:
        return AdoptedDocument(root)
    effects = Effects(
        phase=phase,
        root_no=root,
        parent_no=number,
        followers=() if follower is None else (follower,),
        walking=int(follower is not None),
    )
    return AdoptedDocument(root, effects)


def _settled(phase: int, one: FormerDocument, task: FormerTask) -> Settled:
    lineage = one.listed.file.path if one.born else ""
    place = TaskPlace(phase, 0, one.listed.no, one.listed.root_no, lineage, 0, None)
    result = BranchResult(0, task.state, task.tries, task.result, task.error_class, task.error)
    return Settled(place, one.listed.file, (result,))


class Adoption:
    def __init__(self, flow: FlowStore, clock: Clock) -> None:
        self._store: AdoptionStore = flow
        self._flow = flow
        self._clock = clock

    async def begin(self, batch: Batch, plan: Plan) -> Batch | None:
        """None: members of an earlier version are at work, and would not understand."""
        check_phases(batch, plan)
        return await self._store.adopt_batch(
            batch,
            plan=encode_plan(plan),
            digest=digest_of(plan),
            phases=[phase.name for phase in plan.phases],
            waits_at=next_waiting_phase(plan, 0),
            now=self._clock.now(),
        )

    async def move(self, batch: Batch, plan: Plan) -> Batch:
        """Adopt the next chunk of documents."""
        documents = await self._store.list_former(batch, limit=ROWS_AT_ONCE)
        phase = batch.position.phase
        named = find_named(plan, phase, documents)
        listed = await self._flow.find_listed(batch.no, named) if named else {}
        return await self._store.adopt_documents(
            batch,
            adopt(plan, phase, documents, listed),
            cursor=documents[-1].listed.no if documents else batch.position.cursor,
            complete=len(documents) < ROWS_AT_ONCE,
            now=self._clock.now(),
        )
