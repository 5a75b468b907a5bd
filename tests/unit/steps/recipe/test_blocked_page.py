"""Pages that refuse servers are told from pages that hold no recipe."""

import pytest

from quire.steps.recipe.blocked_page import find_block

STORY = b"<html><body>" + b"<p>A long story of many words that anybody can read.</p>" * 60


@pytest.mark.parametrize(
    ("status", "reason"), [(401, "http_401"), (403, "http_403"), (429, "http_429"), (503, "http_503")]
)
def test_a_refusing_status_is_a_block(status: int, reason: str):
    assert find_block(STORY, status=status) == reason


def test_a_readable_page_is_no_block_even_with_a_captcha_in_its_form():
    assert (
        find_block(STORY + b"<form class='g-recaptcha'></form><noscript>enable JavaScript</noscript>") is None
    )


@pytest.mark.parametrize(
    ("html", "reason"),
    [
        (b"<body>Checking your browser before you go on", "captcha"),
        (b"<body>You need to enable JavaScript to run this app.", "webview_required"),
        (b"<body><div id='__next'></div>", "webview_required"),
        (b"<body><script>" + b"var a = 'words and words';" * 500 + b"</script>", "webview_required"),
        (b"  ", "webview_required"),
    ],
)
def test_an_empty_shell_is_a_block(html: bytes, reason: str):
    assert find_block(html) == reason


def test_what_is_no_page_is_no_block():
    assert find_block(b"", content_type="application/pdf") is None
