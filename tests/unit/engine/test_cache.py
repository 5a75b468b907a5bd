"""Same step, version, options and bytes: same key. Anything else: another."""

from tests.situations.plans import step

from quire.engine.cache import cache_key_of, cache_key_prefix
from quire.model.work import EarlierResult, Order, StepResult
from quire.testing.factories import file


def of(one_file=None, *, earlier=(), **changes):
    one = step(**changes)
    return cache_key_of(cache_key_prefix(one), one, Order(1, 1, 1, one_file or file(), earlier))


def test_the_same_work_has_the_same_key():
    assert of(options={"a": 1, "b": 2}) == of(options={"b": 2, "a": 1})
    assert of() == of(file("elsewhere/other.tif"))


def test_other_work_has_another_key():
    keys = [
        of(),
        of(step="plan.other"),
        of(version=2),
        of(options={"q": 1}),
        of(file(digest="f" * 64)),
        of(cache_by=("name",)),
        of(file("a/z.tif"), cache_by=("name",)),
        of(earlier=(EarlierResult("a", StepResult(facts={"n": 1})),)),
        of(earlier=(EarlierResult("a", StepResult(facts={"n": 2})),)),
    ]
    assert len(set(keys)) == len(keys)


def test_of_a_table_one_key_may_count():
    def with_config(**config):
        return of(file(processing_config=config), cache_by=("processing_config.pdf_pages",))

    assert with_config() == with_config(ocr=True) == with_config(pdf_pages=None)
    assert with_config(pdf_pages="both") == with_config(ocr=True, pdf_pages="both")
    assert len({with_config(), with_config(pdf_pages="both"), with_config(pdf_pages="pdfs")}) == 3


def test_uncacheable_work_has_none():
    assert of(cached=False) is None
    assert of(file(digest="")) is None
