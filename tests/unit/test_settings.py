from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from quire.model.errors import Misconfigured
from quire.settings import KEYS, Secret, load

VARIABLES = [key.variable for key in KEYS]
WORKER_KEYS = {
    "QUIRE_STORE": "s3",
    "QUIRE_S3_BUCKET": "scans",
    "QUIRE_S3_ACCESS_KEY_ID": "main",
    "QUIRE_S3_SECRET_ACCESS_KEY": "main-secret",
    "QUIRE_WORKER_KEYS_ACCESS_KEY_ID": "w-id",
    "QUIRE_WORKER_KEYS_SECRET_ACCESS_KEY": "w-secret",
    "QUIRE_WORKER_KEYS_ACCOUNT_ID": "acc",
}


def _file(folder: Path, text: str) -> Path:
    path = folder / "quire.toml"
    path.write_text(text, "utf-8")
    return path


def _refusal(*args, **named) -> str:
    with pytest.raises(Misconfigured) as caught:
        load(*args, **named)
    return str(caught.value)


def test_without_file_and_variables_everything_is_the_default(tmp_path):
    loaded = load({}, tmp_path)
    assert set(loaded.sources.values()) == {"default"}
    assert set(loaded.sources) == {key.name for key in KEYS}
    assert loaded.file is None


@pytest.mark.parametrize(
    ("text", "environment", "overrides", "workers", "source"),
    [
        ("", {}, {}, 0, "default"),
        ("workers = 1", {}, {}, 1, "quire.toml"),
        ("workers = 1", {"QUIRE_WORKERS": "2"}, {}, 2, "QUIRE_WORKERS"),
        ("workers = 1", {"QUIRE_WORKERS": "2"}, {"workers": 3}, 3, "the command line"),
        ("workers = 1", {}, {"workers": "3"}, 3, "the command line"),
        ("workers = 1", {"QUIRE_WORKERS": ""}, {"workers": None}, 1, "quire.toml"),
    ],
)
def test_the_later_source_wins_and_is_remembered(tmp_path, text, environment, overrides, workers, source):
    _file(tmp_path, text)
    loaded = load(environment, tmp_path, overrides=overrides)
    assert (loaded.settings.workers, loaded.sources["workers"]) == (workers, source)


def test_the_given_file_is_read_before_the_variable_s_and_that_before_the_folder_s(tmp_path):
    _file(tmp_path, "workers = 1")
    (tmp_path / "two.toml").write_text("workers = 2", "utf-8")
    (tmp_path / "three.toml").write_text("workers = 3", "utf-8")
    environment = {"QUIRE_CONFIG": "two.toml"}
    assert load(environment, tmp_path).settings.workers == 2
    assert load(environment, tmp_path, tmp_path / "three.toml").settings.workers == 3


def test_tables_and_kinds_are_read_from_file_and_variables(tmp_path):
    _file(tmp_path, '[s3]\nbucket = "scans"\nallow_http = true\n[retry]\nfirst_delay_seconds = 2\n')
    settings = load({"QUIRE_PREPROCESS_ALL_PAGES": "no", "QUIRE_STORE": "s3"}, tmp_path).settings
    assert (settings.s3.bucket, settings.s3.allow_http, settings.store) == ("scans", True, "s3")
    assert settings.retry.first_delay_seconds == pytest.approx(2.0)
    assert settings.preprocess.all_pages is False


def test_a_relative_home_starts_where_it_was_written(tmp_path):
    inner = tmp_path / "inner"
    inner.mkdir()
    file = _file(inner, 'home = "data"')
    assert load({}, tmp_path, file).settings.home == inner / "data"
    assert load({"QUIRE_HOME": "data"}, tmp_path, file).settings.home == tmp_path / "data"
    assert load({}, tmp_path, overrides={"home": Path("data")}).settings.home == tmp_path / "data"


@pytest.mark.parametrize(
    ("text", "environment", "said"),
    [
        ("worker = 1", {}, "unknown key `worker` in quire.toml; did you mean `workers`?"),
        ('bucket = "x"', {}, "unknown key `bucket` in quire.toml; did you mean `s3.bucket`?"),
        ('[s3]\nbuckt = "x"', {}, "unknown key `s3.buckt` in quire.toml; did you mean `s3.bucket`?"),
        ("[preproces]\na = 1", {}, "unknown table `[preproces]` in quire.toml; did you mean `[preprocess]`?"),
        ("zzz = 1", {}, "unknown key `zzz` in quire.toml; remove it"),
        ("", {"QUIRE_WORKER": "1"}, "did you mean `QUIRE_WORKERS`?"),
        ("", {"QUIRE_S3_BUCKT": "x"}, "did you mean `QUIRE_S3_BUCKET`?"),
        ("s3 = 1", {}, "`s3` in quire.toml must be a table"),
    ],
)
def test_an_unknown_name_is_refused_with_the_nearest_known_one(tmp_path, text, environment, said):
    _file(tmp_path, text)
    assert said in _refusal(environment, tmp_path)


