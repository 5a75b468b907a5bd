"""The page of messages shows the schemas and examples of the code, and names every error code."""

import re
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from quire.api.asyncapi import MESSAGES
from quire.model.envelope_schemas import build_schema
from quire.model.envelopes import Envelope, OcrErrorCode
from quire.queues.redis_lists.keys import ListKeys

DOCS = Path(__file__).parents[2] / "docs"
PAGE = (DOCS / "reference" / "messages.md").read_text("utf-8")


def test_schemas_and_examples_are_those_of_the_code():
    script = DOCS / "make_messages.py"
    ran = subprocess.run([sys.executable, script, "--check"], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, f"run python docs/make_messages.py\n{ran.stderr}"


def test_every_key_and_error_code_is_explained():
    tables = set(re.findall(r"`([\w]+)`", "\n".join(re.findall(r"^\| (.*?) \|", PAGE, re.MULTILINE))))
    assert {str(code) for code in OcrErrorCode} <= tables
    assert set(Envelope.__struct_fields__) | {"payload"} <= tables


def test_every_key_in_redis_is_explained():
    beside = [name.decode().partition(":")[2] for name in ListKeys("QUEUE", rq=False).every[1:]]
    for name in beside:
        assert re.search(rf"`(QUEUE)?:{name}`", PAGE), name


@pytest.mark.parametrize(("struct", "kind", "example"), [(one[0], one[1], one[3]) for one in MESSAGES])
def test_the_examples_are_valid(struct, kind, example):
    jsonschema.Draft202012Validator(build_schema(struct)).validate(example)
    assert example["job_type"] == kind
