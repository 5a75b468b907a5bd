"""When a watch takes a file."""

from pathlib import Path

from quire.batches.watch import LONGEST_WAIT_SECONDS, Arrivals
from quire.ledger.port import Upload
from quire.tools.folder_scan import FolderListing, ScannedFile


def there(**stamps):
    files = [
        ScannedFile(path=path, source=Path(path), size=1, stamp=stamp)
        if stamp
        else ScannedFile(path=path, source=Path(path), state="skipped", error_class="hidden")
        for path, stamp in stamps.items()
    ]
    return [FolderListing(files=files, folders=[])]


def test_a_file_is_taken_when_it_has_stopped_growing():
    arrivals = Arrivals(2.0)
    assert not arrivals.choose(there(a="1"), 10.0)
    assert not arrivals.choose(there(a="2"), 11.0)
    assert not arrivals.choose(there(a="2"), 12.9)
    assert set(arrivals.choose(there(a="2"), 13.0)) == {"a"}


def test_one_batch_for_all_that_arrive_together():
    arrivals = Arrivals(2.0)
    arrivals.choose(there(a="1"), 10.0)
    arrivals.choose(there(a="1", b="1"), 11.0)
    assert not arrivals.choose(there(a="1", b="1"), 12.5)
    assert set(arrivals.choose(there(a="1", b="1"), 13.0)) == {"a", "b"}


def test_a_folder_that_is_never_quiet_does_not_keep_the_others_waiting():
    arrivals = Arrivals(2.0)
    now = 0.0
    chosen = {}
    while not chosen:
        now += 1.0
        chosen = arrivals.choose(there(a="1", growing=str(now)), now)
    assert set(chosen) == {"a"}
    assert LONGEST_WAIT_SECONDS <= now <= LONGEST_WAIT_SECONDS + 5


def test_what_was_taken_is_taken_again_only_when_it_changes():
    arrivals = Arrivals(0.0)
    chosen = arrivals.choose(there(a="1"), 1.0)
    arrivals.keep(chosen.values())
    assert not arrivals.choose(there(a="1"), 2.0)
    assert set(arrivals.choose(there(a="2"), 3.0)) == {"a"}


def test_what_earlier_batches_took_is_known():
    arrivals = Arrivals(0.0)
    arrivals.remember([Upload(path="a", state="taken", stamp="1")])
    arrivals.remember([Upload(path="b", state="skipped", error_class="hidden")])
    assert not arrivals.choose(there(a="1", b=""), 1.0)


def test_a_hidden_file_alone_makes_no_batch():
    arrivals = Arrivals(0.0)
    assert not arrivals.choose(there(a=""), 1.0)
    assert set(arrivals.choose(there(a="", b="1"), 2.0)) == {"a", "b"}


def test_a_file_that_went_away_is_forgotten():
    arrivals = Arrivals(2.0)
    arrivals.choose(there(a="1"), 1.0)
    arrivals.choose(there(), 2.0)
    assert not arrivals.choose(there(a="1"), 4.0)
