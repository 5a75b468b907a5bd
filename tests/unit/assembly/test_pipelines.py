"""Settings reach the phases and rules they are about."""

from quire.assembly.components import budget
from quire.assembly.pipelines import build_phase_policy, build_pipelines, build_retry_policy
from quire.model.batch import Budget
from quire.model.plan import Pace
from quire.settings import (
    BudgetSettings,
    ComputeSettings,
    PhaseRetrySettings,
    PreprocessSettings,
    RetrySettings,
    Settings,
)


def test_every_phase_has_its_own_pace():
    chosen = PreprocessSettings(
        tiff_first_seconds=1.0, tiff_between_seconds=10.0, tiff_at_once=100, image_between_seconds=7.0
    )
    _, tiff, image = build_pipelines(Settings(preprocess=chosen))["preprocess"].phases
    assert tiff.pace == Pace(first_seconds=1.0, between_seconds=10.0, at_once=100)
    assert image.pace == Pace(between_seconds=7.0)


def test_settings_of_pdfs_reach_their_phase():
    chosen = PreprocessSettings(
        pdf_pages="both",
        pdf_dpi=100,
        pdf_quality=80,
        pdf_max_pages=7,
        pdf_max_megapixels=3,
        pdf_max_megabytes=5,
        pdf_timeout_seconds=9.0,
    )
    (pdf,) = build_pipelines(Settings(preprocess=chosen))["preprocess"].phases[0].steps
    assert {name: pdf.options[name] for name in pdf.options if name != "cid_profile"} == {
        "pages": "both",
        "dpi": 100,
        "quality": 80,
        "max_pages": 7,
        "max_pixels": 3_000_000,
        "max_total_bytes": 5_000_000,
    }
    assert pdf.timeout_seconds == 9.0


def test_nothing_waits_by_default():
    assert {phase.pace for phase in build_pipelines(Settings())["preprocess"].phases} == {Pace()}


def test_phases_run_where_the_settings_say():
    _, tiff, image = build_pipelines(Settings(compute=ComputeSettings(image="ray")))["preprocess"].phases
    assert (tiff.steps[0].compute, image.steps[0].compute) == ("local", "ray")
    assert {phase.steps[0].compute for phase in build_pipelines(Settings())["preprocess"].phases} == {""}


def test_retries_and_budgets_are_as_set():
    settings = Settings(
        retry=RetrySettings(first_delay_seconds=3.0, longest_delay_seconds=9.0, max_interruptions=7),
        phase_retry=PhaseRetrySettings(max_retries=2, first_delay_seconds=1.0, longest_delay_seconds=4.0),
        budget=BudgetSettings(seconds=5.0, money=1.25),
    )
    task, phase = build_retry_policy(settings), build_phase_policy(settings)
    assert (task.first_delay_seconds, task.longest_delay_seconds, task.max_interruptions) == (3.0, 9.0, 7)
    assert (phase.max_retries, phase.first_delay_seconds, phase.longest_delay_seconds) == (2, 1.0, 4.0)
    assert budget(settings) == Budget(seconds=5.0, money_micros=1_250_000)


def test_tiles_are_part_of_the_options_only_where_they_are_wanted():
    image = build_pipelines(Settings())["preprocess"].phases[2].steps[0]
    assert set(image.options) == {"public_url", "quality", "max_pixels", "cid_profile"}
    chosen = PreprocessSettings(tiles=True, tile_size=256, tiles_above=5000)
    image = build_pipelines(Settings(preprocess=chosen))["preprocess"].phases[2].steps[0]
    assert (image.options["tile_size"], image.options["tiles_above"]) == (256, 5000)
