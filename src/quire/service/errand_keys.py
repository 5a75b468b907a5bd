"""Where the outputs of a task that is done elsewhere lie: one rule for the house and for the worker.

The names follow from the key of the input, as in the published workers: `x.tif` gives `x.jpg`, `x.jpg` gives
`x.jpg.ref.json`. What the worker does not know by itself, it is told in the environment.
"""

from quire.blobs.keys import check
from quire.model.errors import Reject
from quire.model.files import sibling, stem_and_extension

STEPS = {"tiff": "tiff_to_jpeg", "img": "image_variants"}  # by the prefix of a task id
JPEG, REFERENCE, RESULT = "jpeg", "ref", "result"
VARIANTS = ("large", "medium", "thumb")
ROLES = {"tiff_to_jpeg": (JPEG,), "image_variants": (*VARIANTS, REFERENCE)}


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
