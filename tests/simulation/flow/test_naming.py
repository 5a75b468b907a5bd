"""The names of outputs in the model, as tables: which inputs stand beside, and what the output is called."""

import pytest

from tests.simulation.flow.naming import fold, mark_of
from tests.simulation.flow.tables import batch, ending, folders, gives, made, output, paths, phase, plan, step

TIFF = step("tiff", ("*.tif", "*.tiff"), renames=(".tif", ".tiff"))
PDF = step("pdf", "*.pdf", renames=(".pdf",))


def jpeg(name):
    """What `tiff` makes of a file: a page that would like the short name."""
    return gives(output("page.jpg", "join", preferred=name))


def mark(*lineage):
    return mark_of(lineage)


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (["letter.txt"], "letter.txt.words.json"),
        (["a/letter.txt"], "a/letter.txt.words.json"),
        (["letter.txt", "letter.txt.words.txt"], "letter.txt.words.json"),
        (["letter.txt", "letter"], "letter.txt.words.json"),
        (["letter.txt", "b/letter.txt.words.json"], "letter.txt.words.json"),
        # Another input is called so.
        (["letter.txt", "letter.txt.words.json"], "letter.txt.{}.words.json"),
        (["letter.txt", "LETTER.txt.Words.json"], "letter.txt.{}.words.json"),
        # Another input owns all names that begin like it.
        (["letter.txt", "letter.txt.words"], "letter.txt.{}.words.json"),
        (["letter.txt", "Letter.TXT.words"], "letter.txt.{}.words.json"),
        # A folder is called so.
        (["letter.txt", "letter.txt.words.json/x.txt"], "letter.txt.{}.words.json"),
        (["letter.txt", "letter.txt.WORDS.json/y/x.txt"], "letter.txt.{}.words.json"),
        (["letter.txt", "letter.txt.words/x.txt"], "letter.txt.words.json"),
        # Inputs that only case or composition tells apart are always marked.
        (["letter.txt", "Letter.txt"], "letter.txt.{}.words.json"),
    ],
)
def test_an_output_is_called_like_its_document_and_steps_aside_for_inputs(inputs, expected):
    found = ending(
        plan(step("count", "letter.txt")), inputs, {f"count {inputs[0]}": gives(output("words.json"))}
    )
    assert made(found) == [expected.format(mark(inputs[0], "count/0"))]


def test_names_are_compared_composed_and_without_case():
    assert fold("Cafe\u0301") == fold("CAF\u00c9") == fold("caf\u00e9")
    assert fold("stra\u00dfe") == fold("STRASSE")
    found = ending(plan("count"), ["caf\u00e9.txt", "cafe\u0301.txt"], {"count": gives(output("words.json"))})
    marks = [mark(path, "count/0") for path in ("cafe\u0301.txt", "caf\u00e9.txt")]
    assert made(found) == [f"cafe\u0301.txt.{marks[0]}.words.json", f"caf\u00e9.txt.{marks[1]}.words.json"]


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (["a.tif"], ["a.jpg"]),
        (["f/a.tif"], ["f/a.jpg"]),
        (["a.TIF"], ["a.jpg"]),
        (["a.b.tif"], ["a.b.jpg"]),
        # Both could make a.jpg, so neither does.
        (["a.tif", "a.tiff"], ["a.tif.page.jpg", "a.tiff.page.jpg"]),
        (["a.tif", "b/a.tiff"], ["a.jpg", "b/a.jpg"]),
        # These two cannot be told apart everywhere: they are marked.
        (["a.tif", "A.TIF"], ["A.TIF.{A.TIF}.page.jpg", "a.tif.{a.tif}.page.jpg"]),
        (
            ["a.tif", "a.tiff", "A.TIF"],
            ["A.TIF.{A.TIF}.page.jpg", "a.tif.{a.tif}.page.jpg", "a.tiff.page.jpg"],
        ),
        # Another input is called so, or owns the name.
        (["a.tif", "a.jpg"], ["a.tif.page.jpg"]),
        (["a.tif", "A.JPG"], ["a.tif.page.jpg"]),
        (["a.tif", "a"], ["a.tif.page.jpg"]),
        (["a-b.tif", "a"], ["a-b.tif.page.jpg"]),
        (["ab.tif", "a"], ["ab.jpg"]),
        (["a.tif", "a.jpg/x.txt"], ["a.tif.page.jpg"]),
        # It could make a name that begins like ours up to a dash.
        (["a-b.tif", "a.tiff"], ["a-b.tif.page.jpg", "a.jpg"]),
        # A file that is called like the beginning of a folder has nothing to do with what is in there.
        (["x.y/a.tif", "x"], ["x.y/a.jpg"]),
        (["a.tif", "a.pdf"], ["a.jpg"]),  # a PDF is not taken by any step here
    ],
)
def test_a_short_name_is_given_only_when_no_other_input_could_have_it(inputs, expected):
    results = {f"tiff {path}": jpeg(path.rpartition("/")[2].rpartition(".")[0] + ".jpg") for path in inputs}
    marks = {path: mark(path, "tiff/0") for path in inputs}
    found = ending(plan(TIFF), inputs, results)
    assert sorted(made(found)) == sorted(_filled(one, marks) for one in expected)


def test_a_pdf_and_a_scan_that_is_called_like_one_of_its_pages_both_step_aside():
    results = {
        "pdf x.pdf": gives(output("p0001.jpg", "join", preferred="x-p0001.jpg")),
        "tiff x-p0001.tif": jpeg("x-p0001.jpg"),
    }
    found = ending(plan(PDF, TIFF), ["x.pdf", "x-p0001.tif"], results)
    assert made(found) == ["x-p0001.tif.page.jpg", "x.pdf.p0001.jpg"]
    assert made(ending(plan(PDF, TIFF), ["x.pdf"], results)) == ["x-p0001.jpg"]


