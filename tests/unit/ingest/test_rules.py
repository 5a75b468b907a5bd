"""What a sender may say: each rule with its words, and what no sender can make of them."""

import json
import math
import posixpath
import re
import unicodedata

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from quire.blobs import keys
from quire.ingest.context import IngestLimits
from quire.ingest.rules import (
    MAX_WHOLE,
    PROMPTS,
    ROOT_PARENT,
    BatchRequest,
    FileRequest,
    content_type,
    read_batch_request,
    read_file_request,
    read_logical_path,
    read_processing_config,
)
from quire.model.errors import Reject

BATCH = "01KA0000000000000000000000"
LIMITS = IngestLimits()
CONFIG = {"ocr": True, "describe": False, "pinax": True}
INIT = {"uploader": "ana@example.org", "root_path": "/fonds", "file_count": 3, "total_size": 14680064}
START = {
    "file_name": "a.txt",
    "file_size": 3,
    "logical_path": "/fonds/a.txt",
    "content_type": "text/plain",
    "processing_config": CONFIG,
}
GONE = object()

UPLOADER = "Missing or invalid uploader"
ROOT = "Missing or invalid root_path"
COUNT = "Invalid file_count"
SIZE = "Invalid total_size"
PARENT = "Invalid parent_pi format (must be 26-character ULID)"
DOTS = "it must not contain . or .. segments"
LETTERS = 'it must not contain any of < > : " | ? * \\ or control characters'
BIDI = "it must not contain characters that change the direction of writing"
LONG = "a segment is longer than 255 bytes"
OBJECT = "Invalid JSON body (must be an object)"
NO_PATH = "Missing or invalid logical_path (must start with /)"
RESERVED = "Invalid logical_path: this name is reserved for the manifest"
LAST = "Invalid logical_path: its last segment must be file_name"
KNOWN = "general, reorganization, pinax, description, cheimarros"


def said(base, field, value):
    changed = dict(base)
    if value is GONE:
        changed.pop(field, None)
    else:
        changed[field] = value
    return changed


def refusal(call, *arguments):
    with pytest.raises(Reject) as caught:
        call(*arguments)
    assert caught.value.code == "bad_request"
    return str(caught.value)


def tried(call, *arguments):
    """What it gives, or None when it is refused, with words that can be sent. Nothing else may happen."""
    try:
        return call(*arguments)
    except Reject as error:
        str(error).encode()
        return None


def nested(levels):
    made = {}
    for _ in range(levels):
        made = {"in": made}
    return made


INIT_REFUSED = [
    *[
        ("uploader", value, UPLOADER)
        for value in (GONE, None, "", " \t", 7, [], {}, True, "a\x00b", "x" * 1025)
    ],
    *[("root_path", value, ROOT) for value in (GONE, None, "", "fonds", 7, ["/"], "\\fonds", " /fonds")],
    *[("root_path", value, f"{ROOT}: {DOTS}") for value in ("/a/../b", "/..", "/.", "/a/./b", "//..//")],
    *[("root_path", f"/a{one}b", f"{ROOT}: {LETTERS}") for one in '<>:"|?*\\\x00\n\x1f\x7f\x85'],
    *[("root_path", f"/a{one}b", f"{ROOT}: {BIDI}") for one in "\u202e\u2066\u200f\u061c"],
    ("root_path", "/" + "é" * 128, f"{ROOT}: {LONG}"),
    *[("file_count", value, COUNT) for value in (GONE, None, 0, -1, "3", True, 1.5, [], MAX_WHOLE + 1)],
    *[("total_size", value, SIZE) for value in (GONE, None, 0, -1, "3", True, 0.5, {}, math.inf, math.nan)],
    *[
        ("parent_pi", value, PARENT)
        for value in ("x", "0" * 25, "0" * 27, "01ka" + "0" * 22, 0, False, [], {}, "0" * 26 + "\n", "é" * 26)
    ],
    ("total_size", 107_374_182_401, "Batch size 107374182401 exceeds maximum 107374182400"),
    ("file_count", 1_000_001, "file_count 1000001 exceeds maximum 1000000"),
    *[("metadata", value, "Invalid metadata (must be an object)") for value in ("x", 1, [], True, 0, "")],
    ("metadata", nested(33), "Invalid metadata: nested too deep, or not text"),
    ("metadata", {"\ud800": 1}, "Invalid metadata: nested too deep, or not text"),
    *[
        ("custom_prompts", value, "Invalid custom_prompts (must be an object)")
        for value in ("x", 1, [], False, "")
    ],
    (
        "custom_prompts",
        {"General": "x"},
        f"Invalid custom_prompts: unknown field 'General'; known are {KNOWN}",
    ),
    *[
        ("custom_prompts", {"pinax": value}, "Invalid custom_prompts: pinax must be text")
        for value in (None, 1, ["x"], "a\x00b", "\ud800")
    ],
    ("custom_prompts", {"pinax": "x" * 60_001}, "Invalid custom_prompts: pinax exceeds 60000 characters"),
    (
        "custom_prompts",
        {"pinax": "x" * 40_001, "general": "y" * 40_000},
        "Invalid custom_prompts: together they exceed 80000 characters",
    ),
]


