"""The preprocess pipeline as tables: what is found, what becomes of it, how things are named."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from quire.engine.flow import Settled, accepting, list_rivals, plan_effects
from quire.ledger.flow_values import BranchResult, ListedInput, TaskPlace
from quire.model.batch import TaskState
from quire.model.files import File, Product, fold
from quire.model.plan import digest_of
from quire.model.work import StepResult
from quire.pipelines.preprocess import build_preprocess
from quire.steps.registry import STEPS

PLAN = build_preprocess().plan()
SPLITTING = build_preprocess(pdf_split="both").plan()
PDF, TIFF, IMAGE = 1, 2, 3


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


def finds(plan, phase, source):
    return bool(accepting(plan.phases[phase - 1], source))


def becomes(phase, source, result, existing=(), plan=SPLITTING):
    """What the results of a phase do to a file, with these other inputs in the list."""
    inputs = [source, *(existing if existing and isinstance(existing[0], File) else map(file, existing))]
    listed = {}
    for no, one in enumerate(inputs, start=1):
        listed.setdefault(fold(one.path), []).append(ListedInput(no, fold(one.path), one))
    place = TaskPlace(phase, 0, 1, 1, "", 0, None)
    settled = Settled(place, source, (BranchResult(0, TaskState.DONE, 1, result, "", ""),))
    asked = {path: listed[path] for path in list_rivals(plan, settled) if path in listed}
    effects, doubts = plan_effects(plan, settled, asked)
    assert doubts == []
    return effects


def paths(phase, source, result, existing=()):
    """The paths of what was made, without the source itself."""
    made = becomes(phase, source, result, existing).new_files
    return [new.file.path for new in made if new.role != "kept"]


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

    found = [phase.task_prefix for phase in PLAN.phases if accepting(phase, source)]
    assert found == ([prefix] if prefix else [])


def test_a_converted_source_is_not_processed_again():
    """A JPEG called scan.tif is converted, and then only its copy is processed."""
    assert not finds(PLAN, IMAGE, file("scan.tif", "image/jpeg", ("TiffConverter:source",)))
    assert not finds(PLAN, IMAGE, file("scan.jpg", "application/pdf", ("PdfSplitter:source",)))


def test_a_tiff_stays_marked_and_its_pages_join():
    source = file(tags=("mine",), processing_config={"ocr": True}, cid="bafytiff")
    effects = becomes(TIFF, source, jpegs(2))

    assert effects.leaves
    assert [(new.role, new.listed) for new in effects.new_files] == [
        ("jpeg", True),
        ("jpeg", True),
        ("kept", True),
    ]
    first, second, kept = (new.file for new in effects.new_files)
    assert (kept.path, kept.key, kept.tags) == (source.path, source.key, ("mine", "TiffConverter:source"))
    assert [follower.phase for follower in effects.followers] == [IMAGE, IMAGE]
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

    made = becomes(TIFF, file(), shuffled).new_files

    assert sorted((new.file.key, new.file.name) for new in made if new.role == "jpeg") == [
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
    ("x.tif", 2, ["x.jpg"], ["x.tif.jpg", "x-p002.jpg"]),
    ("x.tif", 2, ["x-p002.jpg"], ["x.jpg", "x.tif.p002.jpg"]),
    ("x.tif", 2, ["x-p002.tif"], ["x.jpg", "x.tif.p002.jpg"]),
    ("x.tif", 1, ["x-p002.tif"], ["x.jpg"]),
    ("x-p002.tif", 1, ["x.tif"], ["x-p002.tif.jpg"]),  # which x.tif could want for its second page
    ("a.tif", 1, ["a.tiff", "A.TIF"], None),
    ("a.tiff", 1, ["a.tif", "A.TIF"], ["a.tiff.jpg"]),
    ("x.tif", 1, ["x.pdf"], ["x.jpg"]),
    ("x-p0001.tif", 1, ["x.pdf"], ["x-p0001.tif.jpg"]),
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
    found = paths(TIFF, file(path), jpegs(pages), existing)

    if expected is None:  # inputs that differ in case alone are always marked
        assert found[0].startswith(f"{path}.")
        assert len(found[0]) == len(path) + len(".") + 12 + len(".jpg")
    else:
        assert found == expected


def test_when_both_names_are_taken_a_mark_of_the_path_tells_them_apart():
    (path,) = paths(TIFF, file("x.tif"), jpegs(), ["x.jpg", "x.tif.jpg"])

    assert path.startswith("x.tif.")
    assert path.endswith(".jpg")
    assert len(path) == len("x.tif.") + 12 + len(".jpg")
    assert [path] == paths(TIFF, file("x.tif"), jpegs(), ["x.jpg", "x.tif.jpg"])


def test_a_picture_is_replaced_by_its_reference_with_copies_aside():
    source = file("scans/p1.jpg", "image/jpeg", ("TiffConverter",), source_file="p1.tif")
    effects = becomes(IMAGE, source, variants("thumb", "medium", "large", "tiles"))

    assert effects.leaves
    assert effects.followers == ()
    by_role = {new.role: new for new in effects.new_files}
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
    assert build_preprocess().plan() == PLAN
    pipeline = build_preprocess(
        public_url="https://cdn.example", tiff_quality=80, all_pages=False, max_pixels=7
    ).plan()
    assert digest_of(pipeline) == digest_of(PLAN), "settings do not make another pipeline of it"
    assert [(phase.name, phase.task_prefix, phase.steps[0].step) for phase in pipeline.phases] == [
        ("PDF_SPLIT", "pdf", "pdf_split"),
        ("TIFF_CONVERSION", "tiff", "tiff_to_jpeg"),
        ("IMAGE_PROCESSING", "img", "image_variants"),
    ]
    steps = [phase.steps[0] for phase in pipeline.phases]
    assert [(step.timeout_seconds, step.memory_mb) for step in steps] == [
        (3600, 2048),
        (60, 2048),
        (120, 2048),
    ]
    _, tiff, image = steps
    assert (tiff.options["quality"], tiff.options["all_pages"], tiff.options["max_pixels"]) == (80, False, 7)
    assert (image.options["public_url"], image.options["max_pixels"]) == ("https://cdn.example", 7)
    assert all(step.cache_by == STEPS[step.step].reads for step in steps)
    assert all(step.version == STEPS[step.step].version for step in steps)


def test_the_phases_options_are_those_of_their_steps():
    from quire.steps.image_variants import ImageVariantsOptions
    from quire.steps.pdf_split import PdfSplitOptions
    from quire.steps.tiff_to_jpeg import TiffToJpegOptions

    known = (PdfSplitOptions, TiffToJpegOptions, ImageVariantsOptions)
    for phase, options in zip(PLAN.phases, known, strict=True):
        assert phase.steps[0].options.keys() <= set(options.__struct_fields__)


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
    plan = build_preprocess(pdf_split=setting).plan()

    assert finds(plan, PDF, file("x.pdf", "application/pdf", processing_config=config)) is found


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
    assert finds(SPLITTING, PDF, file(name, content_type, tags)) is found


def test_a_pdf_stays_marked_and_its_pages_join():
    source = file("a/x.pdf", "application/pdf", ("mine",), processing_config={"pdf_pages": "both"})
    made = becomes(PDF, source, pages("page_image", "page_pdf", count=2)).new_files

    assert [(new.file.path, new.role, new.listed) for new in made] == [
        ("a/x-p0001.jpg", "page_image", True),
        ("a/x-p0001.pdf", "page_pdf", True),
        ("a/x-p0002.jpg", "page_image", True),
        ("a/x-p0002.pdf", "page_pdf", True),
        ("a/x.pdf", "kept", True),
    ]
    assert made[-1].file.tags == ("mine", "PdfSplitter:source")
    first = made[0].file
    assert (first.name, first.cid, first.source_file, first.tags) == (
        "x-p0001.jpg",
        "bafk1",
        "x.pdf",
        ("PdfSplitter",),
    )
    assert (first.content_type, first.processing_config) == ("image/jpeg", {"pdf_pages": "both"})
    assert finds(SPLITTING, IMAGE, first)
    assert not finds(SPLITTING, PDF, made[1].file)


PDF_NAMES = [
    ("x.pdf", 1, [], ["x-p0001.jpg"]),
    ("X.PDF", 1, [], ["X-p0001.jpg"]),
    ("x.pdf", 2, ["x-p0002.jpg"], ["x-p0001.jpg", "x.pdf.p0002.jpg"]),
    ("x.pdf", 1, ["x-p0002.jpg"], ["x-p0001.jpg"]),
    ("x.pdf", 1, ["X-P0001.PDF"], ["x-p0001.jpg"]),
    ("x.pdf", 1, ["x-p0001.tif"], ["x.pdf.p0001.jpg"]),
    ("x.pdf", 1, ["x.tif"], ["x-p0001.jpg"]),
    ("x.pdf", 1, ["x"], ["x.pdf.p0001.jpg"]),
    ("x.pdf", 1, ["x.pdf.pdf"], ["x-p0001.jpg"]),
    ("x.pdf.pdf", 1, ["x.pdf"], ["x.pdf.pdf.p0001.jpg"]),
    ("x", 1, [], ["x.p0001.jpg"]),
    ("x.dat", 1, [], ["x.dat.p0001.jpg"]),
    ("a/x.pdf", 1, ["x-p0001.jpg"], ["a/x-p0001.jpg"]),
]


@pytest.mark.parametrize(("path", "count", "existing", "expected"), PDF_NAMES)
def test_names_of_pages_of_pdfs(path, count, existing, expected):
    source = file(path, "application/pdf")

    assert paths(PDF, source, pages("page_image", count=count), existing) == expected


def test_five_thousand_pages_have_five_thousand_names():
    found = paths(PDF, file("x.pdf", "application/pdf"), pages("page_image", "page_pdf", count=5000))

    assert len(set(found)) == 10_000
    assert sorted(found) == sorted(found, key=str.casefold)


# Few letters and many endings: collisions are the rule here, not the exception.
NAMES = st.lists(
    st.tuples(
        st.sampled_from(
            ["x", "X", "x.tif", "x-p002", "x-P0001", "x.pdf", "x.tif.p002", "x.pdf.p0001", "ß", "ss", ".tif"]
        ),
        st.sampled_from(
            [
                "",
                ".tif",
                ".TIF",
                ".tiff",
                ".jpg",
                ".pdf",
                ".PDF",
                ".dat",
                "-p002.tif",
                "-p0001.pdf",
                ".jpg.tif",
            ]
        ),
    ).map("".join),
    unique=True,
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(names=NAMES, folder=st.sampled_from(["", "scans/"]), data=st.data())
def test_pages_never_collide_whatever_names_people_choose(names, folder, data):
    """What is neither a JPEG nor called a PDF is a TIFF here, named so or not; all of up to three pages."""
    files = [file(f"{folder}{name}", _type_of(name)) for name in names]
    made = []
    for one in files:
        count = data.draw(st.integers(1, 3))
        if one.content_type == "application/pdf":
            made += paths(PDF, one, pages("page_image", "page_pdf", count=count), _others(one, files))
        elif one.content_type == "image/tiff":
            made += paths(TIFF, one, jpegs(count), _others(one, files))
        else:
            made += paths(IMAGE, one, variants("thumb"), _others(one, files))

    assert len({fold(path) for path in made}) == len(made)
    assert not {fold(path) for path in made} & {fold(one.path) for one in files}


def _type_of(name):
    known = {".jpg": "image/jpeg", ".pdf": "application/pdf"}
    return known.get(name[-4:].lower(), "image/tiff")


def _others(one, files):
    return [other for other in files if other is not one]
