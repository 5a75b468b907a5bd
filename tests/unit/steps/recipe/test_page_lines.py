"""A page becomes lines, and the lines the parts of a recipe."""

from quire.steps.recipe.html_recipe import PageHead, find_in_text
from quire.steps.recipe.page_parts import find_parts
from quire.steps.recipe.tree_text import PSEUDO_HEADING, PageLine, block_lines, inline_text, page_lines
from quire.tools.html_tree import parse_tree


def lines(html: str) -> list[tuple[str, int, bool]]:
    return [(line.text, line.level, line.item > 0) for line in page_lines(parse_tree(f"<body>{html}</body>"))]


def test_headings_items_and_paragraphs_are_told_apart():
    html = "<h2>Ingredients</h2><ul><li>1 <b>egg</b></li><li><p>2 cups</p><p>flour</p></li></ul><p><b>Method:</b></p>Mix<br>bake"

    assert lines(html) == [
        ("Ingredients", 2, False),
        ("1 egg", 0, True),
        ("2 cups flour", 0, True),
        ("Method:", PSEUDO_HEADING, False),
        ("Mix", 0, False),
        ("bake", 0, False),
    ]


def test_nested_lists_and_lists_without_end_tags_keep_their_items():
    assert lines("<ul><li>Spices:<ul><li>salt</li></ul></li><li>egg</li></ul>") == [
        ("Spices:", 0, True), ("salt", 0, True), ("egg", 0, True),
    ]  # fmt: skip
    assert lines("<ul><li><font>salt<li><font>egg</ul>") == [("salt", 0, True), ("egg", 0, True)]


def test_rows_are_lines_and_amounts_come_first():
    assert lines("<table><tr><th>What</th><th>Amount</th></tr><tr><td>flour</td><td>2 cups</td></tr></table>") == [
        ("What Amount", PSEUDO_HEADING, True), ("2 cups flour", 0, True),
    ]  # fmt: skip


def test_what_is_not_text_is_left_out():
    html = "<nav>Home</nav><script>x</script><div class='comments-area'>Nice</div><p>Soup</p><span class='sr-only'>hidden</span><footer>©</footer>"

    assert lines(html) == [("Soup", 0, False)]


def test_classes_give_hints():
    tree = parse_tree(
        "<div class='wprm-recipe-ingredients'><p>egg</p></div><div class='ingredients-and-instructions'><p>x</p></div>"
    )

    assert [line.hint for line in page_lines(tree)] == ["ingredients", ""]


def test_the_text_of_an_element():
    element = parse_tree("<div>a<b>b</b><p>c</p>d<script>e</script></div>")

    assert inline_text(element) == "ab c d"
    assert block_lines(element) == ["ab", "c", "d"]


def test_the_best_list_and_its_steps_win():
    page = [
        PageLine("Ingredients", 2), PageLine("Directions", 2), PageLine("Ingredients", 2), PageLine("1 egg", item=1), PageLine("2 cups flour", item=1),
        PageLine("Directions", 2), PageLine("Mix all.", item=2), PageLine("Bake it.", item=2), PageLine("Comments", 2), PageLine("1 star", item=3),
    ]  # fmt: skip
    ingredients, steps = find_parts(page)

    assert ingredients is not None
    assert steps is not None
    assert ingredients.entries == ("1 egg", "2 cups flour")
    assert steps.entries == ("Mix all.", "Bake it.")


def test_a_page_without_parts_gives_only_its_title():
    tree = parse_tree("<html><head><title>A story | Site</title></head><body><p>Words.</p></body></html>")
    found = find_in_text(tree, PageHead(tree, "https://a.b/"))

    assert (found.title, found.ingredients, found.steps) == ("A story", (), ())


def test_notes_and_labels_around_the_recipe_are_found():
    tree = parse_tree(
        "<h1>Soup</h1><p>A warm soup for cold days and long nights.</p><p>Prep time: 5 min</p><h2>Ingredients</h2><ul><li>1 leek</li><li>2 cups water</li></ul>"
        "<h2>Method</h2><ol><li>Cut the leek.</li><li>Boil it.</li></ol><h2>Notes</h2><p>Good with bread.</p><h2>Comments</h2><p>Nice</p>"
    )
    found = find_in_text(tree, PageHead(tree, "https://a.b/"))

    assert (found.title, found.prep_minutes, found.notes) == ("Soup", 5, ("Good with bread.",))
    assert found.description == "A warm soup for cold days and long nights."


def test_a_column_of_ingredients_and_named_buttons_are_text():
    html = "<aside><h2>Ingredients</h2><p>1 egg</p></aside><aside>Buy me</aside><button>Method</button><button>Print</button><p>Mix.</p>"

    assert lines(html) == [
        ("Ingredients", 2, False),
        ("1 egg", 0, False),
        ("Method", PSEUDO_HEADING, False),
        ("Mix.", 0, False),
    ]


def test_a_post_about_cookies_is_not_taken_for_a_banner():
    assert lines("<div class='post-1 category-cookie tag-social'>1 egg</div>") == [("1 egg", 0, False)]
    assert lines("<div class='cookie-banner'>We use cookies</div>") == []


def test_headings_of_parts_go_on_with_the_list_and_the_steps():
    tree = parse_tree(
        "<h1>Mantu</h1><h3>Ingredients for Filling</h3><ul><li>2 cups onions</li><li>1 tsp salt</li></ul><h3>Ingredients for the Dip</h3>"
        "<ul><li>1 cup yogurt</li></ul><h3>Method for Filling</h3><h4>Step 1</h4><p>Heat the pan.</p><h4>Step 2</h4><p>Add the salt.</p>"
        "<h3>Making the Mantu</h3><h4>Step 1</h4><p>Roll the dough.</p><h4>Step 2</h4><p>Fold it.</p><h3>Related Recipes:</h3><p>Bake a cake.</p>"
    )
    found = find_in_text(tree, PageHead(tree, "https://a.b/"))

    assert [line for line in found.ingredients if line not in found.groups] == [
        "2 cups onions",
        "1 tsp salt",
        "1 cup yogurt",
    ]
    assert [step for step in found.steps if step != "Making the Mantu"] == [
        "Heat the pan.",
        "Add the salt.",
        "Roll the dough.",
        "Fold it.",
    ]


def test_only_the_first_nodes_of_an_element_are_looked_at_when_they_are_enough():
    tree = parse_tree("<aside>" + "<p>1 egg</p>" * 1000 + "</aside>")
    assert 1 <= inline_text(tree, 8).count("egg") <= 8
    assert inline_text(tree).count("egg") == 1000