@pytest.mark.parametrize(("field", "value", "words"), INIT_REFUSED)
def test_an_opening_is_refused_with_the_words_of_its_rule(field, value, words):
    assert refusal(read_batch_request, said(INIT, field, value), LIMITS) == words


INIT_TAKEN = [
    ("root_path", "/", "/"),
    ("root_path", "//fonds//box 7/", "/fonds/box 7"),
    ("root_path", "/…/...", "/…/..."),
    ("root_path", "/.hidden", "/.hidden"),
    ("file_count", 3.0, 3),
    ("file_count", 1_000_000, 1_000_000),
    ("total_size", 107_374_182_400, 107_374_182_400),
    ("parent_pi", GONE, ROOT_PARENT),
    ("parent_pi", None, ROOT_PARENT),
    ("parent_pi", "", ROOT_PARENT),
    ("parent_pi", BATCH, BATCH),
    ("parent_pi", "Z" * 26, "Z" * 26),
    ("metadata", GONE, {}),
    ("metadata", None, {}),
    ("metadata", {"shelf": ["B7", None, 1.5, {"é": 10**30}]}, {"shelf": ["B7", None, 1.5, {"é": 10**30}]}),
    ("metadata", nested(31), nested(31)),
    ("custom_prompts", None, {}),
    ("custom_prompts", {"general": ""}, {"general": ""}),
    ("custom_prompts", {"pinax": "é" * 60_000}, {"pinax": "é" * 60_000}),
    ("custom_prompts", dict.fromkeys(PROMPTS, "é" * 16_000), dict.fromkeys(PROMPTS, "é" * 16_000)),
]


@pytest.mark.parametrize(("field", "value", "kept"), INIT_TAKEN)
def test_an_opening_is_taken_at_the_edge_of_its_rule(field, value, kept):
    base = INIT | {"parent_pi": ""}
    assert getattr(read_batch_request(said(base, field, value), LIMITS), field) == kept


def test_of_several_faults_the_first_in_the_protocols_order_is_told():
    """And each as soon as those before it are mended."""
    wrong = {
        "uploader": "",
        "root_path": "x",
        "file_count": 0,
        "total_size": 0,
        "parent_pi": "x",
        "custom_prompts": 1,
    }
    mended = [
        ("uploader", "ana", UPLOADER),
        ("root_path", "/", ROOT),
        ("file_count", 1, COUNT),
        ("total_size", 10**12, SIZE),
        ("parent_pi", "", PARENT),
        ("total_size", 1, "Batch size 1000000000000 exceeds maximum 107374182400"),
        ("custom_prompts", {}, "Invalid custom_prompts (must be an object)"),
    ]
    for field, good, words in mended:
        assert refusal(read_batch_request, wrong, LIMITS) == words
        wrong = wrong | {field: good}
    assert read_batch_request(wrong, LIMITS)


@pytest.mark.parametrize("value", [None, [], "x", 1, True, 1.5])
def test_what_is_no_object_is_refused(value):
    assert refusal(read_batch_request, value, LIMITS) == OBJECT
    assert refusal(read_file_request, value, BATCH, LIMITS) == OBJECT


def test_unknown_fields_do_no_harm():
    assert read_batch_request(INIT | {"node_pis": [1]}, LIMITS) == read_batch_request(INIT, LIMITS)


NAME = "Missing or invalid file_name"
FILE_SIZE = "Invalid file_size"
CONFIG_MISSING = "Missing or invalid processing_config"
CONFIG_LARGE = "Invalid processing_config: more than 16384 bytes, or nested too deep"
CONFIG_PAGES = "Invalid processing_config: pdf_pages must be one of images, pdfs, both, none"


def switch(name):
    return f"Invalid processing_config: {name} must be true or false"


