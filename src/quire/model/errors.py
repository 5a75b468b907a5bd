"""Errors, grouped by what the caller must do about them.

    QuireError
    ├── Retry           a passing fault: try again, perhaps after a delay
    │   └── Unavailable Quire's own database cannot be used just now: wait, nothing is lost
    ├── Reject          this input will never work: fail it with this reason
    │   └── DamagedBlob our stored copy holds wrong bytes: never use them, store the right ones again
    ├── Stale           another writer was faster: reload and decide again
    ├── Lost            the lease or attempt is gone: stop this work
    ├── Misconfigured   a person must change a setting or install something
    └── Bug             Quire itself is wrong: stop and report

`code` is a short stable word for grouping (an error class in reports and tables);
the message is for people and says what happened, why, and what to do next.
"""


class QuireError(Exception):
    code = "error"

    def __init__(self, message: str, *, code: str | None = None) -> None:
        super().__init__(message)
        if code is not None:
            self.code = code


class Retry(QuireError):
    code = "transient"

    def __init__(self, message: str, *, code: str | None = None, delay_seconds: float | None = None) -> None:
        super().__init__(message, code=code)
        self.delay_seconds = delay_seconds


class Unavailable(Retry):
    """The database is busy, full, restarting or out of reach. An unanswered write may have happened."""

    code = "unavailable"


class Reject(QuireError):
    code = "rejected"


class Missing(Reject):
    """The named thing (blob, batch, message) does not exist."""

    code = "missing"


class DamagedBlob(Reject):
    """A stored blob does not hold the bytes that its digest names. The sender's file is not to blame."""

    code = "damaged_blob"


class Stale(QuireError):
    code = "stale"


class Lost(QuireError):
    """`ids` name what was lost when the call was about several."""

    code = "lost"

    def __init__(self, message: str, *, code: str | None = None, ids: tuple[str, ...] = ()) -> None:
        super().__init__(message, code=code)
        self.ids = ids


class Misconfigured(QuireError):
    code = "misconfigured"


class Bug(QuireError):
    code = "bug"