@pytest.mark.parametrize(
    ("text", "environment", "said"),
    [
        ("", {"QUIRE_WORKERS": "two"}, "workers must be a whole number, got 'two' from QUIRE_WORKERS"),
        ("", {"QUIRE_WORKERS": "-1"}, "workers must be a whole number from 0 to 1024, got '-1'"),
        ("workers = 1.5", {}, "workers must be a whole number, got 1.5 from quire.toml"),
        ("workers = true", {}, "workers must be a whole number, got True"),
        ('workers = "2"', {}, "workers must be a whole number, got '2'"),
        ("workers = [1]", {}, "workers must be a whole number, got a list"),
        ("workers = 0x" + "f" * 5000, {}, "got a far larger number"),
        ('store = "tape"', {}, 'store must be "local" or "s3", got \'tape\''),
        ("[s3]\nallow_http = 1", {}, "s3.allow_http must be true or false"),
        ("[preprocess]\ntiff_quality = 0", {}, "must be a whole number from 1 to 100, got 0"),
        ("[preprocess]\ntiff_timeout_seconds = 0", {}, "must be a number above 0 and at most 86400"),
        ("[preprocess]\ntiff_timeout_seconds = nan", {}, "must be a number, got nan"),
        ("[preprocess]\ntiff_timeout_seconds = inf", {}, "must be a number, got inf"),
        ('[preprocess]\npublic_url = ""', {}, "preprocess.public_url must be text that is not empty"),
        ('home = ""', {}, "home must be a path"),
        ('home = "~no-such-user-here/x"', {}, "home must be a path whose ~ names a known user"),
    ],
)
def test_a_value_of_the_wrong_kind_or_size_is_named_with_its_source(tmp_path, text, environment, said):
    _file(tmp_path, text)
    assert said in _refusal(environment, tmp_path)


@pytest.mark.parametrize(
    ("text", "environment", "overrides", "source"),
    [
        ('queue_store = "bucket"', {}, {}, "quire.toml"),
        ("", {"QUIRE_QUEUE_STORE": "bucket"}, {}, "QUIRE_QUEUE_STORE"),
        ("", {}, {"queue_store": "bucket"}, "the command line"),
    ],
)
def test_queues_in_a_bucket_are_refused_with_what_to_use_instead(
    tmp_path, text, environment, overrides, source
):
    _file(tmp_path, text)
    told = _refusal(environment, tmp_path, overrides=overrides)
    assert f'queue_store must be "ledger" or "redis", got \'bucket\' from {source}: ' in told
    assert 'queues in a bucket were removed; set "ledger" (the ledger\'s database, the default)' in told
    assert 'or "redis"' in told
    assert "The PDF library is not affected" in told


@pytest.mark.parametrize("value", ['"tape"', "3", '["bucket"]'])
def test_what_never_was_a_store_of_queues_is_not_called_withdrawn(tmp_path, value):
    _file(tmp_path, f"queue_store = {value}")
    told = _refusal({}, tmp_path)
    assert 'queue_store must be "ledger" or "redis", got' in told
    assert "no longer" not in told


