"""The diagrams on the page of concepts are those of the tables in the engine."""

import re
import subprocess
import sys
from pathlib import Path

from quire.ledger.port import StrayKind
from quire.model.batch import FileOutcome, Hold, Stage, TaskState
from quire.model.plan import PlanUnit
from quire.model.work import Outcome

DOCS = Path(__file__).parents[2] / "docs"


def test_the_diagrams_are_as_the_tables_say():
    script = DOCS / "make_state_diagrams.py"
    ran = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"run python docs/make_state_diagrams.py\n{ran.stderr}"


def test_every_stage_state_and_outcome_is_explained():
    page = (DOCS / "concepts.md").read_text("utf-8")
    explained = set(re.findall(r"^\| `(\w+)` \|", page, re.MULTILINE))
    assert explained == {*Stage, *TaskState, *Outcome, *FileOutcome, *Hold, *StrayKind, *PlanUnit}
