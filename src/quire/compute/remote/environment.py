"""A remote task as its worker sees it: all of it is in the environment of one process.

The names of the variables are those of the published workers; our own take precedence: presigned URLs before
keys of the store, `S3_ENDPOINT_URL` before the host that follows from the account.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from quire.compute.remote.output_keys import RESULT, ROLES, STEPS, url_variable
from quire.model.errors import Misconfigured

_LONGEST_NUMBER = 18  # digits


class BucketAccess(Struct, frozen=True, kw_only=True):
    """Keys of the store for workers. `account_id` is for workers that derive the host from it."""

    bucket: str
    archive_bucket: str
    endpoint: str
    access_key_id: str
    secret_access_key: str
    account_id: str = ""

    def __repr__(self) -> str:
        return f"Access(bucket={self.bucket!r})"

    def variables(self, step: str) -> dict[str, str]:
        """The variables for a worker of this step; unknown ones are absent, not empty."""
        values = {
            "R2_ACCOUNT_ID": self.account_id,
            "R2_ACCESS_KEY_ID": self.access_key_id,
            "R2_SECRET_ACCESS_KEY": self.secret_access_key,
            "R2_BUCKET": self.bucket,
            "ARCHIVE_BUCKET": self.archive_bucket if step == "image_variants" else "",
            "S3_ENDPOINT_URL": self.endpoint,
        }
        return {name: text for name, text in values.items() if text}


class RemoteTask(Struct, frozen=True, kw_only=True):
    task_id: str
    batch_id: str
    step: str
    input_key: str
    callback_url: str
    name: str
    content_type: str
    size: int
    digest: str  # SHA-256 of the input; empty: not known
    cid: str | None
    options: dict[str, Any]
    is_extended: bool  # the server understands more than the published contract
    input_url: str
    output_urls: Mapping[str, str]  # by role
    access: BucketAccess | None
    registry_url: str
    original_key: str = ""  # of the input file, where `input_key` is a copy for the attempt
    memory_mb: int = 0  # that the worker may use; 0: not given
    more_url: str = ""  # where to ask for more places, and whether the attempt is current


def read_task(environment: Mapping[str, str]) -> RemoteTask:
    """The task of an environment. Raises one Misconfigured that names all that is missing or wrong."""
    variables = {name: text for name, text in environment.items() if text}
    wanted = ("TASK_ID", "BATCH_ID", "INPUT_R2_KEY", "CALLBACK_URL")
    problems = [f"{name} is not set" for name in wanted if name not in variables]
    prefix = variables.get("TASK_ID", "").partition("_")[0]
    step = variables.get("QUIRE_STEP") or STEPS.get(prefix, "")
    if step not in ROLES:
        problems.append("neither TASK_ID nor QUIRE_STEP names a step of this worker")
    access = _read_access(variables)
    if access is None and "INPUT_URL" not in variables:
        problems.append("there is neither INPUT_URL nor R2_BUCKET with its keys")
    size = variables.get("INPUT_FILE_SIZE", "0")
    memory = variables.get("QUIRE_MEMORY_MB", "0")
    for name, number in (("INPUT_FILE_SIZE", size), ("QUIRE_MEMORY_MB", memory)):
        if not number.isascii() or not number.isdecimal() or len(number) > _LONGEST_NUMBER:
            problems.append(f"{name} is not a number")
    options = _read_options(variables, step, problems)
    if problems:
        listed = "; ".join(problems)
        raise Misconfigured(f"the environment is not that of a task: {listed}", code="bad_task")
    roles = (*ROLES[step], RESULT)
    return RemoteTask(
        task_id=variables["TASK_ID"],
        batch_id=variables["BATCH_ID"],
        step=step,
        input_key=variables["INPUT_R2_KEY"],
        callback_url=variables["CALLBACK_URL"],
        name=variables.get("INPUT_FILE_NAME") or variables["INPUT_R2_KEY"].rpartition("/")[2],
        content_type=variables.get("INPUT_CONTENT_TYPE", "application/octet-stream"),
        size=int(size),
        digest=variables.get("QUIRE_INPUT_SHA256", ""),
        cid=variables.get("INPUT_CID"),
        options=options,
        is_extended="QUIRE_STEP" in variables,
        input_url=variables.get("INPUT_URL", ""),
        output_urls={
            role: variables[url_variable(role)] for role in roles if url_variable(role) in variables
        },
        access=access,
        registry_url="" if "QUIRE_REGISTERS" in variables else variables.get("CDN_API_URL", "").rstrip("/"),
        original_key=variables.get("QUIRE_INPUT_KEY") or variables["INPUT_R2_KEY"],
        memory_mb=int(memory),
        more_url=variables.get("MORE_OUTPUTS_URL", ""),
    )


def _read_options(variables: Mapping[str, str], step: str, problems: list[str]) -> dict[str, Any]:
    """The options of the step; without them only the first page, as the published worker converts it."""
    try:
        options = msgspec.json.decode(variables.get("QUIRE_OPTIONS", "{}"), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError):
        problems.append("QUIRE_OPTIONS is not a JSON object")
        return {}
    if step == "tiff_to_jpeg":
        return options if "QUIRE_OPTIONS" in variables else {"all_pages": False}
    public = variables.get("CDN_PUBLIC_URL") or variables.get("CDN_API_URL")
    return options | {"public_url": public} if public else options


def _read_access(variables: Mapping[str, str]) -> BucketAccess | None:
    names = ("R2_BUCKET", "R2_ACCESS_KEY_ID", "R2_SECRET_ACCESS_KEY")
    endpoint = variables.get("S3_ENDPOINT_URL", "")
    if not endpoint and (account := variables.get("R2_ACCOUNT_ID")):
        endpoint = f"https://{account}.r2.cloudflarestorage.com"
    if not endpoint or not all(name in variables for name in names):
        return None
    return BucketAccess(
        bucket=variables["R2_BUCKET"],
        archive_bucket=variables.get("ARCHIVE_BUCKET", ""),
        endpoint=endpoint,
        access_key_id=variables["R2_ACCESS_KEY_ID"],
        secret_access_key=variables["R2_SECRET_ACCESS_KEY"],
        account_id=variables.get("R2_ACCOUNT_ID", ""),
    )