@pytest.mark.parametrize(
    ("environment", "said"),
    [
        ({"QUIRE_STORE": "s3"}, "s3.bucket is not set"),
        ({"QUIRE_S3_BUCKET": "s3://scans/x"}, "s3.bucket is not the name of a bucket"),
        ({"QUIRE_S3_ACCESS_KEY_ID": "a"}, "s3.access_key_id is set but s3.secret_access_key is not"),
        ({"QUIRE_S3_SECRET_ACCESS_KEY": "a"}, "s3.secret_access_key is set but s3.access_key_id is not"),
        ({"QUIRE_S3_ENDPOINT": "s3.example.org"}, "s3.endpoint must be an http or https address"),
        (
            {"QUIRE_PREPROCESS_PUBLIC_URL": "ftp://x"},
            "preprocess.public_url must be an http or https address",
        ),
        (
            {"QUIRE_STORE": "s3", "QUIRE_S3_BUCKET": "scans", "QUIRE_S3_ENDPOINT": "http://s3.example.org"},
            "set s3.allow_http",
        ),
        ({"QUIRE_S3_PREFIX": "../other"}, "s3.prefix cannot be used"),
        ({"QUIRE_RETRY_FIRST_DELAY_SECONDS": "31"}, "is greater than retry.longest_delay_seconds"),
        ({"QUIRE_FLY_API": "machines"}, "fly.api must be an http or https address"),
        ({"QUIRE_COMPUTE_REGISTRY_URL": "cdn"}, "compute.registry_url must be an http or https address"),
        ({"QUIRE_COMPUTE_TIFF": "fly"}, 'compute.tiff is "fly" but fly.tiff_app is not set'),
        ({"QUIRE_COMPUTE_TIFF": "fly"}, 'compute.tiff is "fly" but fly.token is not set'),
        ({"QUIRE_COMPUTE_IMAGE": "fly"}, 'compute.image is "fly" but serve.public_url is not set'),
        (
            {"QUIRE_COMPUTE_IMAGE": "process", "QUIRE_PREPROCESS_TILES": "true"},
            'compute.image is "process", whose workers give back no tiles',
        ),
        ({"QUIRE_COMPUTE_IMAGE": "fly", "QUIRE_PREPROCESS_TILES": "true"}, "set local, queue or ray"),
        ({"QUIRE_WORKER_KEYS_ENDPOINT": "r2"}, "worker_keys.endpoint must be an http or https address"),
        (WORKER_KEYS | {"QUIRE_STORE": "local"}, 'is set but store is not "s3"'),
        (
            WORKER_KEYS | {"QUIRE_WORKER_KEYS_SECRET_ACCESS_KEY": ""},
            "but worker_keys.secret_access_key is not",
        ),
        (WORKER_KEYS | {"QUIRE_WORKER_KEYS_ACCESS_KEY_ID": ""}, "but worker_keys.access_key_id is not"),
        (WORKER_KEYS | {"QUIRE_WORKER_KEYS_ACCOUNT_ID": ""}, "but worker_keys.account_id is not"),
        (WORKER_KEYS | {"QUIRE_WORKER_KEYS_ACCOUNT_ID": "a.b/c"}, "must be part of a host name"),
        ({"QUIRE_WORKER_KEYS_ARCHIVE_BUCKET": "kept"}, "worker_keys.archive_bucket is set but"),
        (WORKER_KEYS | {"QUIRE_WORKER_KEYS_ARCHIVE_BUCKET": "s3://x"}, "is not the name of a bucket"),
        (
            WORKER_KEYS | {"QUIRE_S3_ACCESS_KEY_ID": "w-id"},
            "worker_keys.access_key_id is that of the main key",
        ),
        (
            WORKER_KEYS | {"QUIRE_S3_SECRET_ACCESS_KEY": "w-secret"},
            "worker_keys.secret_access_key is that of the main key",
        ),
        (
            WORKER_KEYS | {"QUIRE_WORKER_KEYS_ENDPOINT": "http://s3.example.org"},
            "worker_keys.endpoint has no TLS",
        ),
    ],
)
def test_values_that_do_not_go_together_are_refused(tmp_path, environment, said):
    refusal = _refusal(environment, tmp_path)
    assert said in refusal
    assert "w-secret" not in refusal


def test_keys_for_workers_are_taken_when_they_are_whole_and_their_own(tmp_path):
    found = load(WORKER_KEYS, tmp_path).settings.worker_keys
    assert found.handed_out
    assert "w-secret" not in repr(found)
    assert not load({}, tmp_path).settings.worker_keys.handed_out


def test_all_problems_are_reported_at_once(tmp_path):
    _file(tmp_path, "worker = 1\n[preprocess]\ntiff_quality = 101\n")
    environment = {"QUIRE_WORKERS": "two", "QUIRE_STORE": "s3", "QUIRE_S4_BUCKET": "x"}
    message = _refusal(environment, tmp_path, overrides={"preprocess.max_attempts": 0})
    assert message.count("\n  - ") == 6


