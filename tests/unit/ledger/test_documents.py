"""Documents that a process has met lately are kept, within bounds."""

from quire.ledger.documents import Document, KnownDocuments, read_claims, read_document
from quire.ledger.flow_rows import unit_file
from quire.ledger.flow_values import Admission, Follower, first_number
from quire.ledger.rows import file_columns
from quire.testing.factories import file

FIRST = Follower(1, (0,), 1, 0)


def _admission(no):
    return Admission(no, file(f"a/{no}.tif"), FIRST)


def test_what_was_admitted_is_known_by_batch_and_number():
    known = KnownDocuments()
    known.admit(7, [_admission(1), _admission(2)])
    assert known.find(7, [1, 2, 3]) == {no: Document(file(f"a/{no}.tif"), no, "") for no in (1, 2)}
    assert known.find(8, [1, 2]) == {}


def test_an_input_whose_row_is_there_already_is_known_when_it_is_at_hand():
    known = KnownDocuments()
    known.admit(7, [Admission(1, None, FIRST, file("a/1.tif"))])
    assert known.find(7, [1]) == {1: Document(file("a/1.tif"), 1, "")}


def test_what_no_step_takes_or_is_not_at_hand_is_not_kept():
    known = KnownDocuments()
    known.admit(7, [Admission(1, file(), None), Admission(2, None, FIRST)])
    assert known.find(7, [1, 2]) == {}


def test_the_first_admitted_stay_when_there_is_no_room():
    known = KnownDocuments(most=2)
    known.admit(7, [_admission(no) for no in (1, 2, 3)])
    assert set(known.find(7, [1, 2, 3])) == {1, 2}


def test_what_is_read_takes_the_place_of_what_came_first():
    known = KnownDocuments(most=2)
    one, two, three = (Document(file(f"{no}.tif"), no, "") for no in (1, 2, 3))
    known.keep(7, {1: one, 2: two})
    known.keep(7, {3: three})
    assert known.find(7, [1, 2, 3]) == {2: two, 3: three}


def test_a_folder_is_read_each_time():
    known = KnownDocuments()
    known.keep(7, {1: Document(unit_file("a"), 1, "")})
    assert known.find(7, [1]) == {}


def test_a_claim_is_the_same_from_memory_and_from_its_row():
    source = file("a/b.tif", tags=("x",), processing_config={"dpi": 300}, cid="c", source_file="s")
    path, _folded, name, key, size, kind, digest, cid, source_file, tags, config = file_columns(source)
    columns = (5, "line", key, path, name, size, kind, digest, cid, source_file, tags, config)
    assert read_document(columns) == Document(source, 5, "line")
    row = (first_number(2) + 3, 1, 0, 0, 9.0, 1, 4, 2, b"v")
    (claim,) = read_claims(7, [row], {4: Document(source, 5, "line")})
    assert (claim.order.file, claim.order.task_no, claim.order.attempt) == (source, row[0], 1)
    assert (claim.place.phase, claim.place.branch, claim.place.file_no, claim.place.root_no) == (2, 1, 4, 5)
    assert (claim.place.lineage, claim.place.tries, claim.place.given) == ("line", 2, b"v")
