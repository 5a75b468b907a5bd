"""The preprocess pipeline as tables: what is found, what becomes of it, how things are named."""

import pytest

from quire.model.files import File, Product
from quire.model.work import StepResult
from quire.pipelines.preprocess import preprocess
from quire.pipelines.registry import PIPELINES
from quire.steps.registry import STEPS

PDF, TIFF, IMAGE = preprocess().phases
SPLIT = preprocess(pdf_split="both").phases[0]


def file(path="scans/p1.tif", content_type="image/tiff", tags=(), **more):
    name = path.rpartition("/")[2]
    return File(key=f"k/{path}", path=path, name=name, size=9, content_type=content_type, tags=tags, **more)


def jpegs(pages=1):
    return StepResult(
        products=tuple(
            Product(
                role="jpeg",
                key=f"out/{page}",
                size=5,
                content_type="image/jpeg",
                digest=f"d{page}",
                facts={"page": page, "pages": pages, "cid": f"bafk{page}"},
            )
            for page in range(1, pages + 1)
        )
    )


def variants(*roles):
    made = [
        Product(role=role, key=f"out/{role}", size=5, content_type="image/jpeg", digest="d") for role in roles
    ]
    ref = Product(role="ref", key="out/ref", size=7, content_type="application/json", digest="r")
    return StepResult(products=(*made, ref))


def paths(phase, source, result, existing=()):
    """The added paths, with `taken` worked out as the engine does."""
    rivals = {path.casefold() for path in phase.rivals(source, result)}
    taken = rivals & {path.casefold() for path in existing}
    return [added.file.path for added in phase.becomes(source, result, taken).added]


FOUND = [
    ("p1.tif", "image/tiff", (), "tiff"),
    ("p1.TIFF", "application/octet-stream", (), "tiff"),
    (".tif", "application/octet-stream", (), "tiff"),
    ("p1", "image/tiff", (), "tiff"),
    ("p1.tif.txt", "text/plain", (), None),
    ("p1.jpg", "image/jpeg", (), "img"),
    ("p1.jpg", "image/jpg", (), "img"),
    ("p1.png", "image/png", (), "img"),
    ("p1.webp", "Image/WebP", (), "img"),
    ("p1.gif", "image/gif", (), None),
    ("p1.bmp", "image/bmp", (), None),
    ("p1.jpg.ref.json", "application/json", (), None),
    ("p1.jpg.ref.json", "application/octet-stream", (), None),
    ("p1.pdf", "application/pdf", (), None),
    ("p1.jpg", "application/octet-stream", (), "img"),
    ("P1.JPG", "", (), "img"),
    ("p1.jpeg", "application/octet-stream", (), "img"),
    ("p1.png", "application/octet-stream", (), "img"),
    ("p1.webp", "binary/octet-stream", (), "img"),
    ("p1.gif", "application/octet-stream", (), None),
    ("p1.bmp", "application/octet-stream", (), None),
    ("p1.jpg.txt", "application/octet-stream", (), None),
    ("p1", "image/jpeg", (), "img"),
    ("p1", "application/octet-stream", (), None),
    ("p1.jpg", "image/tiff", (), "tiff"),
    ("x-p0001.jpg", "image/jpeg", ("PdfSplitter",), "img"),
    ("x-p0001.pdf", "application/pdf", ("PdfSplitter",), None),
    ("p1.jpg", "image/jpeg", ("TiffConverter",), "img"),
]


@pytest.mark.parametrize(("name", "content_type", "tags", "prefix"), FOUND)
def test_what_the_phases_find(name, content_type, tags, prefix):
    source = file(name, content_type, tags)

    assert [phase.task_prefix for phase in (PDF, TIFF, IMAGE) if phase.finds(source)] == (
        [prefix] if prefix else []
    )


def test_a_converted_source_is_not_processed_again():
    """A JPEG called scan.tif is converted, and then only its copy is processed."""
    assert not IMAGE.finds(file("scan.tif", "image/jpeg", ("TiffConverter:source",)))
    assert not IMAGE.finds(file("scan.jpg", "application/pdf", ("PdfSplitter:source",)))


