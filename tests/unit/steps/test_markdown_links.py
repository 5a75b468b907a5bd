"""Links of converted pages: into the archive, to the web, or no links at all."""

import re

from hypothesis import given, settings
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from quire.steps import markdown_links

SIGNS = "[])(<>\\\n !a`'\"\r"
MARKS = "![ ]( ``` ~~~ ```text ]: > ../ x.png assets/ assets/q.png https://a.b/c javascript:x <br> ![](x.png)"
PIECES = st.sampled_from([*SIGNS, *MARKS.split(), "\n\n", "\n```\n", "    ", "- ", "> "])
HOSTILE = st.lists(PIECES, max_size=25).map("".join)
ASSETS = {"x.png": "assets/page-1-0001.png", "dir/y 1.png": "assets/page-1-0002.png"}


def test_pictures_of_the_page_lead_into_the_archive():
    text = "a ![alt](x.png) b ![](<dir/y 1.png>)"

    assert (
        markdown_links.rewrite_links(text, ASSETS)
        == "a ![alt](assets/page-1-0001.png) b ![](assets/page-1-0002.png)"
    )


def test_addresses_of_the_web_stay():
    text = "[a](https://example.org/?q=1) [b](mailto:a@example.org) <https://example.org> [c](#there)"

    assert markdown_links.rewrite_links(text, {}) == text


def test_all_else_is_text():
    for text in (
        "![x](https://count.example/p.png)",
        "![a [b] c](https://count.example/p.png)",
        "[x](javascript:alert)",
        "[a [b] c](file:///etc/passwd)",
        "[x](<assets/none.png>)",
        "[x](\n../secret)",
        "[x][y]\n\n> [y]: javascript:x",
    ):
        made = markdown_links.rewrite_links(text, ASSETS)
        assert "![" not in made
        assert not re.search(r"\]\(\s*<?(?!https:)", made), made
        assert "]:" not in made


def test_code_is_left_alone_and_ends_with_its_page():
    text = "```\n[x](y) <b>\n```\n[x](y)"

    assert markdown_links.rewrite_links(text, {}) == "```\n[x](y) <b>\n```\n[x]\\(y)"
    assert markdown_links.rewrite_links("```\n[x](y)", {}) == "\\```\n[x]\\(y)"  # it has no end
    # What looks like an end and is none must not open the text after it.
    assert "[x]\\(y)" in markdown_links.rewrite_links("```\n~~~\n```\n[x](y)", {})


def test_lost_links_are_put_where_their_words_stand_once():
    def completed(text, words="the rules", address="https://a.example/r"):
        return markdown_links.complete_links(text, [(words, address)])

    assert completed("See the rules, all.") == "See [the rules](https://a.example/r), all."
    assert completed("the rules and the rules") == "the rules and the rules"
    assert completed("[the rules](https://a.example/r)") == "[the rules](https://a.example/r)"
    assert completed("See the rules", address="javascript:x") == "See the rules"
    assert completed("See the rules", address="https://a.example/) [x](y") == "See the rules"


@settings(max_examples=400)
@given(HOSTILE)
def test_whatever_a_page_says_no_link_leads_astray(text):
    """Judged by a reader of Markdown that is not ours."""
    made = markdown_links.rewrite_links(text, ASSETS)
    links, pictures = shown(made)

    assert pictures <= set(ASSETS.values())
    assert all(one in ASSETS.values() or one.startswith(("https://", "#")) for one in links)
    assert set(markdown_links.targets(made, "assets/")) <= set(ASSETS.values())


@settings(max_examples=400)
@given(HOSTILE, HOSTILE)
def test_a_page_never_changes_the_one_after_it(one, other):
    first, second = (markdown_links.rewrite_links(text, ASSETS) for text in (one, other))
    joined = f"{first.strip()}\n\n<!-- page 2 -->\n\n{second.strip()}\n\n"
    links, pictures = shown(joined)

    assert pictures <= set(ASSETS.values())
    assert all(one in ASSETS.values() or one.startswith(("https://", "#")) for one in links)


def shown(markdown: str) -> tuple[set[str], set[str]]:
    """Where the links and the pictures lead."""
    links, pictures = set(), set()
    for block in MarkdownIt("commonmark").parse(markdown):
        for token in block.children or ():
            if token.type == "link_open":
                links.add(str(token.attrs["href"]))
            if token.type == "image":
                pictures.add(str(token.attrs["src"]))
    return links, pictures


@given(st.text(max_size=300), st.text(max_size=300))
def test_words_are_never_lost(before, after):
    made = markdown_links.rewrite_links(f"{before}[{after}](nowhere)", ASSETS)

    assert [letter for letter in made if letter.isalnum()] == [
        letter for letter in f"{before}[{after}](nowhere)" if letter.isalnum()
    ]
