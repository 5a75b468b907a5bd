"""A pipeline as it is drawn: what stands for the branches of one step."""

import pytest

from quire import Document, Pipeline
from quire.cli.pipeline.drawing import describe_accepts, draw, group_branches
from quire.model.plan import Plan
from quire.pipelines.ocr import build_ocr


def _plan(each: tuple[str, ...], accepts: object) -> Plan:
    branched = Pipeline("branched", version=1)

    def read(document: Document, part: str) -> None:
        """Nothing."""

    branched.step(accepts=accepts, each={"part": each})(read)
    return branched.plan()


@pytest.mark.parametrize(
    ("each", "accepts", "said"),
    [
        (("a", "b"), "tag:for-{part}", "every document with tag:for-{branch}"),
        (("a", "b"), ("*.{part}", "!tag:a"), "*.{branch}, not tag:a"),
        (("a", "ab"), "tag:a-{part}-a", "every document with tag:a-{branch}-a"),
        (("a", "b"), "*.txt", "*.txt"),
        (("a",), "tag:for-{part}", "every document with tag:for-a"),
    ],
)
def test_what_branches_take_is_said_for_all_of_them(each, accepts, said):
    (group,) = group_branches(_plan(each, accepts).phases[0].steps)
    assert describe_accepts(group[0], group) == said


def test_the_parts_of_a_book_are_drawn_as_one_step():
    drawn = "\n".join(draw(build_ocr().plan(), 120))
    assert "tag:ocr:part-{branch}" in drawn
    assert drawn.count("tag:ocr:part-01") == 3  # the writers wait for the first part