START_REFUSED = [
    *[
        ("file_name", value, NAME)
        for value in (GONE, None, "", " ", 1, [], "a\x00.txt", "\ud800", "x" * 1025)
    ],
    *[("file_size", value, FILE_SIZE) for value in (GONE, None, 0, -1, "3", True, 2.5, 2**53, math.nan)],
    ("file_size", 5_368_709_121, "File size 5368709121 exceeds maximum 5368709120"),
    *[("logical_path", value, NO_PATH) for value in (GONE, None, "", "a.txt", 5, ["/a.txt"], "../a.txt")],
    *[("logical_path", value, "Invalid logical_path: it names no file") for value in ("/", "//", "///")],
    *[
        ("logical_path", value, f"Invalid logical_path: {DOTS}")
        for value in ("/../a.txt", "/x/../../a.txt", "/./a.txt", "/x/..", "/.", "//..//a.txt")
    ],
    *[
        ("logical_path", f"/x{one}/a.txt", f"Invalid logical_path: {LETTERS}")
        for one in '<>:"|?*\\\x00\r\x9b'
    ],
    *[
        ("logical_path", f"/x{one}/a.txt", f"Invalid logical_path: {BIDI}")
        for one in "\u202a\u2069\u200e\ud800"
    ],
    ("logical_path", f"/{'x' * 256}/a.txt", f"Invalid logical_path: {LONG}"),
    *[("logical_path", value, LAST) for value in ("/a.txt/b", "/b.txt", "/A.txt", "/fonds/ a.txt")],
    *[
        ("content_type", value, "Missing or invalid content_type")
        for value in (1, [], "é", "a\nb", "x" * 256)
    ],
    *[("cid", value, "Invalid cid") for value in (1, [], {}, "x" * 201, "a\nb", "\ud800", False)],
    *[("processing_config", value, CONFIG_MISSING) for value in (GONE, None, [], "x", True)],
    ("processing_config", {}, switch("ocr")),
    *[("processing_config", CONFIG | {"ocr": value}, switch("ocr")) for value in (None, 1, "true")],
    ("processing_config", {"ocr": True, "pinax": True}, switch("describe")),
    ("processing_config", CONFIG | {"pinax": 0}, switch("pinax")),
    ("processing_config", CONFIG | {"reorganize": None}, switch("reorganize")),
    ("processing_config", CONFIG | {"cheimarros": "no"}, switch("cheimarros")),
    *[
        ("processing_config", CONFIG | {"pdf_pages": value}, CONFIG_PAGES)
        for value in ("", "jpegs", True, ["images"])
    ],
    ("processing_config", CONFIG | {"more": "x" * 16_384}, CONFIG_LARGE),
    ("processing_config", CONFIG | {"more": nested(40)}, CONFIG_LARGE),
    ("processing_config", CONFIG | {"more": "\ud800"}, CONFIG_LARGE),
]


@pytest.mark.parametrize(("field", "value", "words"), START_REFUSED)
def test_an_announcement_is_refused_with_the_words_of_its_rule(field, value, words):
    assert refusal(read_file_request, said(START, field, value), BATCH, LIMITS) == words


@pytest.mark.parametrize("name", ["_manifest.json", "_manifest.original.json"])
def test_the_manifests_names_are_reserved_at_the_top_alone(name):
    for path in (f"/{name}", f"//{name}", f"/{name}/"):
        assert (
            refusal(read_file_request, START | {"file_name": name, "logical_path": path}, BATCH, LIMITS)
            == RESERVED
        )
    below = f"/fonds/{name}"
    assert read_file_request(START | {"file_name": name, "logical_path": below}, BATCH, LIMITS).path == below


def test_a_path_that_is_too_long_for_a_key_is_refused():
    path = "/" + "/".join(["x" * 200] * 6)
    assert "is longer than 1024 bytes" in refusal(read_logical_path, path, BATCH)


START_TAKEN = [
    ("file_size", 1, "size", 1),
    ("file_size", 5_368_709_120, "size", 5_368_709_120),
    ("logical_path", "//fonds///a.txt", "path", "/fonds/a.txt"),
    ("logical_path", "/a b/é+#%25/a.txt", "path", "/a b/é+#%25/a.txt"),
    ("logical_path", "/.../~/a.txt", "path", "/.../~/a.txt"),
    ("content_type", GONE, "content_type", "application/octet-stream"),
    ("content_type", "", "content_type", "application/octet-stream"),
    ("cid", None, "cid", None),
    ("cid", "", "cid", None),
    ("cid", "anything at all", "cid", "anything at all"),
    ("processing_config", CONFIG, "config", CONFIG),
    *[
        ("processing_config", CONFIG | {"pdf_pages": value}, "config", CONFIG | {"pdf_pages": value})
        for value in ("images", "pdfs", "both", "none", None)
    ],
    (
        "processing_config",
        CONFIG | {"reorganize": False, "x": [1]},
        "config",
        CONFIG | {"reorganize": False, "x": [1]},
    ),
]


