"""The fields of a schema.org recipe are read in all their shapes."""

import pytest

from quire.steps.recipe.schema_recipe import find_image, find_nodes, has_type, read_recipe

BASE = "https://kitchen.example/r/1"


@pytest.mark.parametrize(
    "kind",
    [
        "Recipe",
        "recipe",
        ["Article", "Recipe"],
        "http://schema.org/Recipe",
        "https://schema.org/Recipe/",
        "schema:Recipe",
    ],
)
def test_a_recipe_is_known_by_its_type(kind: object):
    assert has_type({"@type": kind}, "recipe")


@pytest.mark.parametrize("kind", ["RecipeList", "Thing", None, 3, [], {}])
def test_other_types_are_no_recipe(kind: object):
    assert not has_type({"@type": kind}, "recipe")


@pytest.mark.parametrize(
    ("given", "servings"),
    [(4, "4"), (4.0, "4"), ("4 servings", "4 servings"), (["4", "4 people"], "4 people"), ({"value": 6, "unitText": "rolls"}, "6 rolls"), (None, ""), (True, "")],
)  # fmt: skip
def test_the_yield_has_many_shapes(given: object, servings: str):
    assert read_recipe({"recipeYield": given}).servings == servings


@pytest.mark.parametrize(
    "image",
    ["/a.jpg", ["/a.jpg", "/b.jpg"], {"url": "/a.jpg"}, [{"@type": "ImageObject", "contentUrl": "/a.jpg"}], {"@id": "#p"}, "//kitchen.example/a.jpg"],
)  # fmt: skip
def test_the_picture_has_many_shapes(image: object):
    by_id = {"#p": {"@id": "#p", "url": "/a.jpg"}}

    assert find_image(image, BASE, by_id) == "https://kitchen.example/a.jpg"


@pytest.mark.parametrize(
    "image", ["data:image/png;base64,xx", "javascript:alert(1)", "ftp://a.b/c", "http://[", 3, None, {}, []]
)
def test_no_picture_is_no_address(image: object):
    assert find_image(image, BASE, {}) == ""


@pytest.mark.parametrize(
    ("given", "lines"),
    [
        (["1 egg", " 2&nbsp;cups <b>flour</b> "], ("1 egg", "2 cups flour")),
        ("1 egg\n2 cups flour", ("1 egg", "2 cups flour")),
        ("1 egg, 2 cups flour, 3 tsp salt", ("1 egg", "2 cups flour", "3 tsp salt")),
        ("<ul><li>1 egg</li><li>2 cups flour</li></ul>", ("1 egg", "2 cups flour")),
        ([["1 egg"], ["2 cups flour"]], ("1 egg", "2 cups flour")),
        ([{"@type": "PropertyValue", "value": "2", "unitText": "cups", "name": "flour"}], ("2 cups flour",)),
        ([{"name": "Dough", "itemListElement": ["1 egg", "2 cups flour"]}], ("Dough:", "1 egg", "2 cups flour")),
        (["2 cups flour ((sifted))", None, "", 3], ("2 cups flour (sifted)",)),
    ],
)  # fmt: skip
def test_ingredients_have_many_shapes(given: object, lines: tuple[str, ...]):
    assert read_recipe({"recipeIngredient": given}).ingredients == lines


@pytest.mark.parametrize(
    ("given", "minutes"),
    [("PT1H20M", 80), (45, 45), ({"maxValue": "PT30M"}, 30), (-28284331, None), ("", None), ([], None)],
)
def test_times_have_many_shapes(given: object, minutes: int | None):
    assert read_recipe({"totalTime": given}).total_minutes == minutes


def test_nodes_are_found_in_depth_and_within_bounds():
    deep: dict[str, object] = {"@type": "Recipe"}
    for _ in range(30):
        deep = {"x": [deep]}

    assert any(has_type(node, "recipe") for node in find_nodes(deep))
    assert sum(1 for _ in find_nodes([{}] * 200_000)) < 60_000


def test_lists_that_a_server_has_written_as_objects_with_numbers_are_lists():
    found = read_recipe(
        {
            "@type": "Recipe",
            "name": "Toast",
            "recipeIngredient": {"0": "2 slices bread", "2": "butter"},
            "recipeInstructions": {"0": {"@type": "HowToStep", "text": "Toast it."}, "2": "Butter it."},
        }
    )
    assert found.ingredients == ("2 slices bread", "butter")
    assert found.steps == ("Toast it.", "Butter it.")
