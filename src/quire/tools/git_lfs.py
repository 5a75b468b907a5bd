"""Git LFS, the program: fetches the file that a pointer stands for from the repository's remote.

Promises: no shell; the work tree and the index are not touched; names are data, never options or patterns; a
process that hangs is ended with its children. The file is not verified here. Must not know: Quire's storage.
"""

import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from quire.model.errors import Reject, Retry
from quire.model.probe import Probe
from quire.tools.child_process import ProgramMissing, run_child

_ADVICE = "install git-lfs, or run `git lfs pull` where it is installed"
_ABSENT = re.compile(r"is not a git command|git-lfs[^\n]*not found", re.IGNORECASE)
_MESSAGE_BYTES = 2000
# Variables of a calling git: only the repository of the file counts here.
_FOREIGN = (
    "GIT_DIR",
    "GIT_WORK_TREE",
    "GIT_COMMON_DIR",
    "GIT_INDEX_FILE",
    "GIT_OBJECT_DIRECTORY",
    "GIT_PREFIX",
)


def probe(environment: Mapping[str, str]) -> Probe:
    program = shutil.which("git-lfs", path=environment.get("PATH"))
    if program is None:
        return Probe(name="git-lfs", ok=False, advice=_ADVICE)
    ran = subprocess.run([program, "version"], capture_output=True, check=False, timeout=30)
    found = re.match(rb"git-lfs/([0-9.]{1,20})", ran.stdout)
    return Probe(name="git-lfs", ok=True, detail=found[1].decode() if found else "unknown")


def fetch(
    path: Path,
    *,
    oid: str,
    size: int,
    target: Path,
    environment: Mapping[str, str],
    timeout_seconds: float = 3600,
) -> None:
    """Write the file that the pointer at `path` stands for to `target`, which is new. Raises Reject with code
    `git_lfs_missing` or `lfs_unavailable`, Retry with code `lfs_timeout`.
    """
    pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{oid}\nsize {size}\n"
    command = ["git", "lfs", "smudge", "--", path.name]
    try:
        with target.open("xb") as output:
            ended = run_child(
                command,
                _build_environment(environment),
                folder=path.parent,
                stdin=pointer.encode(),
                stdout=output,
                timeout_seconds=timeout_seconds,
                stderr_bytes=_MESSAGE_BYTES,
            )
    except ProgramMissing as error:
        raise _not_installed() from error
    except TimeoutError as error:
        raise Retry(
            f"git lfs did not answer within {timeout_seconds:.0f} seconds; try again later.",
            code="lfs_timeout",
        ) from error
    if ended.code == 0:
        return
    if _ABSENT.search(ended.stderr):
        raise _not_installed()
    raise Reject(f"git lfs could not get the file: {ended.stderr or 'no message'}", code="lfs_unavailable")


def _build_environment(environment: Mapping[str, str]) -> dict[str, str]:
    inherited = {name: value for name, value in environment.items() if name not in _FOREIGN}
    ours = {
        # "1" is for commands that check files out; here the content is what is wanted.
        "GIT_LFS_SKIP_SMUDGE": "0",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
    }
    return {**inherited, **ours}


def _not_installed() -> Reject:
    return Reject(
        f"git-lfs is not installed, so the file cannot be fetched; {_ADVICE}.", code="git_lfs_missing"
    )
