"""Settings: one frozen object, read once from `quire.toml`, `QUIRE_*` variables and the command line.

The later wins. Promises: all problems are told at once; an unknown key is refused with the nearest known
one; every value remembers where it came from; a secret is never shown. Alone in reading `os.environ`.
Must not know components: `assembly` makes them out of these values, and nothing below it imports this.
"""

import difflib
import math
import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin
from urllib.parse import urlsplit

import platformdirs
from msgspec import NODEFAULT, Meta, Struct, field
from msgspec.structs import fields

from quire.blobs import keys
from quire.model.errors import Misconfigured, Reject

FILE_NAME = "quire.toml"
PREFIX = "QUIRE_"
CONFIG_VARIABLE = "QUIRE_CONFIG"  # names the file; itself no key
DEFAULT = "default"
COMMAND_LINE = "the command line"
HOME_DEFAULT = "the user's data folder for quire"
DOCS = "docs/reference/settings.md"


class Secret:
    """Never shown by a message, table or repr. Not a Struct: msgspec must not encode it by accident."""

    __slots__ = ("_text",)

    def __init__(self, text: str = "") -> None:
        self._text = text

    def reveal(self) -> str:
        return self._text

    def __bool__(self) -> bool:
        return bool(self._text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Secret) and other._text == self._text

    def __hash__(self) -> int:
        return hash(self._text)

    def __repr__(self) -> str:
        return "set" if self._text else "not set"


def _about(description: str, **limits: Any) -> Meta:
    return Meta(description=description, **limits)


class S3(Struct, frozen=True, kw_only=True):
    bucket: Annotated[str, _about("bucket that holds the blobs; needed when store is s3")] = ""
    endpoint: Annotated[str, _about("URL of the S3 server; empty for AWS")] = ""
    region: Annotated[str, _about("region of the bucket", min_length=1)] = "us-east-1"
    access_key_id: Annotated[Secret, _about("name of the access key; goes with secret_access_key")] = Secret()
    secret_access_key: Annotated[Secret, _about("secret half of the access key; never shown")] = Secret()
    prefix: Annotated[str, _about("folder in the bucket under which all blobs are kept")] = ""
    allow_http: Annotated[bool, _about("permit an endpoint without TLS")] = False


class Preprocess(Struct, frozen=True, kw_only=True):
    tiff_quality: Annotated[int, _about("JPEG quality of pages made from TIFFs", ge=1, le=100)] = 95
    all_pages: Annotated[bool, _about("convert every page of a TIFF, not the first alone")] = True
    variant_quality: Annotated[int, _about("JPEG quality of the smaller copies", ge=1, le=100)] = 85
    max_megapixels: Annotated[int, _about("largest picture that is decoded", ge=1, le=100_000)] = 500
    public_url: Annotated[str, _about("how links to assets begin", min_length=1)] = "http://localhost:8787"
    tiff_timeout_seconds: Annotated[float, _about("longest time for one TIFF", gt=0, le=86_400)] = 60.0
    image_timeout_seconds: Annotated[float, _about("longest time for one picture", gt=0, le=86_400)] = 120.0
    memory_mb: Annotated[int, _about("memory one worker may use", ge=256, le=1 << 20)] = 2048
    max_attempts: Annotated[int, _about("failed attempts after which a file has failed", ge=1, le=100)] = 3


class Retries(Struct, frozen=True, kw_only=True):
    first_delay_seconds: Annotated[float, _about("wait before the second attempt", ge=0, le=86_400)] = 1.0
    longest_delay_seconds: Annotated[float, _about("the wait doubles up to this", ge=0, le=86_400)] = 30.0
    max_interruptions: Annotated[int, _about("stops of quire that a file survives", ge=1, le=10**6)] = 100


def _home() -> Path:
    return platformdirs.user_data_path("quire")


class Settings(Struct, frozen=True, kw_only=True):
    home: Annotated[Path, _about("folder of the database and of local blobs")] = field(default_factory=_home)
    workers: Annotated[int, _about("worker processes; 0 is one per usable core", ge=0, le=1024)] = 0
    store: Annotated[Literal["local", "s3"], _about("where the bytes live")] = "local"
    s3: S3 = S3()
    preprocess: Preprocess = Preprocess()
    retry: Retries = Retries()

    @property
    def worker_count(self) -> int:
        return self.workers or cores()


