"""A context of recipe import on a real ledger, without an engine, and with a clock that tests move."""

import pytest
from msgspec import structs

from quire.assembly.components import open_components
from quire.assembly.member_pipelines import choose_recipe_pipeline
from quire.assembly.recipes import build_recipe_context
from quire.recipes.requests import Requester
from quire.settings import Settings
from quire.testing.time import FakeClock


@pytest.fixture
async def context(tmp_path):
    settings = Settings(home=tmp_path)
    async with open_components(settings, pipelines=choose_recipe_pipeline(settings)) as components:
        made = build_recipe_context(settings, components)
        rules = structs.replace(made.rules, asks_service=True, allow_private=True)
        yield structs.replace(made, clock=FakeClock(), rules=rules)


@pytest.fixture
def requester():
    return Requester(user_id="7")
