"""Pages in right and wrong encodings become text, and text becomes a tree that is safe to walk."""

import pytest

from quire.tools.html_tree import decode_html, parse_tree

TEXT = "crème brûlée, 200 °C, “fein”"


@pytest.mark.parametrize(
    ("data", "content_type"),
    [
        (TEXT.encode(), ""),
        (TEXT.encode(), "text/html; charset=iso-8859-1"),
        (TEXT.encode("utf-8-sig"), ""),
        (TEXT.encode("utf-16"), ""),
        (("x" * 40 + TEXT).encode("utf-16-le"), ""),
        (TEXT.encode("cp1252"), ""),
        (TEXT.encode("cp1252"), "text/html; charset=ISO-8859-1"),
        (TEXT.encode("cp1252"), "text/html; charset=utf-8"),
        (b'<meta charset="windows-1252">' + TEXT.encode("cp1252"), ""),
        (TEXT.encode("cp1252"), "text/html; charset=punycode"),
    ],
)
def test_a_page_is_decoded(data: bytes, content_type: str):
    text, whole = decode_html(data, content_type)

    assert text.endswith(TEXT)
    assert whole


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("shift_jis", "料理の作り方"),
        ("gb18030", "菜谱做法"),
        ("koi8-r", "рецепт"),
        ("euc-kr", "요리"),
        ("iso-2022-jp", "料理"),
    ],
)
def test_other_encodings_are_taken_at_their_word(name: str, text: str):
    assert decode_html(text.encode(name), f"text/html; charset={name}") == (text, True)


def test_a_broken_byte_in_a_page_costs_one_letter():
    text, whole = decode_html(("é" * 100).encode() + b"\xff" + b"end")

    assert (text, whole) == ("é" * 100 + "\ufffdend", False)


def test_a_tree_has_no_entities_comments_or_depth_of_the_page():
    tree = parse_tree(
        '<!DOCTYPE html [<!ENTITY x SYSTEM "file:///etc/passwd">]><p>&x;<!-- c --></p>' + "<div>" * 5000
    )
    depth, node = 0, tree
    while len(node):
        node, depth = node[-1], depth + 1

    assert "root:" not in tree.text_content()
    assert depth < 300


@pytest.mark.parametrize("text", ["", "  \n"])
def test_nothing_has_no_tree(text: str):
    assert parse_tree(text) is None


@pytest.mark.parametrize(
    "text", ["\x00<p>a\x01b", "\ud800", "<?xml version='1.0' encoding='utf-16'?><p>a", "plain"]
)
def test_odd_signs_do_no_harm(text: str):
    assert parse_tree(text) is not None
