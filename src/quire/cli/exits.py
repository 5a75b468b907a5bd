"""Exit codes: the one table from error to number. Scripts rely on them: none changes its meaning.

0    done
1    could not run: a setting, a tool, the store or the input stands in the way; the message says what to do
2    usage: the command line was not understood
3    finished, but some files failed; each is listed with its reason
4    held: the batch is paused, or its budget is spent; resume it when that is right
130  interrupted by Ctrl-C; what was accepted is safe and goes on at the next run
"""

from collections.abc import Mapping

from quire.model.errors import Bug, Lost, Misconfigured, QuireError, Reject, Retry, Stale

DONE = 0
COULD_NOT_RUN = 1
USAGE = 2
FINISHED_WITH_FAILURES = 3
HELD = 4
INTERRUPTED = 130

# Every kind of error by itself and no entry for the root: a new kind must be placed here, or a test fails.
EXIT_CODES: Mapping[type[QuireError], int] = {
    Misconfigured: COULD_NOT_RUN,
    Reject: COULD_NOT_RUN,
    Retry: COULD_NOT_RUN,
    Stale: COULD_NOT_RUN,
    Lost: COULD_NOT_RUN,
    Bug: COULD_NOT_RUN,
}


def code_for(error: BaseException) -> int:
    """The number for an error that ends a command; a narrower kind counts as its nearest listed ancestor."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    for kind in type(error).__mro__:
        if issubclass(kind, QuireError) and kind in EXIT_CODES:
            return EXIT_CODES[kind]
    return COULD_NOT_RUN
