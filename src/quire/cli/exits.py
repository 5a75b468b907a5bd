"""Exit codes: the one table from errors to numbers. Scripts rely on them: no code changes its meaning.

0    done
1    could not run: a setting, a tool, the store or the input is at fault; the message says what to do
2    usage: the command line was not understood
3    finished, but some files failed; each is listed with its reason
4    held: the batch is paused or its budget is spent; resume it to continue
130  interrupted by Ctrl-C; accepted files are safe, and the next run continues
143  stopped immediately by a second SIGTERM; the same holds
"""

from collections.abc import Mapping

from quire.model.errors import Bug, Lost, Misconfigured, QuireError, Reject, Retry, Stale

DONE = 0
COULD_NOT_RUN = 1
USAGE = 2
FINISHED_WITH_FAILURES = 3
HELD = 4
INTERRUPTED = 130
TERMINATED = 143

# One entry per kind of error and none for the root: a test fails until a new kind has its entry.
EXIT_CODES: Mapping[type[QuireError], int] = {
    Misconfigured: COULD_NOT_RUN,
    Reject: COULD_NOT_RUN,
    Retry: COULD_NOT_RUN,
    Stale: COULD_NOT_RUN,
    Lost: COULD_NOT_RUN,
    Bug: COULD_NOT_RUN,
}


def code_for(error: BaseException) -> int:
    """The exit code for an error; a subclass has the code of its nearest listed ancestor."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    for kind in type(error).__mro__:
        if issubclass(kind, QuireError) and kind in EXIT_CODES:
            return EXIT_CODES[kind]
    return COULD_NOT_RUN
