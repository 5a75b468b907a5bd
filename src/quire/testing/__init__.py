"""For people who write steps, pipelines and adapters: `run_step`, suites, in-memory adapters, factories.

No other room imports it.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quire.testing.step_run import run_step as run_step
else:

    def __getattr__(name: str) -> Any:
        """Suites need pytest, and `run_step` does not: each is imported when it is used."""
        if name != "run_step":
            raise AttributeError(f"module 'quire.testing' has no attribute {name!r}")
        from quire.testing.step_run import run_step

        return run_step
