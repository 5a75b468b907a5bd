"""Turns errors of the S3 client into errors that say what the caller can do.

Promise: no message contains a credential or a signed URL; the client's own error stays as the cause. Must not
know: conditions, which `conditional` decides.
"""

import contextlib
import re
from collections.abc import Iterator

from quire.model.errors import Misconfigured, Missing, QuireError, Reject, Retry

UNAVAILABLE = "storage_unavailable"  # the code of a Retry: no answer, or none that helps

_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
TRANSIENT = frozenset({408, 409, 425, 429})  # statuses below 500 after which a retry may succeed


def status_of(error: Exception) -> int | None:
    """The HTTP status of the server's answer; the client has it only in its message."""
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


@contextlib.contextmanager
def translate_errors(action: str, key: str, bucket: str) -> Iterator[None]:
    from obstore.exceptions import BaseError

    try:
        yield
    except QuireError:
        raise
    except (BaseError, FileNotFoundError, NotImplementedError) as error:
        raise translate(error, action, key, bucket) from error


def translate(error: Exception, action: str, key: str, bucket: str) -> QuireError:
    status, code = status_of(error), _CODE.search(str(error))
    answer = " ".join(str(part) for part in (status, code and code[1]) if part) or "no answer"
    kind, advice, word = _classify(error, status, code[1] if code else "")
    return kind(f"Cannot {action} {key!r} in bucket {bucket!r} ({answer}). {advice}", code=word)


def _classify(error: Exception, status: int | None, code: str) -> tuple[type[QuireError], str, str]:
    """The kind of error, the advice and the code: the first row of the table that fits."""
    from obstore import exceptions

    denied = exceptions.PermissionDeniedError | exceptions.UnauthenticatedError
    unable = exceptions.NotSupportedError | NotImplementedError
    final = status is not None and 400 <= status < 500 and status not in TRANSIENT
    table: tuple[tuple[bool, type[QuireError], str, str], ...] = (
        (code == "NoSuchBucket", Misconfigured, "Create the bucket or correct its name.", "no_bucket"),
        (isinstance(error, FileNotFoundError), Missing, "There is no such blob.", "missing"),
        (code == "RequestTimeTooSkewed", Misconfigured, "Set this machine's clock.", "clock_skew"),
        (
            isinstance(error, denied),
            Misconfigured,
            "Check keys, region and rights on the bucket.",
            "storage_denied",
        ),
        (isinstance(error, exceptions.InvalidPathError), Reject, "Use another key.", "bad_key"),
        (
            isinstance(error, unable) or status == 501,
            Misconfigured,
            "Use a store that can do this.",
            "broken_store",
        ),
        (final, Misconfigured, "Check endpoint, region and bucket.", "storage_refused"),
    )
    for fits, kind, advice, word in table:
        if fits:
            return kind, advice, word
    return Retry, "Is the endpoint right and the server up? It may work on the next try.", UNAVAILABLE
