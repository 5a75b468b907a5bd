"""Reads settings from the file, variables and options; collects all problems instead of stopping at one."""

import difflib
import math
import re
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from quire.settings.basics import Secret
from quire.settings.keys import BY_NAME, BY_VARIABLE, QUEUE_KEYS, TABLES, Key, to_printable
from quire.settings.references import read_reference
from quire.settings.rules import find_contradictions
from quire.settings.values import PREFIX, QueueSettings, Settings

FILE_NAME = "quire.toml"
QUEUES = "queues"  # a table of tables, one per queue
RESOURCES = "resources"  # a table of limits, by names that steps use
LARGEST_LIMIT = 100_000
CONFIG_VARIABLE = "QUIRE_CONFIG"  # names the file; itself no key
DOCS = "docs/reference/settings.md"

_SWITCH = dict.fromkeys(("true", "yes", "on", "1"), True) | dict.fromkeys(("false", "no", "off", "0"), False)
# Values that were allowed in earlier releases: the message says what to set instead.
_WITHDRAWN = {
    ("queue_store", "bucket"): (
        'queues in a bucket were removed; set "ledger" (the ledger\'s database, the default) or '
        '"redis". The PDF library is not affected: it keeps its own queue in its bucket'
    )
}


class _ValueError(Exception):
    """A value of the wrong kind; the text says what is expected. `part`: the wrong entry of a list."""

    def __init__(self, expected: str, part: object = None) -> None:
        super().__init__(expected)
        self.part = part