class Key(NamedTuple):
    """One setting: what messages, `quire doctor` and the reference page need to know of it."""

    name: str
    kind: Any
    limits: Meta
    default: str

    @property
    def variable(self) -> str:
        return PREFIX + self.name.replace(".", "_").upper()

    @property
    def description(self) -> str:
        return self.limits.description or ""

    @property
    def wanted(self) -> str:
        choices = " or ".join(f'"{choice}"' for choice in get_args(self.kind))
        return choices or _WANTED.get(self.kind, "text")


class Loaded(Struct, frozen=True, kw_only=True):
    """`sources` has every key: "default", the file, the variable or "the command line"."""

    settings: Settings
    sources: Mapping[str, str]
    file: Path | None = None

    def rows(self) -> list[tuple[str, str, str]]:
        """Key, value as people may see it, source."""
        return [(key.name, shown(_value(self.settings, key.name)), self.sources[key.name]) for key in KEYS]


_WANTED = {int: "a whole number", float: "a number", bool: "true or false", Path: "a path"}  # others: text
_SWITCH = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)


def shown(value: object) -> str:
    """A value for people's eyes; the default column of the reference page is written in the same way."""
    if isinstance(value, bool):
        return str(value).lower()
    return f"{value:.15g}" if isinstance(value, float) else _plain(str(value)) or "not set"


def _value(settings: Settings, name: str) -> Any:
    found: Any = settings
    for part in name.split("."):
        found = getattr(found, part)
    return found


def _plain(text: str) -> str:
    return text if text.isprintable() else ascii(text)


def _keys(table: type[Struct], prefix: str = "") -> Iterator[Key]:
    for one in fields(table):
        if get_origin(one.type) is Annotated:
            kind, limits = get_args(one.type)
            default = HOME_DEFAULT if one.default is NODEFAULT else shown(one.default)
            yield Key(prefix + one.name, kind, limits, default)
        else:
            yield from _keys(one.type, f"{one.name}.")


KEYS = tuple(_keys(Settings))
_BY_NAME = {key.name: key for key in KEYS}
_BY_VARIABLE = {key.variable: key.name for key in KEYS}
_TABLES: dict[str, Any] = {one.name: one.type for one in fields(Settings) if isinstance(one.type, type)}


def cores() -> int:
    """Those that this process may use: a container or `taskset` often gives fewer than the machine has."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def load_here(config: Path | None = None, overrides: Mapping[str, object] | None = None) -> Loaded:
    """`load` with this process's environment and current folder."""
    return load(os.environ, Path.cwd(), config, overrides)


def worker_environment() -> dict[str, str]:
    """What worker processes inherit: everything but our own variables, which hold secrets no step needs."""
    return {name: text for name, text in os.environ.items() if not name.startswith(PREFIX)}


def load(
    environment: Mapping[str, str],
    folder: Path,
    config: Path | None = None,
    overrides: Mapping[str, object] | None = None,
) -> Loaded:
    """Raises one Misconfigured that lists every problem.

    `overrides` has keys like `preprocess.tiff_quality`; None means that the option was not given. An empty
    variable counts as not set. Relative paths start at `folder`, those in the file at the file's folder.
    """
    reading = _Reading(folder)
    file = reading.file(environment, config)
    reading.variables(environment)
    for name, value in (overrides or {}).items():
        if value is not None:
            reading.take(name, value, COMMAND_LINE, folder, words=isinstance(value, str))
    settings = reading.settings()
    if reading.problems:
        listed = "".join(f"\n  - {problem}" for problem in reading.problems)
        raise Misconfigured(
            f"The settings cannot be used, so nothing was started. Correct this and run again:{listed}\n"
            f"All keys are described in {DOCS}.",
            code="bad_settings",
        )
    sources = {key.name: reading.sources.get(key.name, DEFAULT) for key in KEYS}
    return Loaded(settings=settings, sources=sources, file=file)


class _WrongError(Exception):
    """Not a value of the wanted kind; the text is the demand it fails."""


