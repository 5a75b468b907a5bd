"""Names and reasons come from outside: the page shows them and runs none of them."""

import re

from quire.batches.report import ResultsPage
from quire.ledger.port import InputRecord
from quire.model.batch import FileOutcome
from quire.testing.factories import file

COUNTS = {"files": 1, "done": 0, "failed": 1, "skipped": 0, "outputs": 1}


def page_of(tmp_path, *records_and_outputs):
    with ResultsPage(tmp_path, "01B", "preprocess") as page:
        for record, outputs in records_and_outputs:
            page.add(record, outputs)
        page.finish(COUNTS)
    return (tmp_path / "index.html").read_text(encoding="utf-8")


def test_hostile_names_are_shown_as_text(tmp_path):
    evil = '<script>alert(1)</script>" onerror="x.tif'
    record = InputRecord(
        path=evil,
        outcome=FileOutcome.FAILED,
        size=1,
        error_class="<b>",
        reason="<img src=x>",
        made=[("thumb", file(evil))],
    )
    text = page_of(tmp_path, (record, [evil]))
    assert "<script" not in text
    assert "<img src=x" not in text
    assert '" onerror' not in text
    assert "default-src 'none'" in text


def test_links_lead_to_the_files_whatever_their_names(tmp_path):
    record = InputRecord(
        path="a #1?.tif", outcome=FileOutcome.DONE, size=1, made=[("jpeg", file("a #1?.jpg"))]
    )
    text = page_of(tmp_path, (record, ["javascript:alert(1)/a #1?.jpg"]))
    assert set(re.findall(r'(?:href|src)="([^"]*)"', text)) == {
        "report.json",
        "./javascript%3Aalert%281%29/a%20%231%3F.jpg",
    }


def test_a_large_batch_does_not_make_a_page_no_browser_opens(tmp_path, monkeypatch):
    monkeypatch.setattr("quire.batches.report.MAX_CARDS", 4)
    record = InputRecord(path="a", outcome=FileOutcome.SKIPPED, size=1, reason="x")
    text = page_of(tmp_path, *[(record, [])] * 5)
    assert text.count("<article") == 2
    assert "3 more files are in report.json" in text
    failed = InputRecord(path="z", outcome=FileOutcome.FAILED, size=1, error_class="c", reason="why")
    text = page_of(tmp_path, *[(record, [])] * 5, (failed, []))
    assert "why" in text, "failures have room of their own"
