"""What results are called depends on the names in the document's own folder alone, so a folder can be worked
on before the next one is listed.
"""

from hypothesis import given, settings
from hypothesis import strategies as st
from tests.situations.plans import phase, plan, product, step

from quire.engine.names import Naming
from quire.ledger.flow_values import ListedInput, TaskPlace
from quire.model.files import Change, File, fold

NAMES = ["a", "A", "a.tif", "a.TIFF", "a.tif.txt", "a-1.jpg", "a.jpg", "a.json", "b.pdf", "a.tif.json"]
names = st.sampled_from(NAMES)
paths = st.lists(names, min_size=1, max_size=3).map("/".join)
collections = st.lists(paths, min_size=1, max_size=8, unique=True)
RENAMING = step("convert", ["image/tiff", "*.pdf"], renames=(".tif", ".tiff", ".pdf"))
PLAN = plan(phase(RENAMING), phase(step("read", "!*.json")))
OUTPUTS = [
    product("jpg", Change.JOIN, preferred="a.jpg"),
    product("1.jpg", Change.JOIN, preferred="a-1.jpg"),
    product("json"),
]


def is_below(path, folder):
    return fold(path).startswith(f"{fold(folder)}/")


def inputs_of(collection):
    """Without files that would have to be folders, too."""
    return [path for path in collection if not any(is_below(other, path) for other in collection)]


def look_up(rivals, files, folders):
    """As a ledger answers. Numbers are those of the names in the alphabet of all names."""
    found = {}
    for path in files:
        no = number_of(path)
        if fold(path) in rivals:
            file = File(key="", path=path, name=path.rpartition("/")[2], size=0, content_type="")
            found.setdefault(fold(path), []).append(ListedInput(no, fold(path), file, 0, no))
    for path in folders:
        if f"{fold(path)}/" in rivals:
            file = File(key="", path=path, name="", size=0, content_type="")
            found[f"{fold(path)}/"] = [ListedInput(0, f"{fold(path)}/", file)]
    return found


def number_of(path):
    return 1 + int.from_bytes(path.encode())


def name_all(path, files, folders):
    document = File(key="", path=path, name=path.rpartition("/")[2], size=1, content_type="image/tiff")
    no = number_of(path)
    naming = Naming(PLAN, document, TaskPlace(1, 0, no, no, "", 0, None), is_unit=False)
    rivals = naming.list_rivals(RENAMING, OUTPUTS)
    return naming.name_outputs(RENAMING, OUTPUTS, look_up(rivals, files, folders))


@settings(deadline=None)
@given(collections)
def test_other_folders_do_not_count(collection):
    files = inputs_of(collection)
    folders = {"/".join(path.split("/")[:depth]) for path in files for depth in range(1, path.count("/") + 1)}
    for path in files:
        place = fold(path.rpartition("/")[0])
        beside = [one for one in files if fold(one.rpartition("/")[0]) == place]
        right_in_it = [one for one in folders if fold(one.rpartition("/")[0]) == place]
        assert name_all(path, files, folders) == name_all(path, beside, right_in_it)


@settings(deadline=None)
@given(collections)
def test_a_name_does_not_depend_on_what_is_inside_of_other_files(collection):
    """Of a file that is only listed nobody knows the content type yet."""
    files = inputs_of(collection)
    given_names = [name for path in files for name in name_all(path, files, [])]
    assert len({fold(name) for name in given_names}) == len(given_names)


def test_an_input_with_new_tags_is_replaced_under_its_own_name():
    document = File(key="", path="a.tif", name="a.tif", size=1, content_type="image/tiff", tags=("seen",))
    same = product("tif", Change.REPLACE, preferred="a.tif")
    naming = Naming(PLAN, document, TaskPlace(2, 0, 2, 1, "a.tif", 0, None), is_unit=False)
    # The input, and the row that it has had since a step gave it tags.
    rows = [ListedInput(1, "a.tif", document, 0, 1), ListedInput(2, "a.tif", document, 1, 1)]
    assert naming.name_outputs(RENAMING, [same], {"a.tif": rows}) == ["a.tif"]
    other = File(key="", path="A.tif", name="A.tif", size=1, content_type="image/tiff")
    made = [*rows, ListedInput(3, "a.tif", other, 1, 1)]
    assert naming.name_outputs(RENAMING, [same], {"a.tif": made}) == ["a.tif.tif"]
