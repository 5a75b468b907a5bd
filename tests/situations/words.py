"""A pipeline of one's own, for tests and benchmarks: counts the words of every text."""

from quire import Document, Output, Pipeline, Reject

words = Pipeline("words", version=1)


@words.step(accepts="text/plain")
def count(document: Document) -> Output:
    try:
        text = document.text()
    except UnicodeDecodeError as error:
        raise Reject("the text is not UTF-8; save it as UTF-8", code="not_utf8") from error
    return Output.json("words.json", {"words": len(text.split())})  # beside letter.txt: letter.txt.words.json
