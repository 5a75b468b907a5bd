"""JSON of pages is read as it was meant, and only repaired where it is broken."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.steps.recipe.json_repair import LONGEST, read_json, repair

BROKEN = [
    ('{"a": [1, 2,], }', {"a": [1, 2]}),
    ('{"a": 1,, "b": 2}', {"a": 1, "b": 2}),
    ('{"a": "x"\n "b": 2}', {"a": "x", "b": 2}),
    ('{"a": "add the "mix" slowly", "b": 2}', {"a": 'add the "mix" slowly', "b": 2}),
    ('{"a": "it\\\'s"}', {"a": "it's"}),
    ('{"a": [{"b": 1} {"b": 2}]}', {"a": [{"b": 1}, {"b": 2}]}),
    ('{"a": ["x", "y"', {"a": ["x", "y"]}),
    ('{"a": }', {"a": None}),
    ("{&quot;a&quot;: &quot;x&quot;}", {"a": "x"}),
    ('{"a": 1} // the end', {"a": 1}),
    ('{"a": 1, /* why */ "b": 2}', {"a": 1, "b": 2}),
]
WRAPPED = [
    '<!-- {"a": 1} -->',
    '//<![CDATA[\n{"a": 1}\n//]]>',
    '/* <![CDATA[ */ {"a": 1}; /* ]]> */',
    '\ufeff{"a": 1};',
    '{"a":\n\t1}',
]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(alphabet='ab"\\,:{}[]\n é', max_size=8),
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(alphabet='ab"', max_size=3), inner, max_size=4)
    ),
    max_leaves=12,
)


@pytest.mark.parametrize(("text", "value"), BROKEN, ids=lambda part: str(part)[:30])
def test_broken_json_is_repaired(text: str, value: object):
    assert read_json(text)[0] == [value]


@pytest.mark.parametrize("text", WRAPPED)
def test_comments_around_json_are_taken_off(text: str):
    assert read_json(text) == ([{"a": 1}], False)


def test_several_documents_are_read():
    assert read_json('{"a": 1}\n{"b": 2}')[0] == [{"a": 1}, {"b": 2}]


def test_line_breaks_in_strings_are_no_damage():
    assert read_json('{"a": "x\n\ty"}') == ([{"a": "x\n\ty"}], False)


@pytest.mark.parametrize(
    "text", ["", "   ", "no json", "[" * 100_000, '{"a":' * 100_000, "x" * (LONGEST + 1)]
)
def test_what_cannot_be_read_gives_nothing(text: str):
    assert read_json(text)[0] == []


@given(JSON)
def test_valid_json_is_never_changed(value: object):
    text = json.dumps(value)
    documents, repaired = read_json(text)

    if isinstance(value, dict | list):
        assert (documents, repaired) == ([value], False)


@given(
    st.dictionaries(
        st.text(alphabet="ab", max_size=3), st.lists(st.text(alphabet="ab,:{}[] ", max_size=8)), max_size=4
    )
)
def test_a_repair_leaves_valid_json_as_it_is(value: dict[str, list[str]]):
    assert json.loads(repair(json.dumps(value))) == value


@given(st.text(alphabet='{}[]",:\\ a1\n/*', max_size=60))
def test_no_text_makes_reading_raise(text: str):
    documents, _ = read_json(text)

    assert isinstance(documents, list)


def test_comments_between_fields_are_left_out():
    text = '/* plugin */ {"a": "b", /* c */ "d": [1, // e\n"f"]}'
    assert read_json(text) == ([{"a": "b", "d": [1, "f"]}], True)


def test_names_with_the_prefix_of_schema_org_and_json_in_a_string_are_read():
    assert read_json('{"schema:name": "A", "http://schema.org/step": "https://schema.org/x"}')[0] == [
        {"name": "A", "step": "https://schema.org/x"}
    ]
    assert read_json('"{\\"name\\": \\"A\\"}"')[0] == [{"name": "A"}]


def test_what_is_nested_too_deep_is_given_up_at_once():
    assert repair("[" * 1_000_000 + "}" * 1_000_000) == ""
    assert read_json("[" * 1_000_000 + "}" * 1_000_000)[0] == []
    nested = "[" * 400 + "]" * 399
    assert read_json(nested)[0] == [json.loads(nested + "]")]
