"""Where the outputs of a task that is done elsewhere lie: one rule for the house and for the worker.

The names follow from the key of the input, as in the published workers: `x.tif` gives `x.jpg`, `x.jpg` gives
`x.jpg.ref.json`. What the worker does not know by itself, it is told in the environment.
"""

import re

from quire.blobs.keys import check
from quire.model.errors import Reject
from quire.model.files import sibling, stem_and_extension

STEPS = {"tiff": "tiff_to_jpeg", "img": "image_variants"}  # by the prefix of a task id
JPEG, REFERENCE, RESULT = "jpeg", "ref", "result"
VARIANTS = ("large", "medium", "thumb")
ROLES = {"tiff_to_jpeg": (JPEG,), "image_variants": (*VARIANTS, REFERENCE)}

# Of a TIFF that is converted elsewhere: what one callback can name, with room to spare.
MAX_PAGES = 5000
_PAGE = re.compile(r"jpeg-([1-9][0-9]{0,4})")
# What is put beside the outputs for a worker, or by it, and is no output.
_PASSING = re.compile(r"staging/[^/]+/_work/(?:tiff_\w+-\d+\.tif|img_\w+-\d+\.\w+|\w+-\d+\.result\.json)")


def output_key(input_key: str, role: str) -> str:
    if role == JPEG:
        name = input_key.rpartition("/")[2]
        return sibling(input_key, f"{stem_and_extension(name)[0]}.jpg")
    return f"{input_key}.ref.json" if role == REFERENCE else f"{input_key}.{role}.jpg"


def variable(role: str) -> str:
    """The variable that holds the URL for an output."""
    return "OUTPUT_URL" if role == JPEG else f"OUTPUT_URL_{role.upper()}"


def work_key(batch_id: str, task_id: str, attempt: int, ending: str) -> str:
    """A name that nobody else has: neither a file of the batch nor another attempt."""
    return f"staging/{batch_id}/_work/{task_id}-{attempt}{ending}"


def fits(input_key: str, step: str) -> bool:
    """Can all outputs have names beside the input?"""
    try:
        for role in ROLES[step]:
            check(output_key(input_key, role))
    except Reject:
        return False
    return True


def page_role(page: int) -> str:
    """How a worker asks for a place for a page after the first."""
    return f"{JPEG}-{page}"


def page_of(role: str) -> int | None:
    """The page after the first that is asked for; None when it is no such role."""
    found = _PAGE.fullmatch(role)
    page = int(found[1]) if found else 0
    return page if 2 <= page <= MAX_PAGES else None


def page_key(batch_id: str, task_id: str, attempt: int, page: int) -> str:
    """Where an attempt puts a page after the first: always a place of its own."""
    return work_key(batch_id, task_id, attempt, f"-p{page:05d}.jpg")


def is_passing(key: str) -> bool:
    """Is it of no use after the batch: a copy of an input for a worker, or what one said at its end?"""
    return _PASSING.fullmatch(key) is not None


def house_key(key: str, prefix: str, batch_id: str) -> str:
    """A key of the bucket as the house knows it; others are as they are."""
    return key.removeprefix(prefix) if key.startswith(f"{prefix}staging/{batch_id}/") else key