class SettingsReader:
    """Collects values, their sources and problems, and builds one `Settings`."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.values: dict[str, Any] = {}
        self.queues: dict[str, dict[str, Any]] = {}
        self.resources: dict[str, int] = {}
        self.sources: dict[str, str] = {}
        self.problems: list[str] = []
        self.doubtful: set[str] = set()  # keys with a problem of their own: no rules are checked on them

    def file(self, environment: Mapping[str, str], config: Path | None) -> Path | None:
        chosen = config or environment.get(CONFIG_VARIABLE)
        path = self.folder / (chosen or FILE_NAME)
        source = to_printable(str(chosen or FILE_NAME))
        try:
            for name, value in _entries(path).items():
                self._entry(name, value, source, path.parent)
        except (OSError, ValueError, RecursionError) as error:
            if isinstance(error, FileNotFoundError) and not chosen:
                return None
            why = error.strerror if isinstance(error, OSError) else error
            self.problems.append(f"the file {source} cannot be read: {why}; correct the file or its path")
            self.doubtful.update(BY_NAME)  # no rule between values can be checked
        return path

    def _entry(self, name: str, value: object, source: str, base: Path) -> None:
        if name == QUEUES:
            self._queues(value, source)
        elif name == RESOURCES:
            self._limits(value, source)
        elif name in TABLES and isinstance(value, dict):
            for inner, one in value.items():
                self.add(f"{name}.{inner}", one, source, base)
        elif name in TABLES:
            self.problems.append(f"`{name}` in {source} must be a table: write [{name}] on a line of its own")
        elif isinstance(value, dict) and name not in BY_NAME:
            self._unknown(
                "table", f"[{name}]", source, [f"[{table}]" for table in (*TABLES, QUEUES, RESOURCES)]
            )
        else:
            self.add(name, value, source, base)

    def _queues(self, value: object, source: str) -> None:
        tables = value if isinstance(value, dict) else {"": value}
        for queue, table in tables.items():
            if not isinstance(table, dict):
                problem = f"`{QUEUES}` in {source} holds a table for each queue"
                self.problems.append(f'{problem}: write [{QUEUES}."name"] on a line of its own')
                continue
            for name, one in table.items():
                self._tune(queue, name, one, source)

    def _tune(self, queue: str, name: str, value: object, source: str) -> None:
        full = f'{QUEUES}."{to_printable(queue[:80])}".{to_printable(name[:80])}'
        key = QUEUE_KEYS.get(name)
        if key is None:
            self._unknown(
                "key", full, source, [f'{QUEUES}."{to_printable(queue[:80])}".{one}' for one in QUEUE_KEYS]
            )
            return
        try:
            tuned = _check_limits(key, _read(key, value, self.folder, words=False))
        except _ValueError as wrong:
            self.problems.append(f"{full} must be {wrong}, got {_quote(value)} from {source}")
            return
        self.queues.setdefault(queue, {})[name] = tuned
        self.sources[full] = source

    def _limits(self, value: object, source: str) -> None:
        if not isinstance(value, dict):
            problem = f"`{RESOURCES}` in {source} must be a table"
            self.problems.append(f"{problem}: write [{RESOURCES}] on a line of its own")
            return
        for name, limit in value.items():
            full = f"{RESOURCES}.{to_printable(name[:80])}"
            if type(limit) is int and 1 <= limit <= LARGEST_LIMIT:
                self.resources[name] = limit
                self.sources[full] = source
            else:
                wanted = f"a whole number from 1 to {LARGEST_LIMIT}"
                self.problems.append(f"{full} must be {wanted}, got {_quote(limit)} from {source}")

    def variables(self, environment: Mapping[str, str]) -> None:
        # Sorted, so that a key's short variable comes before its full one, which then counts.
        for variable, text in sorted(environment.items()):
            if variable in BY_VARIABLE and text:
                self.add(BY_VARIABLE[variable], text, variable, self.folder, words=True)
            elif variable.startswith(PREFIX) and variable not in {*BY_VARIABLE, CONFIG_VARIABLE}:
                self._unknown("variable", variable, "the environment", [*BY_VARIABLE, CONFIG_VARIABLE])

    def fallbacks(self, environment: Mapping[str, str], variables: Mapping[str, Sequence[str]]) -> None:
        """Variables of other programs, by key: only for keys that are not set anywhere else."""
        for name, candidates in variables.items():
            variable = next((one for one in candidates if environment.get(one)), None)
            if variable is not None and name not in self.values and name not in self.doubtful:
                self.add(name, environment[variable], variable, self.folder, words=True)

    def add(self, name: str, value: object, source: str, base: Path, *, words: bool = False) -> None:
        """Check and keep a value. `words`: it comes as text, as in variables and options."""
        key = BY_NAME.get(name)
        if key is None:
            # `bucket` outside its table probably means `s3.bucket`.
            inside = [known for known in BY_NAME if known.rpartition(".")[2] == name]
            self._unknown("key", name, source, inside or list(BY_NAME))
            return
        self.doubtful.discard(name)
        try:
            self.values[name] = _check_limits(key, _read(key, value, base, words=words))
            self.sources[name] = source
        except _ValueError as wrong:
            shown = value if wrong.part is None else wrong.part
            got = "a value that is not shown" if key.kind is Secret else _quote(shown)
            withdrawn = _WITHDRAWN.get((name, value)) if isinstance(value, str) else None
            advice = f": {withdrawn}" if withdrawn else ""
            self.problems.append(f"{name} must be {wrong}, got {got} from {source}{advice}")
            self.doubtful.add(name)

    def _unknown(self, what: str, name: str, source: str, known: list[str]) -> None:
        near = known if len(known) == 1 else difflib.get_close_matches(name[:80], known, n=1)
        advice = f"did you mean `{near[0]}`?" if near else f"remove it, or look for its name in {DOCS}"
        self.problems.append(f"unknown {what} `{to_printable(name[:80])}` in {source}; {advice}")

    def settings(self) -> Settings:
        top: dict[str, Any] = {}
        tables: dict[str, dict[str, Any]] = {table: {} for table in TABLES}
        for name, value in self.values.items():
            table, _, part = name.rpartition(".")
            tables.get(table, top)[part] = value
        queues = {queue: QueueSettings(**given) for queue, given in self.queues.items()}
        tables_built = {table: TABLES[table](**given) for table, given in tables.items()}
        settings = Settings(**top, **tables_built, resources=self.resources, queues=queues)
        for involved, problem in find_contradictions(settings):
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
    if isinstance(meant, str) and (kind is Secret or key.name == "model"):
        return Secret(meant) if kind is Secret else _function(meant, base)
    if get_origin(kind) is tuple and isinstance(meant, list):
        return _references(meant, base) if kind == tuple[str, ...] else _numbers(meant, key)
    if kind is float and type(meant) is int and abs(meant) < 1 << 53:
        return float(meant)
    # The exact type: true is an int to Python, but not to the person who wrote it.
    if type(meant) is not kind or (isinstance(meant, float) and not math.isfinite(meant)):
        raise _ValueError(key.wanted)
    return meant


def _numbers(values: list[Any], key: Key) -> tuple[float, ...]:
    most = key.limits.le or math.inf
    if not values or not all(type(one) in {int, float} and 0 <= one <= most for one in values):
        raise _ValueError(f"a list of numbers from 0 to {most}")
    return tuple(map(float, values))


def _references(values: list[Any], base: Path) -> tuple[str, ...]:
    """References to pipelines, the only list of texts there is, with their files made absolute."""
    found = []
    for one in values:
        try:
            found.append(read_reference(one if isinstance(one, str) else "", base).write())
        except ValueError as error:
            raise _ValueError(f"a list whose entries are {error}", one) from error
    return tuple(dict.fromkeys(found))


def _function(text: str, base: Path) -> str:
    """A reference to a function, with its file made absolute; nothing stays nothing."""
    if not text:
        return text
    try:
        reference = read_reference(text, base)
    except ValueError:
        reference = None
    if reference is None or not reference.object_path or reference.expected is not None:
        raise _ValueError("file.py:function or module:function")
    return reference.write()


def _meaning(kind: Any, text: str) -> object:
    """Parse text as this kind; the text itself when that fails."""
    word = text.strip()
    if kind == tuple[str, ...]:
        return [part.strip() for part in text.split(",") if part.strip()]
    if kind is bool:
        return _SWITCH.get(word.lower(), text)
    if kind is int and re.fullmatch(r"[+-]?[0-9]{1,30}", word):
        return int(word)
    if kind is float and re.fullmatch(r"[+-]?[0-9]{1,30}(\.[0-9]{0,30})?", word):
        return float(word)
    return text


def _path(value: str | Path, base: Path) -> Path:
    if not str(value) or "\0" in str(value):
        raise _ValueError("a path")
    try:
        return base / Path(value).expanduser()
    except RuntimeError as error:  # "~" of a user without a home folder
        raise _ValueError("a path whose ~ names a known user") from error


def _check_limits(key: Key, value: Any) -> Any:
    least, above, most, length = key.limits.ge, key.limits.gt, key.limits.le, key.limits.min_length
    if least is not None and not least <= value <= (most or math.inf):
        raise _ValueError(f"{key.wanted} from {least} to {most}")
    if above is not None and not above < value <= (most or math.inf):
        raise _ValueError(f"{key.wanted} above {above} and at most {most}")
    if length is not None and len(value) < length:
        raise _ValueError("text that is not empty")
    return value


def _quote(value: object) -> str:
    if isinstance(value, dict | list):
        return "a table" if isinstance(value, dict) else "a list"
    if isinstance(value, int) and value.bit_length() > 100:
        return "a far larger number"
    text = ascii(value) if not str(value).isprintable() else repr(value)
    return text if len(text) <= 80 else f"{text[:76]}…"
