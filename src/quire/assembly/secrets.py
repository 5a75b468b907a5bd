"""The secret that signs URLs, callbacks and the tokens of tasks: from settings, or created once in the home
folder.
"""

import os
import secrets
from contextlib import suppress
from functools import cached_property
from pathlib import Path

from quire.database.private_files import take_rights_of_others
from quire.model.errors import Misconfigured
from quire.model.task_tokens import TokenAddress, issue_token
from quire.settings import Settings

BYTES = 32
FILE = "secret"


class TokenIssuer:
    """Issues the tokens by which somebody outside may complete tasks. The secret is loaded, or created, when
    the first one is asked for.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings

    def __call__(self, address: TokenAddress) -> str:
        return issue_token(self._secret, address)

    @cached_property
    def _secret(self) -> bytes:
        return load_signing_secret(self._settings)


def load_signing_secret(settings: Settings) -> bytes:
    """The same in all processes that share a home. Raises Misconfigured when the setting is too short."""
    chosen = settings.serve.secret.reveal().encode()
    if chosen:
        if len(chosen) < BYTES:
            raise Misconfigured(f"serve.secret is too short: it must have at least {BYTES} characters")
        return chosen
    return _load_or_create(settings.home / FILE)


def load_valid_secrets(settings: Settings) -> tuple[bytes, ...]:
    """Those whose signatures are accepted: the one that signs, then former ones, so that what was handed out
    before a change can still be answered.
    """
    former = [one.encode() for one in settings.serve.old_secrets.reveal().split()]
    if any(len(one) < BYTES for one in former):
        raise Misconfigured(f"serve.old_secrets has one that is shorter than {BYTES} characters")
    path = settings.home / FILE
    with suppress(FileNotFoundError):  # it has signed before serve.secret was set
        former.append(_read(path))
    return tuple(dict.fromkeys((load_signing_secret(settings), *former)))


def _load_or_create(path: Path) -> bytes:
    with suppress(FileNotFoundError):
        return _read(path)
    fresh = path.with_name(f"{path.name}.{os.getpid()}.{secrets.token_hex(4)}")
    descriptor = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "wb") as file:
            file.write(secrets.token_bytes(BYTES))
            file.flush()
            os.fsync(file.fileno())
        # By a link: of two processes that create one at the same time, both use the first.
        with suppress(FileExistsError):
            os.link(fresh, path)
    finally:
        fresh.unlink()
    return _read(path)


def _read(path: Path) -> bytes:
    with suppress(PermissionError):  # it belongs to another user
        take_rights_of_others(path)
    found = path.read_bytes()
    if len(found) < BYTES:
        raise Misconfigured(f"{path.name} in the home folder is damaged; remove it, then ask for new URLs")
    return found
