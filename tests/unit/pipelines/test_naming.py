"""No two files of a list get the same path, whatever names people choose."""

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from quire.model.files import File
from quire.pipelines import naming

# Few letters and many endings: collisions are the rule here, not the exception.
NAMES = st.lists(
    st.tuples(
        st.sampled_from(["x", "X", "x.tif", "x-p002", "x-P002", "x.tif-p002", "x.tiff", "ß", "ss", ".tif"]),
        st.sampled_from(["", ".tif", ".TIF", ".tiff", ".jpg", ".dat", "-p002.tif", ".tif.tif", ".jpg.tif"]),
    ).map("".join),
    unique=True,
    min_size=1,
    max_size=12,
)


def listed(name, folder):
    path = f"{folder}{name}"
    return File(key=path, path=path, name=name, size=1, content_type="image/tiff")


def taken_for(file, rivals, files):
    """As the engine has it: existing rivals, case-folded; the file itself only when another has its path."""
    existing = Counter(other.path.casefold() for other in files)
    existing[file.path.casefold()] -= 1
    return {path.casefold() for path in rivals} & {path for path, count in existing.items() if count > 0}


@settings(deadline=None)
@given(names=NAMES, folder=st.sampled_from(["", "scans/"]), data=st.data())
def test_converted_pages_never_collide(names, folder, data):
    """Every file but the uploaded JPEGs is a TIFF here, named so or not, of up to three pages."""
    files = [listed(name, folder) for name in names]
    made = []
    for file in files:
        if file.name.endswith(".jpg"):
            continue
        pages = data.draw(st.integers(1, 3))
        taken = taken_for(file, naming.jpeg_rivals(file, pages), files)
        made += [path.casefold() for path in naming.jpeg_paths(file, pages, taken)]

    assert len(set(made)) == len(made)
    assert not set(made) & {file.path.casefold() for file in files}


@settings(deadline=None)
@given(names=NAMES)
def test_references_never_collide(names):
    files = [listed(name, "") for name in names]
    files += [listed(f"{name}.ref.json", "") for name in names[::2]]
    made = []
    for file in files[: len(names)]:
        rivals = (file.path, f"{file.path}.ref.json")
        made.append(naming.beside(file, ".ref.json", taken_for(file, rivals, files)).casefold())

    assert len(set(made)) == len(made)
    assert not set(made) & {file.path.casefold() for file in files}


def test_names_do_not_depend_on_the_order_of_work():
    file = listed("x.tif", "")
    taken = {"x.jpg"}

    assert naming.jpeg_paths(file, 2, taken) == naming.jpeg_paths(file, 2, frozenset(taken))


PDF_NAMES = st.lists(
    st.tuples(
        st.sampled_from(["x", "X", "x.pdf", "x-p0001", "x-P0001", "x.pdf-p0001", "x-p0001-p0001", "ß", "ss"]),
        st.sampled_from(["", ".pdf", ".PDF", ".jpg", ".dat", "-p0001.pdf", ".pdf.pdf", "-p0002.jpg"]),
    ).map("".join),
    unique=True,
    min_size=1,
    max_size=12,
)


@settings(deadline=None)
@given(names=PDF_NAMES, data=st.data())
def test_pages_of_pdfs_never_collide_and_do_not_depend_on_the_order_of_work(names, data):
    """Every file but the uploaded JPEGs is a PDF here, named so or not, of up to three pages."""
    files = [listed(name, "") for name in names]
    pdfs = [(file, data.draw(st.integers(1, 3))) for file in files if not file.name.endswith(".jpg")]
    orders = [pdfs, data.draw(st.permutations(pdfs))]
    named = [dict(_split_one_after_the_other(order, files)) for order in orders]

    assert named[0] == named[1]
    made = [path.casefold() for paths in named[0].values() for path in paths]
    assert len(set(made)) == len(made)
    assert not set(made) & {file.path.casefold() for file in files}


def _split_one_after_the_other(order, files):
    """Each sees also what those before it have made."""
    there = list(files)
    for file, pages in order:
        taken = taken_for(file, naming.page_rivals(file, pages), there)
        paths = [base + end for base in naming.page_bases(file, pages, taken) for end in (".jpg", ".pdf")]
        there += [listed(path, "") for path in paths]
        yield file.path, paths