def test_a_tiff_stays_marked_and_its_pages_join():
    source = file(tags=("mine",), processing_config={"ocr": True}, cid="bafytiff")
    change = TIFF.becomes(source, jpegs(2), ())

    assert change.kept.tags == ("mine", "TiffConverter:source")
    assert [added.listed for added in change.added] == [True, True]
    first, second = (added.file for added in change.added)
    assert (first.path, first.name, first.key, first.size, first.digest) == (
        "scans/p1.jpg",
        "p1.jpg",
        "out/1",
        5,
        "d1",
    )
    assert (second.path, second.name) == ("scans/p1-p002.jpg", "p1-p002.jpg")
    assert (first.cid, first.source_file, first.tags) == ("bafk1", "p1.tif", ("TiffConverter",))
    assert (first.content_type, first.processing_config) == ("image/jpeg", {"ocr": True})


def test_pages_are_named_by_their_number_whatever_the_order_of_the_report():
    shuffled = StepResult(products=tuple(reversed(jpegs(3).products)))

    added = TIFF.becomes(file(), shuffled, ()).added

    assert [(item.file.key, item.file.name) for item in added] == [
        ("out/1", "p1.jpg"),
        ("out/2", "p1-p002.jpg"),
        ("out/3", "p1-p003.jpg"),
    ]


COLLISIONS = [
    ("x.tif", 1, [], ["x.jpg"]),
    ("X.TIF", 1, [], ["X.jpg"]),
    ("x.tif", 1, ["other/x.jpg"], ["x.jpg"]),
    ("x.tif", 1, ["x.jpeg", "x.png"], ["x.jpg"]),
    ("x.tif", 1, ["x.jpg"], ["x.tif.jpg"]),
    ("x.tif", 1, ["X.JPG"], ["x.tif.jpg"]),
    ("x.tif", 1, ["x.tiff"], ["x.tif.jpg"]),
    ("x.tiff", 1, ["x.tif"], ["x.tiff.jpg"]),
    ("x.tif", 1, ["X.TIFF"], ["x.tif.jpg"]),
    ("x.tif", 2, ["x.jpg"], ["x.tif.jpg", "x.tif-p002.jpg"]),
    ("x.tif", 2, ["x-p002.jpg"], ["x.tif.jpg", "x.tif-p002.jpg"]),
    ("x.tif", 2, ["x-p002.tif"], ["x.tif.jpg", "x.tif-p002.jpg"]),
    ("x.tif", 1, ["x-p002.tif"], ["x.jpg"]),
    ("x-p002.tif", 1, ["x.tif"], ["x-p002.jpg"]),
    ("x.dat", 1, [], ["x.dat.jpg"]),
    ("x.dat", 1, ["x.tif"], ["x.dat.jpg"]),
    ("x", 1, [], ["x.jpg"]),
    ("x.tif", 1, ["x"], ["x.tif.jpg"]),
    ("a/x.tif", 1, ["a/x.jpg"], ["a/x.tif.jpg"]),
    ("a/x.tif", 1, ["x.jpg"], ["a/x.jpg"]),
    ("x.tif", 1000, [], ["x.jpg", *(f"x-p{page:03d}.jpg" for page in range(2, 1001))]),
]


@pytest.mark.parametrize(("path", "pages", "existing", "expected"), COLLISIONS)
def test_names_of_pages(path, pages, existing, expected):
    assert paths(TIFF, file(path), jpegs(pages), existing) == expected


def test_when_both_names_are_taken_a_mark_of_the_path_tells_them_apart():
    (path,) = paths(TIFF, file("x.tif"), jpegs(), ["x.jpg", "x.tif.jpg"])

    assert path.startswith("x.tif.")
    assert path.endswith(".jpg")
    assert len(path) == len("x.tif.") + 12 + len(".jpg")
    assert [path] == paths(TIFF, file("x.tif"), jpegs(), ["x.jpg", "x.tif.jpg"])


