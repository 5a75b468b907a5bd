"""The keys of the outputs of a remote task: one rule for the server and for the worker.

The keys follow from the key of the input, as in the published workers: `x.tif` gives `x.jpg`, `x.jpg` gives
`x.jpg.ref.json`. The environment of the worker holds what does not follow from it.
"""

import re

from quire.blobs.keys import check
from quire.model.errors import Reject
from quire.model.files import sibling, stem_and_extension

STEPS = {"tiff": "tiff_to_jpeg", "img": "image_variants"}  # by the prefix of a task id
JPEG, REFERENCE, RESULT = "jpeg", "ref", "result"
VARIANTS = ("large", "medium", "thumb")
ROLES = {"tiff_to_jpeg": (JPEG,), "image_variants": (*VARIANTS, REFERENCE)}

# Of a TIFF that is converted remotely: fewer than one callback can name.
MAX_PAGES = 5000
_PAGE = re.compile(r"jpeg-([1-9][0-9]{0,4})")
# Files beside the outputs, for a worker or by it, that are no outputs.
_TEMPORARY = re.compile(
    r"staging/[^/]+/_work/(?:tiff_\w+-\d+\.tif|img_\w+-\d+\.\w+|\w+-\d+\.result\.json"
    r"|step_\d+-\d+\.(?:o\d{4}|(?:value|details)\.json))"
)


def output_key(input_key: str, role: str) -> str:
    if role == JPEG:
        name = input_key.rpartition("/")[2]
        return sibling(input_key, f"{stem_and_extension(name)[0]}.jpg")
    return f"{input_key}.ref.json" if role == REFERENCE else f"{input_key}.{role}.jpg"


def url_variable(role: str) -> str:
    """The variable that holds the URL for an output."""
    return "OUTPUT_URL" if role == JPEG else f"OUTPUT_URL_{role.upper()}"


def work_key(batch_id: str, task_id: str, attempt: int, ending: str) -> str:
    """A unique key: no file of the batch and no other attempt has it."""
    return f"staging/{batch_id}/_work/{task_id}-{attempt}{ending}"


def has_valid_output_keys(input_key: str, step: str) -> bool:
    """Do all outputs have valid keys beside the input?"""
    try:
        for role in ROLES[step]:
            check(output_key(input_key, role))
    except Reject:
        return False
    return True


def page_role(page: int) -> str:
    """The role under which a worker asks for a place for a page after the first."""
    return f"{JPEG}-{page}"


def page_of(role: str) -> int | None:
    """The page of such a role; None for any other role."""
    found = _PAGE.fullmatch(role)
    page = int(found[1]) if found else 0
    return page if 2 <= page <= MAX_PAGES else None


def page_key(batch_id: str, task_id: str, attempt: int, page: int) -> str:
    """The key of a page after the first: always one of the attempt's own."""
    return work_key(batch_id, task_id, attempt, f"-p{page:05d}.jpg")


def is_temporary(key: str) -> bool:
    """Is the key of no use after the batch: a copy of an input, or a stored callback?"""
    return _TEMPORARY.fullmatch(key) is not None


def strip_prefix(key: str, prefix: str, batch_id: str) -> str:
    """A key of the bucket without the prefix of the blob store; other keys are unchanged."""
    return key.removeprefix(prefix) if key.startswith(f"{prefix}staging/{batch_id}/") else key
