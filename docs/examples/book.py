"""Three editors, one after the other; then seven agents, side by side; then one page per folder.

quire run ./chapters --pipeline book.py --out ./results

The editors here count instead of reading, so that the example runs anywhere. One that reads would take a
`model: Model` and say `return await model.ask(f"Edit this: {document.text()}", answer=Notes)`.
"""

import msgspec

from quire import Document, Folder, Output, Pipeline, Result


class Notes(msgspec.Struct):
    """What an editor thinks of a chapter."""

    score: float
    remarks: list[str] = []


book = Pipeline("book", version=3)


@book.step(accepts="*.txt", timeout=600, retries=3, on_failure="stop")
async def developmental(document: Document) -> Notes:
    paragraphs = document.text().split("\n\n")
    return Notes(score=min(1.0, len(paragraphs) / 10), remarks=[f"{len(paragraphs)} paragraphs"])


@book.step(accepts="*.txt")
async def line_edit(document: Document, developmental: Notes) -> Notes:  # earlier results by name
    long_lines = sum(len(line) > 80 for line in document.text().splitlines())
    return Notes(score=developmental.score / (1 + long_lines), remarks=[f"{long_lines} long lines"])


@book.step(accepts="*.txt")
async def copy_edit(document: Document, line_edit: Notes) -> Result[Notes]:
    doubled = document.text().count("  ")
    notes = Notes(score=line_edit.score, remarks=[*line_edit.remarks, f"{doubled} double spaces"])
    return Result(notes, Output.json("notes.json", notes))


AGENTS = ["blurb", "synopsis", "cover", "query", "bio", "keywords", "comps"]


@book.step(accepts="*.txt", each={"agent": AGENTS}, at_once=20)
async def asset(document: Document, agent: str, copy_edit: Notes) -> Output:  # seven tasks per document
    first = document.text().strip().partition("\n")[0]
    return Output.text(f"{agent}.md", f"# {agent} of {document.stem}\n\n{first}\n\n{copy_edit.score:.2f}\n")


@book.step(accepts="*.txt", unit="folder")
def overview(folder: Folder) -> Output:  # waits for the folder's documents and for the folders below
    return Output.json("overview.json", [document.value(line_edit).score for document in folder.documents])