@pytest.mark.parametrize("wanted", ["", "..", "../x.jpg", "other.jpg", "ab.jpg", "a", "a.tif"])
def test_a_short_name_that_does_not_begin_like_the_document_is_not_given(wanted):
    found = ending(plan(TIFF), ["a.tif"], {"tiff": jpeg(wanted)})
    assert made(found) == ["a.tif.page.jpg"]


def test_what_replaces_a_document_may_have_its_very_name():
    result = gives(output("page.tif", "replace", preferred="a.tif"))
    found = ending(plan(TIFF), ["a.tif"], {"tiff": result})
    assert paths(found) == ["a.tif"]
    assert found.files[0].born == 1


def test_an_extension_that_the_step_does_not_replace_stays():
    found = ending(plan(step("any")), ["a.tif"], {"any": jpeg("a.jpg")})
    assert made(found) == ["a.tif.page.jpg"]


def test_only_inputs_give_short_names():
    results = {
        "split": gives(output("scan.tif", "join")),
        "tiff": lambda work: jpeg(work.file.name.removesuffix(".tif") + ".jpg"),
    }
    found = ending(plan(step("split", "*.pdf"), TIFF), ["x.pdf"], results)
    assert made(found) == ["x.pdf.scan.tif", "x.pdf.scan.tif.page.jpg"]


def test_an_input_with_new_tags_is_still_that_input_and_keeps_its_mark():
    results = {"look": gives(tags=("seen",)), "tiff": lambda work: jpeg(work.file.name[:-4] + ".jpg")}
    found = ending(plan("look", TIFF), ["a.tif"], results)
    assert made(found, born=2) == ["a.jpg"]
    found = ending(plan("look", TIFF), ["a.tif", "a.jpg"], results)
    assert made(found, born=2) == ["a.tif.page.jpg"]
    found = ending(plan("look", TIFF), ["a.tif", "A.tif"], results)
    assert made(found, born=2) == [f"{path}.{mark(path, 'tiff/0')}.page.jpg" for path in ("A.tif", "a.tif")]


def test_lineage_goes_from_the_input_through_every_generation():
    results = {"one": gives(output("a.txt"), output("b.txt", "join")), "two": gives(output("c.txt"))}
    line = plan(step("one", "x.bin"), step("two", "*.b.txt"))
    found = ending(line, ["x.bin", "x.bin.b.txt.c.txt"], results)
    assert made(found, born=2) == [f"x.bin.b.txt.{mark('x.bin', 'one/1', 'two/0')}.c.txt"]
    found = ending(line, ["x.bin", "X.bin"], results)
    path = f"x.bin.{mark('x.bin', 'one/1')}.b.txt"
    assert f"{path}.c.txt" in made(found, born=2)


def test_two_steps_that_name_their_outputs_alike_do_not_lose_one():
    same = gives(output("note.txt"))
    found = ending(plan("one", "two"), ["x.txt"], {"one": same, "two": same})
    assert made(found, born=1) == ["x.txt.note.txt"]
    assert made(found, born=2) == [f"x.txt.{mark('x.txt', 'two/0')}.note.txt"]
    found = ending(plan(phase("one", "two")), ["x.txt"], {"one": same, "two": same})
    assert sorted(made(found)) == sorted([f"x.txt.{mark('x.txt', 'two/0')}.note.txt", "x.txt.note.txt"])


@pytest.mark.parametrize("second", ["a.txt", "A.TXT"])
def test_two_outputs_of_one_task_with_one_name_fail_it(second):
    found = ending(
        plan("one"), ["x.txt"], {"one": gives(output("a.txt"), output(second), value=1, tags=("t",))}
    )
    assert paths(found) == ["x.txt"]
    assert (found.inputs[0].outcome, found.inputs[0].error_class) == ("failed", "name_twice")
    assert (found.files[0].values, found.files[0].file.tags) == ({}, ())


@pytest.mark.parametrize(
    ("inputs", "expected"),
    [
        (["f/a.txt"], "f/overview.json"),
        (["a.txt"], "overview.json"),
        (["f/a.txt", "f/overview.txt"], "f/overview.json"),
        (["f/a.txt", "f/overview.json"], "f/{f}.overview.json"),
        (["f/a.txt", "f/overview"], "f/{f}.overview.json"),
        (["f/a.txt", "f/overview.tif"], "f/{f}.overview.json"),
        (["f/a.txt", "f/overview.json/x.bin"], "f/{f}.overview.json"),
        (["f/a.txt", "F/b.txt"], "f/{f}.overview.json"),
        (["f/a.txt", "g/overview.json"], "f/overview.json"),
    ],
)
def test_what_a_folder_makes_lies_in_it_and_steps_aside_for_inputs(inputs, expected):
    place = inputs[0].rpartition("/")[0]
    found = ending(
        plan(folders(step("sum", "*.txt")), TIFF), inputs, {f"sum {place}": gives(output("overview.json"))}
    )
    assert made(found) == [_filled(expected, {"f": mark(place, "sum/0")})]


def test_what_the_batch_makes_lies_at_the_top_beside_what_the_top_folder_makes():
    same = gives(output("overview.json"))
    found = ending(plan(folders("sum"), batch("all")), ["a.txt"], {"sum": same, "all": same})
    assert made(found, born=1) == ["overview.json"]
    assert made(found, born=2) == [f"{mark('', 'all/0')}.overview.json"]


def _filled(name, marks):
    for path, found in marks.items():
        name = name.replace("{" + path + "}", found)
    return name
