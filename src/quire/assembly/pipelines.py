"""Pipelines and policies, from settings. Built-in pipelines are imported when they are built."""

from collections.abc import Sequence

from msgspec import structs

from quire.assembly.member_pipelines import MemberPipelines, find_own_pipelines
from quire.engine.retry import PhasePolicy, RetryPolicy
from quire.engine.sharing import Shares
from quire.model.plan import Pace, Plan
from quire.settings import Settings


def build_pipelines(settings: Settings, given: Sequence[str] = ()) -> MemberPipelines:
    """Every pipeline that a process with these settings has. `given` are references of its command line."""
    return find_own_pipelines(settings, given)


def build_built_in(settings: Settings) -> list[Plan]:
    """The pipelines that come with Quire. Their code changes with Quire, which is nothing to warn of."""
    built = (_build_preprocess(settings), _build_markdown(settings), _build_ocr(settings))
    return [structs.replace(one, code_digest="") for one in built]


def _build_markdown(settings: Settings) -> Plan:
    """With the converter of the library: it is the same conversion."""
    from quire.pipelines.markdown import build_markdown

    chosen = settings.library
    return build_markdown(
        converter=chosen.converter,
        silent_seconds=chosen.silent_seconds or chosen.conversion_seconds,
        memory_mb=chosen.memory_mb,
    ).plan()


def _build_ocr(settings: Settings) -> Plan:
    from quire.assembly.ocr_reading import build_reading_options
    from quire.pipelines.ocr import build_ocr

    chosen = settings.ocr
    return build_ocr(
        reading=build_reading_options(chosen),
        outputs=chosen.outputs,
        pdfa=chosen.pdfa,
        picture_quality=chosen.picture_quality,
        force=chosen.force,
        max_pages=chosen.max_pages,
        max_pixels=chosen.max_megapixels * 1_000_000,
        page_seconds=chosen.page_seconds,
        memory_mb=chosen.memory_mb,
        retries=chosen.max_attempts - 1,
    ).plan()


def _build_preprocess(settings: Settings) -> Plan:
    from quire.pipelines.preprocess import build_preprocess

    chosen, where = settings.preprocess, settings.compute
    # All local: there is one compute, and it needs no name.
    alone = where.pdf == where.tiff == where.image == "local"
    return build_preprocess(
        public_url=chosen.public_url,
        tiff_quality=chosen.tiff_quality,
        variant_quality=chosen.variant_quality,
        all_pages=chosen.all_pages,
        max_pixels=chosen.max_megapixels * 1_000_000,
        pdf_split=chosen.pdf_pages,
        pdf_dpi=chosen.pdf_dpi,
        pdf_quality=chosen.pdf_quality,
        pdf_max_pages=chosen.pdf_max_pages,
        pdf_max_pixels=chosen.pdf_max_megapixels * 1_000_000,
        pdf_max_total_bytes=chosen.pdf_max_megabytes * 1_000_000,
        pdf_timeout_seconds=chosen.pdf_timeout_seconds,
        pdf_page_seconds=chosen.pdf_page_seconds,
        tiff_timeout_seconds=chosen.tiff_timeout_seconds,
        tiff_page_seconds=chosen.tiff_page_seconds,
        image_timeout_seconds=chosen.image_timeout_seconds,
        memory_mb=chosen.memory_mb,
        max_attempts=chosen.max_attempts,
        tiff_pace=Pace(
            first_seconds=chosen.tiff_first_seconds,
            between_seconds=chosen.tiff_between_seconds,
            at_once=chosen.tiff_at_once,
        ),
        image_pace=Pace(
            first_seconds=chosen.image_first_seconds,
            between_seconds=chosen.image_between_seconds,
            at_once=chosen.image_at_once,
        ),
        pdf_compute="" if alone else where.pdf,
        tiff_compute="" if alone else where.tiff,
        image_compute="" if alone else where.image,
        tile_size=chosen.tile_size if chosen.tiles else 0,
        tiles_above=chosen.tiles_above,
    ).plan()


def build_retry_policy(settings: Settings) -> RetryPolicy:
    return RetryPolicy(
        max_interruptions=settings.retry.max_interruptions,
        first_delay_seconds=settings.retry.first_delay_seconds,
        longest_delay_seconds=settings.retry.longest_delay_seconds,
    )


def build_phase_policy(settings: Settings) -> PhasePolicy:
    chosen = settings.phase_retry
    return PhasePolicy(
        max_retries=chosen.max_retries,
        first_delay_seconds=chosen.first_delay_seconds,
        longest_delay_seconds=chosen.longest_delay_seconds,
    )


def build_shares(settings: Settings) -> Shares:
    return Shares(
        half_life_seconds=settings.sharing.half_life_seconds, ageing_seconds=settings.sharing.ageing_seconds
    )
