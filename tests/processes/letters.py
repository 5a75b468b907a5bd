"""A pipeline as a user writes it: coroutines, branches side by side, a plain function and a page per folder.

With the variable LETTERS_GATE, the text `gate.txt` waits until somebody has written to that named pipe.
"""

import asyncio
import os
from pathlib import Path

import msgspec

from quire import Document, Folder, Output, Pipeline, Reject, Result

letters = Pipeline("letters", version=1)


class Notes(msgspec.Struct):
    words: int


@letters.step(accepts="*.txt", on_failure="stop")
async def read(document: Document) -> Notes:
    gate = os.environ.get("LETTERS_GATE")
    if gate and document.name == "gate.txt":
        await asyncio.to_thread(Path(gate).read_bytes)
    text = document.text()
    if "never" in text:
        raise Reject("this letter is not to be read", code="unreadable")
    return Notes(words=len(text.split()))


@letters.step(accepts="*.txt", each={"agent": ["blurb", "cover"]}, at_once=20)
async def ask(document: Document, agent: str, read: Notes) -> Output:
    await asyncio.sleep(0)
    return Output.text(f"{agent}.md", f"{agent} of {document.stem}: {read.words}\n")


@letters.step(accepts="*.txt")
def shout(document: Document, read: Notes) -> Result[int]:
    return Result(read.words * 2, Output.text("loud.txt", document.text().upper(), change="join"))


@letters.step(accepts="*.txt", unit="folder")
def page(folder: Folder) -> Output:
    return Output.json("page.json", sorted(document.path for document in folder.documents))
