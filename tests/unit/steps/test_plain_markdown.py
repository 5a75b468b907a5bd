"""Plain lines as Markdown: every word in its order, and nothing taken for markup."""

from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from quire.steps import plain_markdown


def test_large_letters_make_headings_and_bullets_make_lists():
    lines = [("The Title", 24.0), ("A part", 13.5), ("words " * 12, 10.0), ("end.", 10.0), ("• one", 10.0)]

    text = plain_markdown.from_lines([*lines, ("2) two", 10.0)])
    assert text.startswith("# The Title\n\n## A part\n\nwords words")
    assert text.endswith("end.\n\n- one\n\n2. two")


def test_a_word_broken_at_the_end_of_a_line_is_joined():
    assert plain_markdown.from_lines([("a bro\ufffe", 10.0), ("ken word", 10.0)]) == "a broken word"


def test_recognised_text_keeps_its_paragraphs():
    assert plain_markdown.from_recognised("one\ntwo\n\n# three\n") == "one two\n\n\\# three"


@given(st.lists(st.text(st.characters(codec="ascii", exclude_categories=["C"]), max_size=40), max_size=8))
def test_whatever_the_lines_say_they_are_shown_and_not_obeyed(lines):
    text = plain_markdown.from_lines([(line.strip(), 0.0) for line in lines if line.strip()])
    kinds = {token.type for block in MarkdownIt("commonmark").parse(text) for token in block.children or ()}
    blocks = {block.type for block in MarkdownIt("commonmark").parse(text)}

    assert not kinds & {"link_open", "image", "code_inline", "html_inline", "em_open", "strong_open"}
    assert not blocks & {"heading_open", "html_block", "fence", "code_block", "blockquote_open", "hr"}


@given(st.lists(st.text(st.characters(categories=["L"]), min_size=1, max_size=10), max_size=60))
def test_no_word_is_lost(words):
    lines = [(" ".join(words[at : at + 5]), 10.0) for at in range(0, len(words), 5)]

    assert plain_markdown.from_lines(lines).replace("#", "").split() == words
