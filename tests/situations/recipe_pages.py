"""Web pages in the shapes in which recipes are published, built from free recipe texts.

`PAGES` maps the name of a shape to a function from the Markdown of a recipe to the page. `STRATEGIES` says
which reader must find the recipe in it. Serve them from anywhere: `page_bytes(name, markdown)` gives body
and content type.
"""

import json
from collections.abc import Callable
from html import escape

from tests.situations.recipe_texts import RecipeTruth, read_truth

_HOST = "https://kitchen.example"
_NAV = """<nav><ul><li><a href="/">Home</a></li><li><a href="/r">Recipes</a></li><li><a href="#ingredients">Ingredients</a></li>
<li><a href="#directions">Directions</a></li></ul></nav>"""
_COMMENTS = """<div id="comments" class="comments-area"><h2>3 Comments</h2><ol class="comment-list"><li><p>2 cups of sugar are too
many. I would add 1 cup.</p></li><li><p>Bake it longer, for 10 minutes.</p></li></ol><h3>Leave a Reply</h3></div>
<aside class="sidebar"><h3>Related recipes</h3><ul><li>1 pot of stew</li><li>2 pies</li><li>3 soups</li></ul></aside>
<footer><p>© 2024 Kitchen. All rights reserved.</p></footer>"""


def _page(truth: RecipeTruth, head: str, body: str, *, around: bool = True) -> str:
    nav, comments = (_NAV, _COMMENTS) if around else ("", "")
    return (
        f'<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>{escape(truth.title)} | Kitchen Notes</title>'
        f'<meta property="og:site_name" content="Kitchen Notes">{head}<style>li{{color:red}}</style></head>'
        f'<body class="single recipe-with-sidebar">{nav}<main>{body}</main>{comments}<script>var ingredients = "2 cups";</script></body></html>'
    )


def _iso(minutes: int | None) -> str | None:
    return f"PT{minutes // 60}H{minutes % 60}M" if minutes else None


def _schema(truth: RecipeTruth, **changes: object) -> dict[str, object]:
    recipe = {
        "@context": "https://schema.org",
        "@type": "Recipe",
        "name": truth.title,
        "description": truth.description,
        "image": {"@type": "ImageObject", "url": "/pix/photo.jpg"},
        "keywords": ", ".join(truth.tags),
        "author": {"@type": "Person", "name": "A Cook"},
        "prepTime": _iso(truth.prep),
        "cookTime": _iso(truth.cook),
        "recipeYield": truth.servings,
        "recipeIngredient": truth.lines,
        "recipeInstructions": truth.steps,
        **changes,
    }
    return {key: value for key, value in recipe.items() if value}


def _script(document: object, text: str | None = None) -> str:
    body = json.dumps(document, ensure_ascii=False).replace("</", "<\\/") if text is None else text
    return f'<script type="application/ld+json" class="yoast-schema">{body}</script>'


def _steps(truth: RecipeTruth) -> list[dict[str, object]]:
    return [{"@type": "HowToStep", "position": n, "text": step} for n, step in enumerate(truth.steps, 1)]


def _items(lines: list[str], attributes: str = "") -> str:
    return "".join(f"<li{attributes}>{escape(line)}</li>\n" for line in lines)


def _head(truth: RecipeTruth, *, times: str = "p") -> str:
    parts = [f"<h1>{escape(truth.title)}</h1>", f"<p>{escape(truth.description)}</p>"]
    labels = (
        ("Prep time", f"{truth.prep} min" if truth.prep else ""),
        ("Cook time", f"{truth.cook} min" if truth.cook else ""),
        ("Servings", truth.servings),
    )
    parts.extend(f"<{times}><b>{name}:</b> {escape(value)}</{times}>" for name, value in labels if value)
    return "\n".join(parts)


def _notes(truth: RecipeTruth, tag: str = "h2") -> str:
    lines = "".join(f"<p>{escape(note)}</p>" for note in truth.notes)
    return f"<{tag}>Notes</{tag}>{lines}" if truth.notes else ""


def json_ld_object(truth: RecipeTruth) -> str:
    return _page(truth, _script(_schema(truth)), f"<h1>{escape(truth.title)}</h1><p>Words.</p>")


def json_ld_graph(truth: RecipeTruth) -> str:
    recipe = _schema(
        truth, **{"@id": "#recipe", "image": {"@id": "#photo"}, "recipeInstructions": _steps(truth)}
    )
    graph = [
        {"@type": "WebSite", "name": "Kitchen Notes", "url": _HOST},
        {"@type": ["WebPage", "FAQPage"], "@id": "#page", "name": f"{truth.title} | Kitchen Notes"},
        {"@type": "ImageObject", "@id": "#photo", "url": f"{_HOST}/pix/photo.jpg"},
        recipe,
        {"@type": "Person", "name": "A Cook"},
    ]
    return _page(truth, _script({"@context": "https://schema.org", "@graph": graph}), "<p>Words.</p>")


