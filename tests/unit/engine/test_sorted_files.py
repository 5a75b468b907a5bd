"""The file list by folder and path, sorted in little memory."""

from random import Random

import pytest

from quire.engine.sorted_files import sort_files
from quire.testing.factories import file

PATHS = ["z.txt", "a/z.txt", "a-/q.txt", "a/b/c.txt", "b/a.txt", "a/a.txt", "A/a.txt", "\u00e4/x.txt"]
SORTED = ["z.txt", "A/a.txt", "a/a.txt", "a/z.txt", "a-/q.txt", "a/b/c.txt", "b/a.txt", "\u00e4/x.txt"]


async def pages(paths, size):
    for first in range(0, len(paths), size):
        yield [file(path) for path in paths[first : first + size]]


@pytest.mark.parametrize("held", [1, 2, 3, 8, 100])
@pytest.mark.parametrize("at_once", [1, 3, 100])
async def test_files_come_by_folder_and_path_whatever_fits_into_memory(held, at_once):
    mixed = PATHS.copy()
    Random(held).shuffle(mixed)
    chunks = [chunk async for chunk in sort_files(pages(mixed, 3), held=held, at_once=at_once)]
    assert [one.path for chunk in chunks for one in chunk] == SORTED
    assert max(map(len, chunks)) <= at_once


async def test_files_are_kept_as_they_are():
    one = file("a.txt", tags=("x",), processing_config={"lang": "de"}, digest="d", source_file="b.tif")
    (chunk,) = [chunk async for chunk in sort_files(_one_page(one), held=1, at_once=9)]
    assert chunk == [one]


async def test_an_empty_list_gives_nothing():
    assert [chunk async for chunk in sort_files(pages([], 3), held=1, at_once=9)] == []


async def _one_page(one):
    yield [one]
