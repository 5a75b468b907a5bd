"""Secrets that sign, and former ones whose signatures are still good."""

import pytest

from quire.assembly.secrets import load_signing_secret, load_valid_secrets
from quire.model.errors import Misconfigured
from quire.settings import load

NEW, OLD, OLDER = "n" * 32, "o" * 32, "p" * 40


def settings(tmp_path, **environment):
    return load(environment={"QUIRE_HOME": str(tmp_path), **environment}, folder=tmp_path).settings


def test_former_secrets_stay_valid_and_the_new_one_signs(tmp_path):
    chosen = settings(tmp_path, QUIRE_SERVE_SECRET=NEW, QUIRE_SERVE_OLD_SECRETS=f"{OLD} {OLDER}")
    assert load_signing_secret(chosen) == NEW.encode()
    assert load_valid_secrets(chosen) == (NEW.encode(), OLD.encode(), OLDER.encode())


def test_the_secret_of_the_home_folder_stays_valid_when_one_is_set(tmp_path):
    own = load_signing_secret(settings(tmp_path))
    assert load_valid_secrets(settings(tmp_path)) == (own,)
    assert load_valid_secrets(settings(tmp_path, QUIRE_SERVE_SECRET=NEW)) == (NEW.encode(), own)


def test_a_former_secret_that_is_too_short_is_refused(tmp_path):
    with pytest.raises(Misconfigured, match=r"serve\.old_secrets"):
        load_valid_secrets(settings(tmp_path, QUIRE_SERVE_SECRET=NEW, QUIRE_SERVE_OLD_SECRETS="short"))