def test_a_broken_value_leads_to_no_further_complaint_about_it(tmp_path):
    message = _refusal({"QUIRE_STORE": "s3", "QUIRE_CONFIG": "absent.toml"}, tmp_path)
    assert message.count("\n  - ") == 1
    assert "the file absent.toml cannot be read: No such file" in message


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"workers =", "it is not valid TOML"),
        (b"\xff\xfe", "it is not UTF-8"),
        (b"a = " + b"[" * 5000, "cannot be read"),
    ],
)
def test_a_file_that_cannot_be_understood_is_refused(tmp_path, content, said):
    (tmp_path / "quire.toml").write_bytes(content)
    assert said in _refusal({}, tmp_path)


def test_a_file_that_cannot_be_opened_is_refused(tmp_path):
    (tmp_path / "quire.toml").mkdir()
    assert "the file quire.toml cannot be read: Is a directory" in _refusal({}, tmp_path)


def test_secrets_are_never_shown(tmp_path):
    environment = {"QUIRE_S3_ACCESS_KEY_ID": "AKIAHUSH", "QUIRE_S3_SECRET_ACCESS_KEY": "hush-hush"}
    loaded = load(environment, tmp_path)
    secret = loaded.settings.s3.secret_access_key
    said = f"{loaded!r} {loaded} {loaded.rows()} {secret} {secret!r} {secret:}"
    assert "hush" not in said.lower()
    assert dict(row[:2] for row in loaded.rows())["s3.secret_access_key"] == "set"
    assert secret.reveal() == "hush-hush"
    with pytest.raises(TypeError):
        msgspec.json.encode(secret)


@pytest.mark.parametrize(
    ("text", "environment"),
    [
        ('[s3]\nsecret_access_key = ["hush"]', {}),
        ('[s3]\nsecret_acces_key = "hush"', {}),
        ("", {"QUIRE_S3_SECRET_ACCESS_KEY": "hush"}),
        ("", {"QUIRE_S3_SECRET": "hush"}),
        ("", {"QUIRE_S3_ENDPOINT": "https://me:hush@s3.example.org"}),
        ('[workers]\nsecret = "hush"', {}),
    ],
)
def test_messages_do_not_quote_secrets(tmp_path, text, environment):
    _file(tmp_path, text)
    assert "hush" not in _refusal(environment, tmp_path)


def test_settings_are_frozen_and_equal_when_read_again(tmp_path):
    environment = {"QUIRE_S3_ACCESS_KEY_ID": "a", "QUIRE_S3_SECRET_ACCESS_KEY": "b"}
    first = load(environment, tmp_path).settings
    assert first == load(environment, tmp_path).settings
    assert first.s3.secret_access_key != Secret("c")
    with pytest.raises(AttributeError):
        first.workers = 3


def test_no_workers_means_one_per_core(tmp_path):
    assert load({}, tmp_path).settings.worker_count >= 1
    assert load({"QUIRE_WORKERS": "7"}, tmp_path).settings.worker_count == 7


_names = st.one_of(st.sampled_from([*VARIABLES, "QUIRE_CONFIG"]), st.text().map("QUIRE_".__add__), st.text())
_texts = st.one_of(
    st.text(), st.sampled_from(["s3", "1", "-1", "1e9", "nan", "~", "~x/y", "/", "http://[", "\0"])
)


@given(environment=st.dictionaries(_names, _texts, max_size=6))
def test_any_environment_is_read_or_refused_with_a_message(environment):
    folder = Path(__file__).parent / "no-such-folder"
    try:
        told = len(load(environment, folder).rows())
    except Misconfigured as error:
        told = str(error).count("\n  - ")
    assert told


def test_limits_of_resources_are_a_table_of_whole_numbers(tmp_path):
    _file(tmp_path, '[resources]\nopenai = 40\n"ocr server" = 4\n')
    loaded = load({}, tmp_path)
    assert loaded.settings.resources == {"openai": 40, "ocr server": 4}
    assert ("resources.openai", "40", "quire.toml") in loaded.rows()
    assert load({}, tmp_path / "elsewhere").settings.resources == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("resources = 4", "write [resources]"),
        ("[resources]\nopenai = 0", "resources.openai must be a whole number from 1 to"),
        ("[resources]\nopenai = true", "got True"),
        ('[resources]\nopenai = "4"', "got '4'"),
        ("[resource]\nopenai = 4", "did you mean `[resources]`?"),
    ],
)
def test_a_wrong_limit_of_a_resource_is_refused(tmp_path, text, words):
    _file(tmp_path, text)
    assert words in _refusal({}, tmp_path)
