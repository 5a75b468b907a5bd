"""Where talk goes: with --json standard output holds data alone."""

import json

from quire.cli.console import Reporter


def test_a_command_with_one_document_says_nothing_else(capsys):
    talk = Reporter(json_output=True)
    talk.report_outage("away")
    talk.warn(["may lose writes"])
    talk.report_outage(None)
    assert capsys.readouterr().out == ""


def test_a_command_that_goes_on_tells_what_happens_line_by_line(capsys):
    talk = Reporter(json_output=True, events=True)
    for _ in range(3):
        talk.report_outage("away")
    talk.report_outage(None)
    events = [json.loads(line)["event"] for line in capsys.readouterr().out.splitlines()]
    assert events == ["waiting", "back"]


def test_people_read_it_beside_the_data(capsys):
    Reporter(json_output=False).warn(["a \x1b[31mred\x1b[0m word"])
    said = capsys.readouterr()
    assert said.out == ""
    assert "\x1b" not in said.err
