"""What a pipeline says of the outputs of a step that exists already."""

import pytest

from quire.model.files import Change, File, Product
from quire.model.output_rules import OutputRule, apply_rules, could_prefer, find_rule_problem

RULES = (
    OutputRule(role="jpeg", from_page=2, name="p{page:03d}.jpg", preferred="{stem}-p{page:03d}.jpg"),
    OutputRule(role="jpeg", name="jpg", preferred="{stem}.jpg", change=Change.JOIN, tags=("made",)),
    OutputRule(role="tiles", is_file=False),
)


def document(name="a.b.tif"):
    return File(key="k", path=f"box/{name}", name=name, size=1, content_type="image/tiff")


def product(role="jpeg", **changes):
    return Product(role=role, key="k", size=1, content_type="image/jpeg", digest="d", **changes)


def test_the_first_rule_that_fits_counts():
    first = apply_rules(RULES, document(), product(facts={"page": 1}))
    later = apply_rules(RULES, document(), product(facts={"page": 12}))

    assert (first.name, first.preferred, first.change, first.tags) == (
        "jpg",
        "a.b.jpg",
        Change.JOIN,
        ("made",),
    )
    assert (later.name, later.preferred, later.change) == ("p012.jpg", "a.b-p012.jpg", Change.HANG)


@pytest.mark.parametrize("facts", [{}, {"page": "two"}, {"page": None}])
def test_an_output_without_a_page_is_the_first(facts):
    assert apply_rules(RULES, document(), product(facts=facts)).name == "jpg"


def test_other_outputs_are_as_the_step_gave_them_and_some_are_no_files():
    own = product("text", name="txt", change=Change.REPLACE)

    assert apply_rules(RULES, document(), own) is own
    assert apply_rules(RULES, document(), product("tiles")) is None


@pytest.mark.parametrize(
    ("name", "could"),
    [
        ("a.b.jpg", True),
        ("a.b-p002.jpg", True),
        ("a.b-p1000.jpg", True),
        ("a.b-p0002.jpg", False),  # three digits, or more that do not begin with 0
        ("a.b-p02.jpg", False),
        ("a.b-p002.pdf", False),
        ("a.jpg", False),
        ("aXb.jpg", False),
    ],
)
def test_which_names_a_document_could_claim_for_its_outputs(name, could):
    assert could_prefer(RULES, document("A.b.TIF"), name) is could


def test_a_step_without_rules_could_claim_any_name():
    assert could_prefer((), document(), "anything")


@pytest.mark.parametrize("name", ["{stem", "{name}.jpg", "{0}", "{page:x}", "{stem.real}", "{page!r}x{no}"])
def test_names_that_cannot_be_filled_in_are_found(name):
    assert find_rule_problem(OutputRule(role="r", preferred=name)) is not None


def test_good_names_have_no_problem():
    assert [find_rule_problem(rule) for rule in RULES] == [None] * 3
