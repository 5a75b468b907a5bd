"""The board: what it looks like, that nothing in it is obeyed, and that watching ends when asked."""

import io
import json
import os
import signal
import subprocess
import sys

import pytest
from rich.console import Console
from tests.situations.bucket_folder import hash_of

from quire.cli.library.dashboard import draw
from quire.cli.library.output import size_of, span
from quire.library.dashboard import DashboardView, FailedJob, RunningJob

NOW = 1_700_000_000.0
EVIL = "\x1b[31mred\x1b[0m [bold]x[/bold] \u202e\n.pdf"


def glance(**more):
    facts = {
        "todo": {"1_critical": 1, "3_normal": 49_950, "5_background": 0},
        "processing": 40,
        "failed": 2,
        "dead": 1,
        "done": 10_000,
        "done_age_seconds": 130.0,
        "running": (
            RunningJob(
                job=hash_of("a"),
                worker="node01",
                name=EVIL,
                stage="converting",
                percent=41.6,
                started_at=NOW - 7300,
                silent_seconds=5,
                attempt=2,
            ),
        ),
        "mishaps": (FailedJob(job=hash_of("b"), error=EVIL * 9, attempts=4),),
        "finished": 12,
        "watched_seconds": 1800.0,
        "per_hour": 24.0,
        "eta_seconds": 3600 * 49.0,
        "round_seconds": 1.8,
        "age_seconds": 3.0,
    }
    return DashboardView(**facts | more)


def picture(shown, width=80, **more):
    console = Console(file=io.StringIO(), width=width, highlight=False)
    console.print(draw(shown, "s3://books/pdf/", now=NOW, **more))
    return console.file.getvalue()


def test_everything_worth_knowing_is_in_it():
    text = picture(glance(), live=True)
    for words in (
        "Library s3://books/pdf/   listed 3 s ago in 1.8 s",
        "waiting       49,951",
        "done          10,000  counted 2 min 10 s ago",
        "12 finished; 24 an hour over the last 30 min; all done in about 2 d 1 h",
        "converting 42 %",
        "2 h 1 min",
        "… and 39 more",
        hash_of("b")[:16],
    ):
        assert words in text, words


@pytest.mark.parametrize("width", [40, 80, 200])
def test_it_fits_and_obeys_nobody(width):
    text = picture(glance(trouble=EVIL), width)
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert max(map(len, text.splitlines())) <= width
    if width == 200:
        assert r"\x1b[31mred\x1b[0m [bold]x[/bold] \u202e\n.pdf" in text


def test_before_anything_is_known_it_says_so():
    empty = {"running": (), "mishaps": (), "done": None, "per_hour": None, "round_seconds": 0.0}
    text = picture(glance(**empty), live=True)
    assert "listing …" in text
    assert "Throughput is known after the second round." in text


def test_watching_gives_a_line_for_each_round_and_ends_when_asked(bucket):
    bucket.todo(hash_of("a"))
    command = [sys.executable, "-m", "quire.cli.blobforge", "watch", "-i", "0.5", "--json"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, env=dict(os.environ)) as process:
        first, second = (json.loads(process.stdout.readline()) for _ in range(2))
        process.send_signal(signal.SIGINT)
        process.stdout.read()
        assert process.wait(timeout=60) == 0
    assert first["todo"]["3_normal"] == second["todo"]["3_normal"] == 1
    assert (first["per_hour"], second["per_hour"]) == (None, 0.0)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [(0, "0 s"), (59.4, "59 s"), (60, "1 min"), (61, "1 min 1 s"), (3600, "1 h"), (90_061, "1 d 1 h")],
)
def test_lengths_of_time_in_words(seconds, words):
    assert span(seconds) == words


@pytest.mark.parametrize(
    ("number", "words"),
    [(0, "0 bytes"), (1023, "1023 bytes"), (1536, "1.5 KiB"), (5 << 30, "5.0 GiB"), (5 << 40, "5120.0 GiB")],
)
def test_sizes_in_words(number, words):
    assert size_of(number) == words