class _Reading:
    """Values, sources and problems on their way to one `Settings`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values: dict[str, Any] = {}
        self.sources: dict[str, str] = {}
        self.problems: list[str] = []
        self.doubtful: set[str] = set()  # keys with a problem of their own: no further conclusions from them

    def file(self, environment: Mapping[str, str], config: Path | None) -> Path | None:
        asked = config or environment.get(CONFIG_VARIABLE)
        path = self.folder / (asked or FILE_NAME)
        source = _plain(str(asked or FILE_NAME))
        try:
            for name, value in _entries(path).items():
                self._entry(name, value, source, path.parent)
        except (OSError, ValueError, RecursionError) as error:
            if isinstance(error, FileNotFoundError) and not asked:
                return None
            why = error.strerror if isinstance(error, OSError) else error
            self.problems.append(f"the file {source} cannot be read: {why}; correct the file or its path")
            self.doubtful.update(_BY_NAME)  # nothing can be said about how values go together
        return path

    def _entry(self, name: str, value: object, source: str, base: Path) -> None:
        if name in _TABLES and isinstance(value, dict):
            for inner, one in value.items():
                self.take(f"{name}.{inner}", one, source, base)
        elif name in _TABLES:
            self.problems.append(f"`{name}` in {source} must be a table: write [{name}] on a line of its own")
        elif isinstance(value, dict) and name not in _BY_NAME:
            self._unknown("table", f"[{name}]", source, [f"[{table}]" for table in _TABLES])
        else:
            self.take(name, value, source, base)

    def variables(self, environment: Mapping[str, str]) -> None:
        for variable, text in sorted(environment.items()):
            if variable in _BY_VARIABLE and text:
                self.take(_BY_VARIABLE[variable], text, variable, self.folder, words=True)
            elif variable.startswith(PREFIX) and variable not in {*_BY_VARIABLE, CONFIG_VARIABLE}:
                self._unknown("variable", variable, "the environment", [*_BY_VARIABLE, CONFIG_VARIABLE])

    def take(self, name: str, value: object, source: str, base: Path, *, words: bool = False) -> None:
        """`words`: the value is text whatever it means, as variables and options are."""
        key = _BY_NAME.get(name)
        if key is None:
            # Somebody who writes `bucket` outside its table means `s3.bucket`.
            inside = [known for known in _BY_NAME if known.rpartition(".")[2] == name]
            self._unknown("key", name, source, inside or list(_BY_NAME))
            return
        self.doubtful.discard(name)
        try:
            self.values[name] = _checked(key, _read(key, value, base, words=words))
            self.sources[name] = source
        except _WrongError as wrong:
            got = "a value that is not shown" if key.kind is Secret else _quoted(value)
            self.problems.append(f"{name} must be {wrong}, got {got} from {source}")
            self.doubtful.add(name)

    def _unknown(self, what: str, name: str, source: str, known: list[str]) -> None:
        near = known if len(known) == 1 else difflib.get_close_matches(name[:80], known, n=1)
        advice = f"did you mean `{near[0]}`?" if near else f"remove it, or look for its name in {DOCS}"
        self.problems.append(f"unknown {what} `{_plain(name[:80])}` in {source}; {advice}")

    def settings(self) -> Settings:
        top: dict[str, Any] = {}
        tables: dict[str, dict[str, Any]] = {table: {} for table in _TABLES}
        for name, value in self.values.items():
            table, _, part = name.rpartition(".")
            tables.get(table, top)[part] = value
        settings = Settings(**top, **{table: _TABLES[table](**given) for table, given in tables.items()})
        for involved, problem in _contradictions(settings):
            if self.doubtful.isdisjoint(involved):
                self.problems.append(problem)
        return settings


def _entries(path: Path) -> dict[str, object]:
    try:
        # utf-8-sig: some editors put a byte order mark in front, which TOML forbids.
        return tomllib.loads(path.read_bytes().decode("utf-8-sig"))
    except tomllib.TOMLDecodeError as error:
        raise ValueError(f"it is not valid TOML ({error})") from error
    except UnicodeDecodeError as error:
        raise ValueError("it is not UTF-8 text") from error


def _read(key: Key, value: object, base: Path, *, words: bool) -> Any:
    kind = key.kind
    if get_origin(kind) is Literal and value in get_args(kind):
        return value
    meant = _meaning(kind, value) if words and isinstance(value, str) else value
    if kind is Path and isinstance(meant, str | Path):
        return _path(meant, base)
    if kind is Secret and isinstance(meant, str):
        return Secret(meant)
    if kind is float and type(meant) is int and abs(meant) < 1 << 53:
        return float(meant)
    # The exact type: true is an int to Python, but not to the person who wrote it.
    if type(meant) is not kind or (isinstance(meant, float) and not math.isfinite(meant)):
        raise _WrongError(key.wanted)
    return meant


def _meaning(kind: Any, text: str) -> object:
    """What a word means where this kind is wanted; the word itself when it means nothing there."""
    word = text.strip()
    if kind is bool:
        return _SWITCH.get(word.lower(), text)
    if kind is int and re.fullmatch(r"[+-]?[0-9]{1,30}", word):
        return int(word)
    if kind is float and re.fullmatch(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?", word):
        return float(word)
    return text


def _path(value: str | Path, base: Path) -> Path:
    if not str(value) or "\0" in str(value):
        raise _WrongError("a path")
    try:
        return base / Path(value).expanduser()
    except RuntimeError as error:  # "~" of somebody who has no home folder here
        raise _WrongError("a path whose ~ names a known user") from error


def _checked(key: Key, value: Any) -> Any:
    least, above, most, length = key.limits.ge, key.limits.gt, key.limits.le, key.limits.min_length
    if least is not None and not least <= value <= (most or math.inf):
        raise _WrongError(f"{key.wanted} from {least} to {most}")
    if above is not None and not above < value <= (most or math.inf):
        raise _WrongError(f"{key.wanted} above {above} and at most {most}")
    if length is not None and len(value) < length:
        raise _WrongError("text that is not empty")
    return value


def _contradictions(settings: Settings) -> Iterator[tuple[tuple[str, ...], str]]:
    """Values that are of the right kind but cannot work, each with the keys it was concluded from."""
    s3, retry = settings.s3, settings.retry
    if settings.store == "s3" and not s3.bucket:
        problem = 'store is "s3" but s3.bucket is not set; name the bucket there or in QUIRE_S3_BUCKET'
        yield ("store", "s3.bucket"), problem
    if s3.bucket and not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}", s3.bucket):
        yield ("s3.bucket",), "s3.bucket is not the name of a bucket; write the name alone, no URL, no folder"
    pair = ("s3.access_key_id", "s3.secret_access_key")
    if bool(s3.access_key_id) != bool(s3.secret_access_key):
        there, absent = pair if s3.access_key_id else reversed(pair)
        yield pair, f"{there} is set but {absent} is not; set both, or neither"
    for name in ("s3.endpoint", "preprocess.public_url"):
        if not _is_address(_value(settings, name)):  # not quoted: people write passwords into addresses
            problem = f"{name} must be an http or https address without user name and password"
            yield (name,), f"{problem}, such as https://files.example.org"
    if settings.store == "s3" and s3.endpoint.lower().startswith("http:") and not s3.allow_http:
        problem = "s3.endpoint has no TLS, so others could read along; use https, or set s3.allow_http"
        yield ("store", "s3.endpoint", "s3.allow_http"), problem
    try:
        keys.folder(s3.prefix)
    except Reject as error:
        yield ("s3.prefix",), f"s3.prefix cannot be used: {error}"
    delays = ("retry.first_delay_seconds", "retry.longest_delay_seconds")
    if retry.first_delay_seconds > retry.longest_delay_seconds:
        yield delays, f"{delays[0]} is greater than {delays[1]}; lower the one or raise the other"


def _is_address(text: str) -> bool:
    """Or not set."""
    try:
        parts = urlsplit(text)
        named = bool(parts.hostname) and "@" not in parts.netloc and parts.port != 0
    except ValueError:
        return False
    return not text or (named and parts.scheme in {"http", "https"} and text.isprintable())


def _quoted(value: object) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > 100:
        return "a far larger number"
    text = ascii(value) if not str(value).isprintable() else repr(value)
    return text if len(text) <= 80 else f"{text[:76]}…"