def json_ld_sections(truth: RecipeTruth) -> str:
    half = max(1, len(truth.steps) // 2)
    steps = _steps(truth)
    sections = [
        {"@type": "HowToSection", "name": "First part", "itemListElement": steps[:half]},
        {"@type": "HowToSection", "name": "Second part", "itemListElement": steps[half:]},
    ]
    kinds = {"@type": ["NewsArticle", "http://schema.org/Recipe"], "recipeInstructions": sections}
    return _page(truth, _script([_schema(truth, **kinds, recipeYield=[truth.servings])]), "<p>Words.</p>")


def json_ld_in_html(truth: RecipeTruth) -> str:
    html = "<ol>" + "".join(f"<li><p>{escape(step)}</p></li>" for step in truth.steps) + "</ol>"
    lines = [f"<span>{escape(line)}</span>" for line in truth.lines]
    return _page(
        truth, _script(_schema(truth, recipeInstructions=html, recipeIngredient=lines)), "<p>Words.</p>"
    )


def json_ld_as_text(truth: RecipeTruth) -> str:
    numbered = "\n".join(f"{n}. {step}" for n, step in enumerate(truth.steps, 1))
    changes = {
        "recipeInstructions": numbered,
        "recipeIngredient": None,
        "ingredients": "\n".join(truth.lines),
    }
    return _page(truth, _script(_schema(truth, **changes)), "<p>Words.</p>")


def json_ld_broken(truth: RecipeTruth) -> str:
    text = json.dumps(_schema(truth, recipeInstructions=_steps(truth)), indent=1, ensure_ascii=False)
    text = (
        text.replace("\n ]", ",\n ]")
        .replace("\n}", ",\n}")
        .replace('"description": "', '"description": "\n\t')
    )
    text = text.replace("</", "<\\/")
    return _page(truth, _script(None, f"\n<!--//--><![CDATA[//><!--\n{text};\n//--><!]]>\n"), "<p>Words.</p>")


def json_ld_several(truth: RecipeTruth) -> str:
    teaser = {"@type": "Recipe", "name": "Another dish", "url": f"{_HOST}/another", "image": "/a.jpg"}
    other = _schema(
        RecipeTruth("Plain toast"),
        recipeIngredient=["2 slices bread", *(f"{n} g butter" for n in range(40))],
        recipeInstructions=["Toast.", "Butter."],
    )
    scripts = _script({"@context": "https://schema.org", "@type": "Organization", "name": "Kitchen"})
    scripts += (
        _script([teaser, teaser]) + _script(other) + _script(_schema(truth)) + _script(None, "{not json")
    )
    return _page(truth, scripts, f"<h1>{escape(truth.title)}</h1>")


def json_ld_nested(truth: RecipeTruth) -> str:
    page = {"@context": {"@vocab": "http://schema.org/"}, "@type": "WebPage", "mainEntity": _schema(truth)}
    return _page(truth, _script({"@type": "ItemPage", "hasPart": [{"item": page}]}), "<p>Words.</p>")


def json_ld_without_steps(truth: RecipeTruth) -> str:
    body = f"{_head(truth)}<h2>Method</h2><ol>{_items(truth.steps)}</ol>"
    return _page(truth, _script(_schema(truth, recipeInstructions=None)), body)


def microdata(truth: RecipeTruth) -> str:
    lines = "".join(
        f'<li><label><input type="checkbox"> <span itemprop="recipeIngredient">{escape(line)}</span></label></li>'
        for line in truth.lines
    )
    prep = f'<time itemprop="prepTime" datetime="{_iso(truth.prep)}">soon</time>' if truth.prep else ""
    cook = f'<meta itemprop="cookTime" content="{_iso(truth.cook)}">' if truth.cook else ""
    served = f'<span itemprop="recipeYield">{escape(truth.servings)}</span>' if truth.servings else ""
    body = f"""<div itemscope itemtype="http://schema.org/Recipe"><h1 itemprop="name">{escape(truth.title)}</h1>
<img itemprop="image" src="/pix/photo.jpg"><div itemprop="author" itemscope itemtype="http://schema.org/Person"><span itemprop="name">A Cook</span></div>
{prep}{cook}{served}<p itemprop="description">{escape(truth.description)}</p><h2>Ingredients</h2><ul>{lines}</ul>
<h2>Directions</h2><ol itemprop="recipeInstructions">{_items(truth.steps)}</ol></div>"""
    return _page(truth, "", body)


def microdata_itemref(truth: RecipeTruth) -> str:
    steps = "".join(
        f'<div itemprop="recipeInstructions" itemscope itemtype="https://schema.org/HowToStep"><span class="number">{n}</span>'
        f'<div itemprop="text">{escape(step)}</div></div>'
        for n, step in enumerate(truth.steps, 1)
    )
    body = f"""<section itemscope itemtype="https://schema.org/Recipe" itemref="list steps"><h2 itemprop="name">{escape(truth.title)}</h2>
<link itemprop="image" href="/pix/photo.jpg"></section><ul id="list">{_items(truth.lines, ' itemprop="ingredients"')}</ul>
<div id="steps">{steps}</div>"""
    return _page(truth, "", body)


def rdfa(truth: RecipeTruth) -> str:
    lines = "".join(f'<span property="v:ingredient">{escape(line)}</span><br>' for line in truth.lines)
    steps = "".join(f'<p property="v:instructions">{escape(step)}</p>' for step in truth.steps)
    body = f'<div xmlns:v="http://rdf.data-vocabulary.org/#" typeof="v:Recipe"><h1 property="v:name">{escape(truth.title)}</h1>{lines}{steps}</div>'
    return _page(truth, "", body)


def hrecipe(truth: RecipeTruth) -> str:
    served = f'<span class="yield">{escape(truth.servings)}</span>' if truth.servings else ""
    body = f"""<div class="post hrecipe"><h2 class="fn">{escape(truth.title)}</h2>{served}<ul>{_items(truth.lines, ' class="ingredient"')}</ul>
<div class="instructions"><ol>{_items(truth.steps)}</ol></div></div>"""
    return _page(truth, "", body)


def plugin_classes(truth: RecipeTruth) -> str:
    groups = ""
    for name, lines in truth.groups():
        items = "".join(
            '<li class="wprm-recipe-ingredient"><span class="wprm-checkbox-container">▢ </span>'
            + " ".join(f"<span>{escape(word)}</span>" for word in line.split(" ", 2))
            + "</li>"
            for line in lines
        )
        heading = f'<h4 class="wprm-recipe-group-name">{escape(name)}</h4>' if name else ""
        groups += f'<div class="wprm-recipe-ingredient-group">{heading}<ul class="wprm-recipe-ingredients">{items}</ul></div>'
    steps = "".join(
        f'<li class="wprm-recipe-instruction"><div class="wprm-recipe-instruction-text"><span>{escape(step)}</span></div></li>'
        for step in truth.steps
    )
    body = f"""<h1>The best recipe of my life</h1><p>Once upon a time there were 2 cups.</p><h2>Ingredient notes</h2><p>Use good ones.</p>
<div class="wprm-recipe-container"><h2 class="wprm-recipe-name">{escape(truth.title)}</h2>
<span class="wprm-recipe-prep-time-label">Prep Time</span> <span>{f"{truth.prep} mins" if truth.prep else ""}</span>
<div class="wprm-recipe-ingredients-container"><h3>Ingredients</h3>{groups}</div>
<div class="wprm-recipe-instructions-container"><h3>Instructions</h3><ul class="wprm-recipe-instructions">{steps}</ul></div></div>"""
    return _page(truth, "", body)


def blog_headings(truth: RecipeTruth) -> str:
    groups = ""
    for name, lines in truth.groups():
        groups += (f"<h3>{escape(name)}</h3>" if name else "") + f"<ul>{_items(lines)}</ul>"
    intro = f"<p>{escape(truth.intro)}</p>" if truth.intro else ""
    body = f"<article>{_head(truth)}<h2>Ingredients</h2>{intro}{groups}<h2>Directions</h2><ol>{_items(truth.steps)}</ol>{_notes(truth)}</article>"
    return _page(truth, "", body)


def line_breaks(truth: RecipeTruth) -> str:
    lines = "<br/>\n".join(escape(line) for line in truth.lines)
    steps = "<br>\n<br>\n".join(escape(step) for step in truth.steps)
    body = f"{_head(truth, times='div')}<p><strong>Ingredients:</strong><br>{lines}</p><p><b>Directions</b></p><p>{steps}</p>{_notes(truth)}"
    return _page(truth, "", body)


def table(truth: RecipeTruth) -> str:
    rows = ""
    for line in truth.lines:
        amount, _, rest = line.partition(" ")
        rows += (
            f"<tr><td>{escape(amount)}</td><td>{escape(rest)}</td></tr>"
            if rest and amount[0].isdigit()
            else f"<tr><td></td><td>{escape(line)}</td></tr>"
        )
    steps = "".join(f"<tr><td>{n}.</td><td>{escape(step)}</td></tr>" for n, step in enumerate(truth.steps, 1))
    body = f"""{_head(truth)}<h2>Ingredients</h2><table><thead><tr><th>Amount</th><th>Ingredient</th></tr></thead><tbody>{rows}</tbody></table>
<h2>Preparation</h2><table>{steps}</table>"""
    return _page(truth, "", body)


def print_page(truth: RecipeTruth) -> str:
    lines = "".join(f"<div>{escape(line)}</div>" for line in truth.lines)
    steps = "".join(f"<div>{n}. {escape(step)}</div>" for n, step in enumerate(truth.steps, 1))
    body = f"<div><b>{escape(truth.title)}</b></div><div><b>INGREDIENTS</b></div>{lines}<div><b>DIRECTIONS</b></div>{steps}<div>Printed from Kitchen Notes</div>"
    return _page(truth, "", body, around=False)


def definition_list(truth: RecipeTruth) -> str:
    lines = "".join(f"<dd>{escape(line)}</dd>" for line in truth.lines)
    steps = "".join(f"<dd>{escape(step)}</dd>" for step in truth.steps)
    return _page(
        truth, "", f"{_head(truth)}<dl><dt>What you need</dt>{lines}<dt>How to make it</dt>{steps}</dl>"
    )


def german_headings(truth: RecipeTruth) -> str:
    body = f"""<h1>{escape(truth.title)}</h1><h3>Zutaten für 4 Personen</h3><ul>{_items(truth.lines)}</ul><h3>Zubereitung</h3>
{"".join(f"<p>{escape(step)}</p>" for step in truth.steps)}<h3>Kommentare</h3><p>Lecker!</p>"""
    return _page(truth, "", body)


def tag_soup(truth: RecipeTruth) -> str:
    lines = "".join(f"<LI><FONT color=red>{escape(line)}" for line in truth.lines)
    steps = "".join(f"<LI>{escape(step)}" for step in truth.steps)
    return f"""<HTML><HEAD><TITLE>{escape(truth.title)}</TITLE><META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=iso-8859-1">
</HEAD><BODY BGCOLOR=white><TABLE width=600><TR><TD><CENTER><H1>{escape(truth.title)}</H1></CENTER><P><B>Ingredients</B><UL>{lines}</UL>
<P><B>Method</B><OL>{steps}</OL><HR></TD></TR></TABLE></BODY>"""


def step_blocks(truth: RecipeTruth) -> str:
    lines = "".join(f'<div class="ingredients-item"><p>{escape(line)}</p></div>' for line in truth.lines)
    steps = "".join(
        f'<div class="step"><h4>Step {n}</h4><p>{escape(step)}</p></div>'
        for n, step in enumerate(truth.steps, 1)
    )
    body = f'{_head(truth)}<section class="ingredients-section"><h2>Ingredients</h2>{lines}</section><section class="steps"><h2>Steps</h2>{steps}</section>'
    return _page(truth, "", body)


_SHAPES: dict[str, tuple[Callable[[RecipeTruth], str], str]] = {
    "json_ld_object": (json_ld_object, "schema_org_json_ld"),
    "json_ld_graph": (json_ld_graph, "schema_org_json_ld"),
    "json_ld_sections": (json_ld_sections, "schema_org_json_ld"),
    "json_ld_in_html": (json_ld_in_html, "schema_org_json_ld"),
    "json_ld_as_text": (json_ld_as_text, "schema_org_json_ld"),
    "json_ld_broken": (json_ld_broken, "schema_org_json_ld"),
    "json_ld_several": (json_ld_several, "schema_org_json_ld"),
    "json_ld_nested": (json_ld_nested, "schema_org_json_ld"),
    "json_ld_without_steps": (json_ld_without_steps, "schema_org_json_ld"),
    "microdata": (microdata, "microdata"),
    "microdata_itemref": (microdata_itemref, "microdata"),
    "rdfa": (rdfa, "microdata"),
    "hrecipe": (hrecipe, "microdata"),
    "plugin_classes": (plugin_classes, "heuristic"),
    "blog_headings": (blog_headings, "heuristic"),
    "line_breaks": (line_breaks, "heuristic"),
    "table": (table, "heuristic"),
    "print_page": (print_page, "heuristic"),
    "definition_list": (definition_list, "heuristic"),
    "german_headings": (german_headings, "heuristic"),
    "tag_soup": (tag_soup, "heuristic"),
    "step_blocks": (step_blocks, "heuristic"),
}
STRATEGIES = {name: strategy for name, (_, strategy) in _SHAPES.items()}


def _of_markdown(shape: Callable[[RecipeTruth], str]) -> Callable[[str], str]:
    return lambda markdown: shape(read_truth(markdown))


PAGES: dict[str, Callable[[str], str]] = {name: _of_markdown(shape) for name, (shape, _) in _SHAPES.items()}


def page_bytes(name: str, markdown: str) -> tuple[bytes, str]:
    """Body and content type, as a server sends them; the tag soup is in the encoding of its time."""
    page = PAGES[name](markdown)
    if name == "tag_soup":
        return page.encode("cp1252", "xmlcharrefreplace"), "text/html"
    return page.encode("utf-8"), "text/html; charset=utf-8"
