"""A converter that does as its document says: `%PDF crash`, `%PDF hang`, `%PDF pages 40` …

In the place of the real step, in a worker process like it.
"""

import os
import signal
import subprocess
import sys
from pathlib import Path

from quire.model.errors import Misconfigured, Reject, Retry
from quire.model.step import OutputFile, Step, StepInput, StepOutput
from quire.steps.registry import STEPS as REAL

PNG = b"\x89PNG\r\n\x1a\n"


def convert(step_input: StepInput) -> StepOutput:
    words = step_input.source.read_bytes()[:200].decode(errors="replace").split()
    said = set(words)
    total = int(words[words.index("pages") + 1]) if "pages" in said else 1
    for done in range(total + 1):
        step_input.meter.progress(done, total)
    _misbehave(said)
    sys.stderr.write("this and that\n")
    sys.stderr.flush()
    if "nothing" in said:
        return StepOutput()
    files = [_write(step_input.folder / "content.md", b"# Title\n" * 100, "markdown", "md")]
    if "large" in said:
        files.append(_write(step_input.folder / "1.png", bytes(70 << 20), "picture", "1.png"))
    if "linked" in said:
        files = [_write(step_input.folder / "linked.md", b"![](assets/none.png)", "markdown", "md")]
    if "named" in said:
        files.append(_write(step_input.folder / "x.png", PNG, "picture", ".hidden.png"))
    if "twice" in said:
        files.append(_write(step_input.folder / "more.md", b"more", "markdown", "more.md"))
    value = None if "mute" in said else {"pages": total, "environment": sorted(os.environ), "hash": "0" * 64}
    return StepOutput(files=tuple(files), value=value)


def _misbehave(said: set[str]) -> None:
    if "crash" in said:
        os.abort()
    if "hang" in said:
        signal.pause()
    if "family" in said:
        child = subprocess.Popen([sys.executable, "-c", "import signal; signal.pause()"])
        Path("child").write_text(str(child.pid))
        signal.pause()
    if "noise" in said:
        os.write(1, b"x" * 300_000 + b"\n")
        os.write(2, b"y" * 300_000 + b"\n")
    if "memory" in said:
        bytearray(4 << 30)
    if "fail" in said:
        raise Reject("page 3 is a riddle", code="corrupt")
    if "stumble" in said:
        raise KeyError("page 3")
    if "trouble" in said:
        raise Misconfigured("the tool is not installed", code="missing_tool")
    if "later" in said:
        raise Retry("the converter ended without a word", code="converter_failed")


def _write(path: Path, data: bytes, role: str, name: str) -> OutputFile:
    path.write_bytes(data)
    return OutputFile(role=role, path=path, content_type="application/octet-stream", name=name)


STEPS = {"pdf_markdown": Step(name="pdf_markdown", version=REAL["pdf_markdown"].version, run=convert)}
