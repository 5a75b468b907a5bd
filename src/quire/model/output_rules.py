"""What a pipeline does with the outputs of a step: how they are called, and how they change the file list.

A step that exists already says only what it has made (a role, and facts such as the page); where that goes is
said by the pipeline, as data of its plan. So the same result, kept from an earlier run or brought by somebody
else's worker, always comes to the same files. Pure.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from string import Formatter

from msgspec import Struct, structs

from quire.model.files import Change, File, Product, fold, stem_and_extension

DOUBTFUL_ROLE = "doubtful"  # of an output that tells what of its document cannot be relied on
_FIELDS = ("stem", "page")
_NUMBER = re.compile(r"0?(\d*)d?")


class OutputRule(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """For outputs of one role; of several rules that fit an output the first one counts.

    name, preferred: as those of an output, with `{stem}` (the document's name without its extension) and
                     `{page}` (the fact of that name, 1 if there is none; `{page:03d}` with leading zeros)
    change, tags:    as those of an output
    from_page:       only for pages from this number on
    is_file:         False for outputs that are a part of an asset and no file of the batch
    """

    role: str
    name: str = ""
    preferred: str = ""
    change: Change = Change.HANG
    tags: tuple[str, ...] = ()
    from_page: int = 0
    is_file: bool = True


def apply_rules(rules: Sequence[OutputRule], document: File, made: Product) -> Product | None:
    """The output as the rules want it, as the step gave it when none of them is about it; None: it is no
    file of the batch.
    """
    page = _page_of(made)
    rule = next((one for one in rules if one.role == made.role and page >= one.from_page), None)
    if rule is None:
        return made
    if not rule.is_file:
        return None
    stem = stem_and_extension(document.name)[0]
    return structs.replace(
        made,
        name=rule.name.format(stem=stem, page=page),
        preferred=rule.preferred.format(stem=stem, page=page),
        change=rule.change,
        tags=rule.tags,
    )


def could_prefer(rules: Sequence[OutputRule], document: File, folded_name: str) -> bool:
    """Whether an output of this document could prefer a name, which is folded. Without rules it could."""
    stem = fold(stem_and_extension(document.name)[0])
    return not rules or any(
        _compile(rule.preferred, stem).fullmatch(folded_name) for rule in rules if rule.preferred
    )


def find_rule_problem(rule: OutputRule) -> str | None:
    """What is wrong with the names of a rule; None: nothing."""
    for text in (rule.name, rule.preferred):
        try:
            fields = [(name, form) for _, name, form, _ in Formatter().parse(text) if name is not None]
            text.format(stem="a", page=1)
        except (ValueError, LookupError, AttributeError) as error:
            return f"{text!r} cannot be filled in ({error}); it may have {{stem}} and {{page:03d}}"
        for name, form in fields:
            if name not in _FIELDS or not _NUMBER.fullmatch(form or ""):
                return f"{text!r} may have {{stem}} and {{page:03d}}, nothing else in braces"
    return None


def _page_of(made: Product) -> int:
    page = made.facts.get("page", 1)
    return page if isinstance(page, int) else 1


@lru_cache(maxsize=4096)
def _compile(preferred: str, stem: str) -> re.Pattern[str]:
    """All folded names that a rule can give to outputs of a document with this stem."""
    found = []
    for literal, name, form, _ in Formatter().parse(preferred):
        found.append(re.escape(fold(literal)))
        if name == "stem":
            found.append(re.escape(stem))
        elif name == "page":
            found.append(_match_number(form or ""))
    return re.compile("".join(found))


def _match_number(form: str) -> str:
    """The digits of a page's number: as many as asked for, or more without leading zeros."""
    said = _NUMBER.fullmatch(form)
    digits = int(said.group(1) or 1) if said else 1
    return rf"(?:[0-9]{{{digits}}}|[1-9][0-9]{{{digits},}})"