@pytest.mark.parametrize(("field", "value", "where", "kept"), START_TAKEN)
def test_an_announcement_is_taken_at_the_edge_of_its_rule(field, value, where, kept):
    base = START | {"cid": "bafkrei"}
    assert getattr(read_file_request(said(base, field, value), BATCH, LIMITS), where) == kept


@pytest.mark.parametrize("name", ["a.bin", "scan", ".tif", "a.tif.exe", "a."])
def test_the_strict_mode_names_the_extension_that_it_refuses(name):
    strict = IngestLimits(allowed_extensions=(".tif", ".jpg"))
    ending = {"scan": "(none)", ".tif": "(none)", "a.bin": ".bin", "a.tif.exe": ".exe", "a.": "."}[name]
    words = refusal(read_file_request, START | {"file_name": name, "logical_path": f"/{name}"}, BATCH, strict)
    assert words == f"File extension {ending} is not allowed; allowed are .tif .jpg"
    good = START | {"file_name": "A.TIF", "logical_path": "/A.TIF"}
    assert read_file_request(good, BATCH, strict).name == "A.TIF"


_ANY_TEXT = st.text(st.characters(), max_size=30)
_ODD = st.sampled_from(
    [
        ".",
        "..",
        "...",
        "",
        "\x00",
        "\u202e",
        "\\",
        "a:b",
        "_manifest.json",
        "e\u0301",
        "é",
        "\ud800",
        "x" * 300,
    ]
)
_PATHS = st.lists(_ODD | _ANY_TEXT, max_size=8).map("/".join).map(lambda path: f"/{path}") | _ANY_TEXT
_BIDI = {"LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI"}


@given(_PATHS)
@example("/" + "/".join(["é" * 127] * 4))
@example("/.tmp/a")
def test_whatever_path_is_let_through_is_a_key_below_the_batch(path):
    if (kept := tried(read_logical_path, path, BATCH)) is None:
        return
    key = f"staging/{BATCH}{kept}"
    assert keys.check(key) == key
    assert posixpath.normpath(key) == key
    assert key.startswith(f"staging/{BATCH}/")
    assert not {".", "..", ""} & set(kept[1:].split("/"))
    assert not any(unicodedata.category(one) in {"Cc", "Cs"} for one in kept)
    assert not any(unicodedata.bidirectional(one) in _BIDI for one in kept)
    assert not re.search(r'[<>:"|?*\\\u061c\u200e\u200f]', kept)
    assert read_logical_path(kept, BATCH) == kept


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | _ANY_TEXT | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(_ANY_TEXT, inner, max_size=4),
    max_leaves=8,
)
_quick = settings(suppress_health_check=[HealthCheck.too_slow], deadline=None)


def _bodies(base, more=()):
    """A good body of which some fields are anything at all, or are not there."""
    fields = {name: st.just(value) | _JSON for name, value in base.items()}
    return st.fixed_dictionaries({}, optional=fields | dict.fromkeys(more, _JSON)) | _JSON


@_quick
@given(_bodies(INIT, ("parent_pi", "metadata", "custom_prompts")))
@example(INIT | {"metadata": nested(5000)})
@example(INIT | {"metadata": {"a": [[[["\ud800"]]]]}})
@example(INIT | {"total_size": 1e308, "file_count": 10**400})
def test_whatever_is_said_to_open_a_batch_gives_a_value_or_a_refusal(body):
    if (made := tried(read_batch_request, body, LIMITS)) is None:
        return
    assert isinstance(made, BatchRequest)
    assert 0 < made.total_size <= LIMITS.max_batch_bytes
    assert json.dumps(made.metadata, ensure_ascii=False).encode()


@_quick
@given(_bodies(START, ("cid",)))
@example(START | {"processing_config": CONFIG | {"x": nested(5000)}})
@example(START | {"file_size": 10**400})
def test_whatever_is_announced_gives_a_value_or_a_refusal(body):
    if (made := tried(read_file_request, body, BATCH, LIMITS)) is None:
        return
    assert isinstance(made, FileRequest)
    assert made.path.endswith(f"/{made.name}")
    assert 0 < made.size <= LIMITS.max_file_bytes


@given(_JSON)
def test_whatever_is_said_of_one_field_gives_a_value_or_a_refusal(value):
    tried(content_type, value)
    tried(read_processing_config, value)
    tried(read_logical_path, value, BATCH)
