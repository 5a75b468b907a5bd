"""Progress for logs and pipes: few lines, and the last of each phase is true."""

from quire.cli.console import Reporter
from quire.cli.run.progress import show_progress
from quire.model.batch import PhaseCounts


def _phase(total: int, done: int, failed: int = 0) -> PhaseCounts:
    return PhaseCounts(phase=1, name="read", total=total, done=done, failed=failed, cached=0)


def test_a_phase_whose_total_grows_is_told_as_it_stands_in_the_end(capsys):
    with show_progress(Reporter(json_output=False)) as progress:
        progress.scanned(1, 10, 0, whole=True)
        progress.uploaded(1)
        for total in range(1, 31):
            progress.progressed([_phase(total, total - 1)])
        progress.progressed([_phase(30, 29, 1)])

    said = [line for line in capsys.readouterr().err.splitlines() if line.startswith("Read")]
    assert len(said) <= 11
    assert said[-1] == "Read: 30/30, 1 failed"


def test_what_was_said_already_is_not_said_again(capsys):
    with show_progress(Reporter(json_output=False)) as progress:
        progress.scanned(1, 10, 0, whole=True)
        progress.uploaded(1)
        for _ in range(3):
            progress.progressed([_phase(2, 2)])

    assert capsys.readouterr().err.count("Read: 2/2") == 1
