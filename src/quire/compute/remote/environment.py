"""A task as its worker sees it that runs elsewhere: all of it stands in the environment of one process.

The names of the variables are those of the published workers; ours come first where there are both: presigned
URLs before keys of the store, `S3_ENDPOINT_URL` before the host that follows from the account.
"""

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from quire.compute.remote.output_keys import (
    RESULT,
    ROLES,
    STEPS,
    variable,
)
from quire.model.errors import Misconfigured

_LONGEST_NUMBER = 18  # of digits


class Access(Struct, frozen=True, kw_only=True):
    """The store by keys of its own. `account_id` is for workers that make the host of its name."""

    bucket: str
    archive_bucket: str
    endpoint: str
    access_key_id: str
    secret_access_key: str
    account_id: str = ""

    def __repr__(self) -> str:
        return f"Access(bucket={self.bucket!r})"

    def variables(self, step: str) -> dict[str, str]:
        """As a worker of this step is told; what is not known is absent, not empty."""
        told = {
            "R2_ACCOUNT_ID": self.account_id,
            "R2_ACCESS_KEY_ID": self.access_key_id,
            "R2_SECRET_ACCESS_KEY": self.secret_access_key,
            "R2_BUCKET": self.bucket,
            "ARCHIVE_BUCKET": self.archive_bucket if step == "image_variants" else "",
            "S3_ENDPOINT_URL": self.endpoint,
        }
        return {name: text for name, text in told.items() if text}


class RemoteTask(Struct, frozen=True, kw_only=True):
    task_id: str
    batch_id: str
    step: str
    input_key: str
    callback_url: str
    name: str
    content_type: str
    size: int
    cid: str | None
    options: dict[str, Any]
    ours: bool  # sent by a house that understands more than the contract
    input_url: str
    output_urls: Mapping[str, str]  # by role
    access: Access | None
    registry_url: str
    original_key: str = ""  # the input's own, where `input_key` is a name of the attempt
    memory_mb: int = 0  # that the worker may use; 0: nobody said
    more_url: str = ""  # where to ask for more places, and whether the attempt still counts


def read(environment: Mapping[str, str]) -> RemoteTask:
    """Raises one Misconfigured that names all that is missing or wrong."""
    said = {name: text for name, text in environment.items() if text}
    wanted = ("TASK_ID", "BATCH_ID", "INPUT_R2_KEY", "CALLBACK_URL")
    problems = [f"{name} is not set" for name in wanted if name not in said]
    prefix = said.get("TASK_ID", "").partition("_")[0]
    step = said.get("QUIRE_STEP") or STEPS.get(prefix, "")
    if step not in ROLES:
        problems.append("neither TASK_ID nor QUIRE_STEP names a step that can be done here")
    access = _access(said)
    if access is None and "INPUT_URL" not in said:
        problems.append("there is neither INPUT_URL nor R2_BUCKET with its keys")
    size = said.get("INPUT_FILE_SIZE", "0")
    memory = said.get("QUIRE_MEMORY_MB", "0")
    for name, number in (("INPUT_FILE_SIZE", size), ("QUIRE_MEMORY_MB", memory)):
        if not number.isascii() or not number.isdecimal() or len(number) > _LONGEST_NUMBER:
            problems.append(f"{name} is not a number")
    options = _options(said, step, problems)
    if problems:
        listed = "; ".join(problems)
        raise Misconfigured(f"the environment is not that of a task: {listed}", code="bad_task")
    roles = (*ROLES[step], RESULT)
    return RemoteTask(
        task_id=said["TASK_ID"],
        batch_id=said["BATCH_ID"],
        step=step,
        input_key=said["INPUT_R2_KEY"],
        callback_url=said["CALLBACK_URL"],
        name=said.get("INPUT_FILE_NAME") or said["INPUT_R2_KEY"].rpartition("/")[2],
        content_type=said.get("INPUT_CONTENT_TYPE", "application/octet-stream"),
        size=int(size),
        cid=said.get("INPUT_CID"),
        options=options,
        ours="QUIRE_STEP" in said,
        input_url=said.get("INPUT_URL", ""),
        output_urls={role: said[variable(role)] for role in roles if variable(role) in said},
        access=access,
        registry_url=said.get("CDN_API_URL", "").rstrip("/"),
        original_key=said.get("QUIRE_INPUT_KEY") or said["INPUT_R2_KEY"],
        memory_mb=int(memory),
        more_url=said.get("MORE_OUTPUTS_URL", ""),
    )


def _options(said: Mapping[str, str], step: str, problems: list[str]) -> dict[str, Any]:
    """Where nobody gave the step's options: the first page alone, as the published worker converts it."""
    try:
        options = msgspec.json.decode(said.get("QUIRE_OPTIONS", "{}"), type=dict[str, Any])
    except (msgspec.MsgspecError, UnicodeError):
        problems.append("QUIRE_OPTIONS is not a JSON object")
        return {}
    if step == "tiff_to_jpeg":
        return options if "QUIRE_OPTIONS" in said else {"all_pages": False}
    public = said.get("CDN_PUBLIC_URL") or said.get("CDN_API_URL")
    return options | {"public_url": public} if public else options


def _access(said: Mapping[str, str]) -> Access | None:
    names = ("R2_BUCKET", "R2_ACCESS_KEY_ID", "R2_SECRET_ACCESS_KEY")
    endpoint = said.get("S3_ENDPOINT_URL", "")
    if not endpoint and (account := said.get("R2_ACCOUNT_ID")):
        endpoint = f"https://{account}.r2.cloudflarestorage.com"
    if not endpoint or not all(name in said for name in names):
        return None
    return Access(
        bucket=said["R2_BUCKET"],
        archive_bucket=said.get("ARCHIVE_BUCKET", ""),
        endpoint=endpoint,
        access_key_id=said["R2_ACCESS_KEY_ID"],
        secret_access_key=said["R2_SECRET_ACCESS_KEY"],
        account_id=said.get("R2_ACCOUNT_ID", ""),
    )
