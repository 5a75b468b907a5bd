"""What the machine of a step that people have written says of its result, and the places it is given.

Promises: the places are of one attempt, numbered, and bounded in number and in bytes; a claim about any other
place is refused. Must not know: the ledger and the store. The caller verifies what lies there.
"""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta, Struct, field

from quire.compute.pool.output_names import check_distinct, check_name
from quire.compute.pool.results import check_request
from quire.compute.pool.values import INLINE_BYTES
from quire.model.asset import AssetDraft
from quire.model.cost import Cost
from quire.model.errors import Reject
from quire.model.work import MAX_VALUE_BYTES, ExternalRequest

MAX_OUTPUTS = 1000
MAX_TOTAL_BYTES = 256 << 20  # of all outputs of a task
VALUE = "value"
_ROLE = re.compile(r"output-([1-9][0-9]{0,3})")
_Amount = Annotated[int, Meta(ge=0, le=2**53)]
_Digest = Annotated[str, Meta(pattern="^[0-9a-f]{64}$")]
_Text = Annotated[str, Meta(max_length=200)]
_Tag = Annotated[str, Meta(min_length=1, max_length=200)]


class ClaimedProduct(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """An output in the place with this key. The last five are those of `Product`."""

    role: _Text
    key: str
    size: _Amount
    digest: _Digest
    content_type: _Text
    name: str = ""
    facts: dict[str, Any] = field(default_factory=dict)
    preferred: str = ""
    change: Literal["hang", "join", "replace"] = "hang"
    tags: tuple[_Tag, ...] = ()


class ClaimedValue(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The value of the step: in `data`, or a large one in its place, with size and digest."""

    data: Any = None
    key: str = ""
    size: _Amount = 0
    digest: str = ""


class ClaimedCost(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """What the step has spent; the server counts bytes itself."""

    tokens_in: _Amount = 0
    tokens_out: _Amount = 0
    money_micros: _Amount = 0

    def to_cost(self) -> Cost:
        return Cost(tokens_in=self.tokens_in, tokens_out=self.tokens_out, money_micros=self.money_micros)


class StepClaims(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The result of a step. Outputs are in the order in which it returned them. With `external` there is no
    result yet: somebody outside will answer.
    """

    products: Annotated[tuple[ClaimedProduct, ...], Meta(max_length=MAX_OUTPUTS)] = ()
    value: ClaimedValue | None = None
    tags: tuple[_Tag, ...] = ()
    facts: dict[str, Any] = field(default_factory=dict)
    external: ExternalRequest | None = None
    asset: AssetDraft | None = None


def step_key(batch_id: str, task_no: int, attempt: int, ending: str) -> str:
    """A key for one attempt. Not by the name of the task: steps side by side on a document share that."""
    return f"staging/{batch_id}/_work/step_{task_no}-{attempt}{ending}"


def place_key(batch_id: str, task_no: int, attempt: int, role: str) -> str:
    """The key of an output, `output-1` and so on, or of the value. Raises Reject for any other role."""
    if role == VALUE:
        return step_key(batch_id, task_no, attempt, ".value.json")
    found = _ROLE.fullmatch(role)
    number = int(found[1]) if found else 0
    if not 1 <= number <= MAX_OUTPUTS:
        raise Reject(
            f"there is no place for {role[:20]!r} here: outputs of a step are output-1 to "
            f"output-{MAX_OUTPUTS}, and its value is {VALUE}",
            code="bad_request",
        )
    return step_key(batch_id, task_no, attempt, f".o{number:04d}")


def output_role(number: int) -> str:
    """The role under which a worker asks for a place for an output; the first is 1."""
    return f"output-{number}"


def check_claims(claims: StepClaims, step: str, batch_id: str, task_no: int, attempt: int) -> None:
    """Raises Reject for a claim that cannot be right, before anything is read from the store."""
    if claims.external is not None:
        check_request(claims.external, step)
        if claims.products or claims.value is not None or claims.tags or claims.asset is not None:
            raise _bad("a step that leaves its task to somebody outside has no result of its own")
    for number, one in enumerate(claims.products, 1):
        if one.key != place_key(batch_id, task_no, attempt, output_role(number)):
            raise _bad(f"the output {one.key[:200]!r} is not in the place number {number} of this attempt")
        for name in (one.name, one.preferred):
            if name:
                check_name(name, step)
    check_distinct((one.name for one in claims.products if one.name), step)
    total = sum(one.size for one in claims.products)
    if total > MAX_TOTAL_BYTES:
        raise too_much(step, total)
    if claims.value is not None:
        _check_value(claims.value, place_key(batch_id, task_no, attempt, VALUE))
    try:
        msgspec.msgpack.encode([claims.facts, [one.facts for one in claims.products]])
    except (ValueError, TypeError, OverflowError) as error:
        raise _bad(f"the facts cannot be kept: {error}") from error


def too_much(step: str, total: int) -> Reject:
    return Reject(
        f"the step {step} returned outputs of {total} bytes together, and {MAX_TOTAL_BYTES} is the limit on "
        "process and fly; let it run on local, queue or ray",
        code="output_too_large",
    )


def _check_value(value: ClaimedValue, place: str) -> None:
    if not value.digest:
        if value.key or len(msgspec.json.encode(value.data)) > INLINE_BYTES:
            raise _bad(f"a value of more than {INLINE_BYTES} bytes lies in a place of its own")
    elif value.key != place:
        raise _bad(f"the value {value.key[:200]!r} is not in the place of this attempt")
    elif value.size > MAX_VALUE_BYTES:
        raise _bad(f"a value has {MAX_VALUE_BYTES} bytes at most, not {value.size}")


def _bad(words: str) -> Reject:
    return Reject(words, code="bad_callback")