def test_a_picture_is_replaced_by_its_reference_with_copies_aside():
    source = file("scans/p1.jpg", "image/jpeg", ("TiffConverter",), source_file="p1.tif")
    change = IMAGE.becomes(source, variants("thumb", "medium", "large"), ())

    assert change.kept is None
    by_role = {added.role: added for added in change.added}
    assert {role: (added.file.path, added.listed) for role, added in by_role.items()} == {
        "thumb": ("scans/p1.jpg.thumb.jpg", False),
        "medium": ("scans/p1.jpg.medium.jpg", False),
        "large": ("scans/p1.jpg.large.jpg", False),
        "ref": ("scans/p1.jpg.ref.json", True),
    }
    reference = by_role["ref"].file
    assert (reference.name, reference.key, reference.size) == ("p1.jpg.ref.json", "out/ref", 7)
    assert (reference.content_type, reference.source_file) == ("application/json", "p1.jpg")
    assert reference.tags == ("ImageProcessor",)


def test_an_uploaded_reference_is_not_overwritten():
    source = file("p1.jpg", "image/jpeg")
    thumb, reference = paths(IMAGE, source, variants("thumb"), ["p1.jpg", "P1.jpg.ref.json"][1:])

    assert thumb == "p1.jpg.thumb.jpg"
    assert reference not in {"p1.jpg.ref.json", "P1.jpg.ref.json"}
    assert reference.startswith("p1.jpg.")
    assert reference.endswith(".ref.json")


def test_the_pipeline_is_the_contracts():
    assert PIPELINES["preprocess"]() == PIPELINES["preprocess"]()
    pipeline = preprocess(public_url="https://cdn.example", tiff_quality=80, all_pages=False, max_pixels=7)
    assert [(phase.name, phase.task_prefix, phase.step) for phase in pipeline.phases] == [
        ("PDF_SPLIT", "pdf", "pdf_split"),
        ("TIFF_CONVERSION", "tiff", "tiff_to_jpeg"),
        ("IMAGE_PROCESSING", "img", "image_variants"),
    ]
    assert [(phase.timeout_seconds, phase.memory_mb) for phase in pipeline.phases] == [
        (3600, 2048),
        (60, 2048),
        (120, 2048),
    ]
    _, tiff, image = pipeline.phases
    assert (tiff.options["quality"], tiff.options["all_pages"], tiff.options["max_pixels"]) == (80, False, 7)
    assert (image.options["public_url"], image.options["max_pixels"]) == ("https://cdn.example", 7)
    assert all(phase.cache_by == STEPS[phase.step].reads for phase in pipeline.phases)
    assert all(phase.step_version == STEPS[phase.step].version for phase in pipeline.phases)


def test_the_phases_options_are_those_of_their_steps():
    from quire.steps.image_variants import ImageVariantsOptions
    from quire.steps.pdf_split import PdfSplitOptions
    from quire.steps.tiff_to_jpeg import TiffToJpegOptions

    pairs = ((PDF, PdfSplitOptions), (TIFF, TiffToJpegOptions), (IMAGE, ImageVariantsOptions))
    for phase, options in pairs:
        assert phase.options.keys() <= set(options.__struct_fields__)


def pages(*roles, count=1):
    made = [
        Product(
            role=role,
            key=f"out/{role}/{page}",
            size=5,
            content_type={"page_image": "image/jpeg", "page_pdf": "application/pdf"}[role],
            digest="d",
            facts={"page": page, "pages": count, "cid": f"bafk{page}"},
        )
        for page in range(1, count + 1)
        for role in roles
    ]
    return StepResult(products=tuple(made))


