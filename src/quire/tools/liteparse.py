"""LiteParse: PDF to Markdown with headings, tables, lists, links and pictures, by rules alone.

Promises: pages come in batches, so that memory does not grow with their number; a batch that fails is taken
page by page, and a page that fails has its reason. Never recognises text (its models would be fetched from
the network). Text may be lost or out of order: `steps.markdown_guard` checks that with the text that each
page has beside its Markdown. A native crash ends the process. Running heads and feet are kept, because
telling them apart loses real text: on a manual of 400 pages every second page lost a tenth of its words or
more.
"""

import re
from collections.abc import Collection, Iterator
from functools import cache
from importlib import metadata
from itertools import islice
from pathlib import Path
from typing import Any

from quire.model.errors import Misconfigured
from quire.model.probe import Probe
from quire.tools.markdown_page import MarkdownPage, PagePicture

NAME = "liteparse"
_ADVICE = "pip install 'quire[library]'"
_BATCH_PAGES = 25
_LONGEST_FAULT = 200
_MOST_LINKS = 1000  # of a page, as of PDFium's
_NOTHING = re.compile(r"\s*(?:```text\s*```\s*)?\Z")  # a page without text comes as an empty code block


def probe() -> Probe:
    try:
        _library()
        return Probe(name=NAME, ok=True, detail=metadata.version("liteparse"))
    except (Misconfigured, metadata.PackageNotFoundError):
        return Probe(name=NAME, ok=False, advice=_ADVICE)


def pages(path: Path, total: int, *, leave_out: Collection[int] = ()) -> Iterator[MarkdownPage]:
    """All pages except `leave_out`, which are never parsed."""
    if leave_out:
        yield from _read_batches(path, total, leave_out)
        return
    done = 0
    try:
        session = _parser()._native.open_batch_session(str(path), _BATCH_PAGES)  # noqa: SLF001
        while done < total and (batch := session.next_batch()) is not None:
            yield from _build_pages(batch.result, range(batch.start_page, batch.end_page + 1))
            done = batch.end_page
    except GeneratorExit:
        raise
    except Exception:  # noqa: BLE001
        # Whatever it was, the pages of this batch are tried one by one, and after them the rest.
        yield from _read_singly(path, range(done + 1, min(done + _BATCH_PAGES, total) + 1))
        done = min(done + _BATCH_PAGES, total)
        yield from _read_batches(path, total, range(1, done + 1))
        return
    for number in range(done + 1, total + 1):
        yield MarkdownPage(number, "", fault="the converter ended before this page")


def _read_batches(path: Path, total: int, leave_out: Collection[int]) -> Iterator[MarkdownPage]:
    """The same with a file that is opened anew for each batch: slower, but pages can be left out."""
    wanted = [number for number in range(1, total + 1) if number not in frozenset(leave_out)]
    for at in range(0, len(wanted), _BATCH_PAGES):
        numbers = wanted[at : at + _BATCH_PAGES]
        try:
            result = _parse(path, numbers)
        except Exception:  # noqa: BLE001
            yield from _read_singly(path, numbers)
        else:
            yield from _build_pages(result, numbers)


def _read_singly(path: Path, numbers: Collection[int]) -> Iterator[MarkdownPage]:
    for number in numbers:
        try:
            result = _parse(path, [number])
        except Exception as error:  # noqa: BLE001
            yield MarkdownPage(number, "", fault=_words(error, path))
        else:
            yield from _build_pages(result, [number])


def _parse(path: Path, numbers: Collection[int]) -> Any:
    chosen = ",".join(map(str, numbers))
    return _parser(target_pages=chosen)._native.parse(str(path))  # noqa: SLF001


def _build_pages(result: Any, expected: Collection[int]) -> Iterator[MarkdownPage]:
    pictures: dict[int, list[PagePicture]] = {}
    for picture in result.images:
        data, name = picture.bytes, picture.name  # each asking makes a copy
        if data and name:
            pictures.setdefault(picture.page, []).append(PagePicture(name, data))
    # A copy of an earlier picture is linked by that one's name, from whatever page.
    named = {picture.name: picture for found in pictures.values() for picture in found}
    faults = {one.page_num: str(one.message)[:_LONGEST_FAULT] for one in _page_errors(result)}
    found = {page.page_num: page for page in result.pages}
    for number in expected:
        page = found.get(number)
        if page is None:
            yield MarkdownPage(number, "", fault=faults.get(number, "the converter left the page out"))
            continue
        markdown = page.markdown or ""
        if _NOTHING.match(markdown):
            markdown = ""
        own = {picture.name: picture for picture in pictures.get(number, ())}
        if "![" in markdown:
            own |= {name: picture for name, picture in named.items() if f"({name})" in markdown}
        items = page.text_items
        yield MarkdownPage(
            number,
            markdown,
            tuple(own.values()),
            faults.get(number, ""),
            text="\n".join([item.text for item in items]),
            addresses=_addresses(page),
            odd=any(item.font_is_buggy for item in items),
        )


def _addresses(page: Any) -> tuple[str, ...]:
    found = (link.uri for link in islice(page.annotations or (), _MOST_LINKS))
    return tuple(dict.fromkeys(address for address in found if address))


def _page_errors(result: Any) -> list[Any]:
    return list(getattr(result, "page_errors", None) or ())


def _parser(**options: Any) -> Any:
    """Calls the native side directly: the wrapper makes an object of every word, which takes a tenth of the
    time, and only their text is used.
    """
    return _library().LiteParse(
        output_format="markdown",
        ocr_enabled=False,
        image_mode="embed",
        extract_images=True,
        extract_annotations=True,
        keep_headers_footers=True,
        continue_on_page_error=True,
        max_pages=1_000_000,  # the limit is the caller's
        quiet=True,
        **options,
    )


def _words(error: object, path: Path) -> str:
    return " ".join(str(error).replace(str(path), "").split())[:_LONGEST_FAULT] or type(error).__name__


@cache
def _library() -> Any:
    try:
        import liteparse
        import liteparse.parser  # its native part, which may be there and not fit this machine
    except (ImportError, OSError) as error:
        raise Misconfigured(
            f"LiteParse cannot be loaded ({error}): {_ADVICE}", code="missing_tool"
        ) from error
    return liteparse