ASKED = [
    # of the file, by the setting: are its pages wanted?
    ({}, "none", False),
    ({}, "images", True),
    ({"pdf_pages": None}, "none", False),
    ({"pdf_pages": "none"}, "both", False),
    ({"pdf_pages": "images"}, "none", True),
    ({"pdf_pages": "pdfs", "ocr": False}, "none", True),
    ({"pdf_pages": "jpegs"}, "none", True),  # so that the step can say what is wrong
    ({"pdf_pages": ["images"]}, "none", True),
]


@pytest.mark.parametrize(("config", "setting", "found"), ASKED)
def test_a_pdf_is_split_when_its_configuration_or_the_setting_says_so(config, setting, found):
    phase = preprocess(pdf_split=setting).phases[0]

    assert phase.finds(file("x.pdf", "application/pdf", processing_config=config)) is found


@pytest.mark.parametrize(
    ("name", "content_type", "tags", "found"),
    [
        ("x.pdf", "application/octet-stream", (), True),
        ("X.PDF", "", (), True),
        ("x", "Application/PDF", (), True),
        ("x.pdf.txt", "text/plain", (), False),
        ("x-p0001.pdf", "application/pdf", ("PdfSplitter",), False),
    ],
)
def test_a_pdf_is_recognised_by_name_or_type_and_its_pages_are_not_split_again(
    name, content_type, tags, found
):
    assert SPLIT.finds(file(name, content_type, tags)) is found


def test_a_pdf_stays_marked_and_its_pages_join():
    source = file("a/x.pdf", "application/pdf", ("mine",), processing_config={"pdf_pages": "both"})
    change = SPLIT.becomes(source, pages("page_pdf", "page_image", count=2), ())

    assert change.kept.tags == ("mine", "PdfSplitter:source")
    assert [(added.file.path, added.role, added.listed) for added in change.added] == [
        ("a/x-p0001.jpg", "page_image", True),
        ("a/x-p0001.pdf", "page_pdf", True),
        ("a/x-p0002.jpg", "page_image", True),
        ("a/x-p0002.pdf", "page_pdf", True),
    ]
    first = change.added[0].file
    assert (first.name, first.cid, first.source_file, first.tags) == (
        "x-p0001.jpg",
        "bafk1",
        "x.pdf",
        ("PdfSplitter",),
    )
    assert (first.content_type, first.processing_config) == ("image/jpeg", {"pdf_pages": "both"})
    assert IMAGE.finds(first)
    assert not SPLIT.finds(change.added[1].file)


PDF_NAMES = [
    ("x.pdf", 1, [], ["x-p0001.jpg"]),
    ("X.PDF", 1, [], ["X-p0001.jpg"]),
    ("x.pdf", 2, ["x-p0002.jpg"], ["x.pdf-p0001.jpg", "x.pdf-p0002.jpg"]),
    ("x.pdf", 1, ["x-p0002.jpg"], ["x-p0001.jpg"]),
    ("x.pdf", 1, ["X-P0001.PDF"], ["x.pdf-p0001.jpg"]),
    ("x.pdf", 1, ["x"], ["x.pdf-p0001.jpg"]),
    ("x.pdf", 1, ["x.pdf.pdf"], ["x-p0001.jpg"]),
    ("x.pdf.pdf", 1, ["x.pdf"], ["x.pdf.pdf-p0001.jpg"]),
    ("x", 1, [], ["x-p0001.jpg"]),
    ("x.dat", 1, [], ["x.dat-p0001.jpg"]),
    ("a/x.pdf", 1, ["x-p0001.jpg"], ["a/x-p0001.jpg"]),
]


@pytest.mark.parametrize(("path", "count", "existing", "expected"), PDF_NAMES)
def test_names_of_pages_of_pdfs(path, count, existing, expected):
    source = file(path, "application/pdf")

    assert paths(SPLIT, source, pages("page_image", count=count), existing) == expected


def test_five_thousand_pages_have_five_thousand_names():
    found = paths(SPLIT, file("x.pdf", "application/pdf"), pages("page_image", "page_pdf", count=5000))

    assert len(set(found)) == 10_000
    assert sorted(found) == sorted(found, key=str.casefold)
