"""The words by which lines of recipes are told apart: headings of their parts, and words of the kitchen.

English first; the headings also in German, French, Italian, Spanish, Dutch and Portuguese.
"""

import re
from enum import StrEnum

from quire.steps.recipe.ingredient import clean_line, parse_ingredient
from quire.steps.recipe.quantity import read_quantity
from quire.steps.recipe.units import STAND_ALONE, unit_key


class Part(StrEnum):
    """Parts of a recipe that have headings."""

    INGREDIENTS = "ingredients"
    STEPS = "steps"
    NOTES = "notes"
    OTHER = "other"


_PARTS = (
    (
        Part.INGREDIENTS,
        (
            r"(?:the |recipe )?ingredients?(?: list| needed| you(?:'|’)?ll need)?"
            r"(?: (?:for|to make) .{1,50})?"
            r"|(?:what )?you(?:'|’)?(?: wi)?ll need|what you need|shopping list"
            r"|zutaten(?:liste)?(?: für .{1,40})?|das brauchst du"
            r"|(?:les )?ingr[ée]dients?(?: pour .{1,40})?|ingredienti(?: per .{1,40})?"
            r"|ingredientes(?: para .{1,40})?|ingredi[ëe]nten(?: voor .{1,40})?"
        ),
    ),
    (
        Part.STEPS,
        (
            r"(?:the |recipe |cooking |step[- ]by[- ]step |baking )?(?:directions?"
            r"|instructions?)(?: for .{1,50})?"
            r"|(?:cooking )?(?:method|procedure)(?: of preparation| for .{1,50})?"
            r"|preparation(?: (?:method|steps|instructions))?|steps?|how to (?:make|cook|prepare"
            r"|bake).{0,60}|to make(?: it)?|let(?:'|’)s (?:cook|make it)|what to do|how it(?:'"
            r"|’)s made"
            r"|(?:die )?zubereitung|anleitung|und so geht(?:'|’)?s|so geht(?:'|’)?s"
            r"|(?:la )?pr[ée]paration|r[ée]alisation|[ée]tapes(?: de .{1,30})?|preparazione"
            r"|procedimento"
            r"|preparaci[óo]n|elaboraci[óo]n|instrucciones|pasos|bereiding(?:swijze)?|modo de preparo|preparo"
        ),
    ),
    (
        Part.NOTES,
        (
            r"(?:recipe |cook(?:'|’)?s(?:'|’)? |chef(?:'|’)?s(?:'|’)? |baker(?:'|’)?s(?:'|’)? |a "
            r"|some |my )?(?:notes?|tips?)(?: (?:and|&|\+) (?:notes?|tips?|tricks|variations))?"
            r"|closing remarks|tips (?:and|&) tricks|variations?"
            r"|substitutions?|storage|hinweise?|tipps?|anmerkung(?:en)?|remarques?|notas?|note"
            r"|consigli|astuces?|expert tips|make ahead|serving suggestions?"
        ),
    ),
    (
        Part.OTHER,
        (
            r"nutrition(?:al)?(?: facts| info(?:rmation)?| values?)?|(?:\d+ )?(?:comments?|reviews?"
            r"|responses?|thoughts?)(?: on .{1,80})?|leave a (?:reply|comment|review)"
            r"|related(?: recipes| posts| articles)?"
            r"|you (?:may|might) also (?:like|enjoy).{0,30}|more .{0,40}recipes?.{0,30}|equipment"
            r"|tools|special equipment|share(?: this)?.{0,30}|about the author"
            r"|did you make this.{0,30}|tags|video|faqs?|frequently asked questions|print(?: recipe)?"
            r"|rate this recipe"
            r"|categories|subscribe.{0,40}|similar recipes.{0,20}|popular recipes|latest recipes"
            r"|newsletter|kommentare|nährwerte.{0,30}|n[äa]hrwertangaben|advertisement"
            r"|filed under.{0,60}|posted (?:in|on|by).{0,60}|©.{0,100}|copyright.{0,100}"
            r"|print(?:ed)?(?: (?:from|by|this)\b.{0,80})?|(?:recipe |adapted |originally |source"
            r"|published )(?:from|by|published)\b.{0,80}|source:.{0,80}|read more.{0,40}"
            r"|https?://\S{1,80}|description|about|story|recent posts|archives?|search"
            r"|follow us.{0,30}|get the recipe|pin (?:it|this).{0,30}|course|cuisine|author|yield"
            r"|servings"
        ),
    ),
)  # fmt: skip
_PATTERNS = tuple((part, re.compile(rf"(?:{pattern})", re.IGNORECASE)) for part, pattern in _PARTS)
_LONGEST_HEADING = 90
_DECORATION = " \t*#=_~-–—•:.!|>\"'»«"
_BRACKETS = re.compile(r"\s?\([^()]{0,60}\)$")

VERBS = frozenset("""
add adjust allow apply arrange assemble bake baste beat begin blanch blend boil braise break bring broil
brown brush carve check chill chop coat combine cook cool core cover cream crack crumble crush cube cut
deglaze dice dip discard dissolve distribute divide do dot drain dredge drizzle drop dry dunk dust empty
enjoy ensure feed fill filter flatten flip fluff fold form freeze fry garnish gently glaze grate grease
grill grind halve heat hold immerse increase incorporate insert invert juice keep knead knock ladle lay
leave let lift light line loosen lower make marinate mash measure melt microwave mince mix moisten open
pack parboil pat peel pierce pinch pit place poach pop pour prep prepare preheat press prick process
pull puree purée put quarter reduce refrigerate reheat remove repeat reserve rest return rinse roast
roll rub sauté saute scald scatter scoop scrape scrub sear season seal separate serve set shake shape
shred sieve sift simmer skim slice slide slowly smooth soak soften spoon spray spread sprinkle squeeze
stack stand start steam steep stew stir store strain stretch strip stuff switch swirl take taste tear
thicken thread tie tilt tip toast top toss transfer trim truss turn twist unfold uncover use warm wash
weigh whip whisk wipe work wrap yield zest backen braten geben gießen kochen kneten mischen rühren
schneiden schälen unterheben verrühren vermengen vorheizen würfeln
""".split())  # fmt: skip
_LEADS = frozenset("""
in on once when while meanwhile after before next then now begin finally first using to with at as if for
preheat lightly gently slowly carefully thinly finely roughly optionally just cook repeat until evenly
immediately have you your the a this
""".split())  # fmt: skip
_KITCHEN = VERBS | frozenset("""
oven bowl pan pot skillet saucepan minutes minute hour hours degrees tablespoon tablespoons teaspoon
teaspoons cup cups butter flour sugar salt pepper oil egg eggs garlic onion milk water cream heat medium
ingredients directions recipe servings serves ounces grams tbsp tsp dough batter sauce simmering boiling
baking cheese chicken
""".split())  # fmt: skip
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*")
_PART_OF_FRUIT = re.compile(
    r"(?:(?:finely |freshly )?grated )?(?:zest|juice|rind|peel)(?: (?:and|&) (?:zest|juice|rind))? "
    r"(?:of|from) (?:a|an|one|two|three|half|\d|[½¼¾])",
    re.IGNORECASE,
)
_NUMBERED = re.compile(r"(?:step\s?)?\d{1,2}\s?[.):]\s", re.IGNORECASE)


def part_of_heading(text: str) -> Part | None:
    """The part that a line announces, if it is a heading of one."""
    if len(text) > _LONGEST_HEADING:
        return None
    bare = text.strip(_DECORATION).removesuffix("▢").strip(_DECORATION)
    bare = _BRACKETS.sub("", re.sub(r"^\W+", "", bare)).strip(_DECORATION)
    if not bare:
        return None
    return next((part for part, pattern in _PATTERNS if pattern.fullmatch(bare)), None)


def ingredient_likeness(line: str) -> float:
    """From 0 to 1: how much the line looks like an ingredient."""
    text = clean_line(line)
    words = text.split()
    if not words or len(words) > 40:
        return 0.0
    if _NUMBERED.match(text) and step_likeness(text) > 0.5:
        return 0.1
    if _PART_OF_FRUIT.match(text) and len(words) <= 14:
        return 1.0
    quantity = read_quantity(text)
    ends = text.endswith((".", "!")) and len(words) > 9
    if quantity and not quantity.in_words:
        parts = parse_ingredient(text)
        return 0.4 if ends else 1.0 if parts.unit else 0.8 if len(words) <= 14 else 0.4
    if unit_key(words[0]) in STAND_ALONE and len(words) <= 8:
        return 0.8
    if words[0].casefold() in VERBS and len(words) > 2 and step_likeness(text) > 0.5:
        return 0.1
    if quantity:
        return 0.7 if len(words) <= 14 and not ends else 0.2
    if ends or len(words) > 14:
        return 0.1
    return 0.5 if len(words) <= 6 else 0.3


def step_likeness(line: str) -> float:
    """From 0 to 1: how much the line looks like a step."""
    text = _NUMBERED.sub("", clean_line(line), count=1) if _NUMBERED.match(line) else clean_line(line)
    words = [word.casefold() for word in _WORD.findall(text[:600])]
    if not words:
        return 0.0
    if (words[0] in STAND_ALONE and words[1:2] == ["of"]) or _PART_OF_FRUIT.match(text):
        return 0.1
    if words[0] in VERBS and not read_quantity(text):
        return 1.0 if len(words) > 2 else 0.7
    verbs = sum(1 for word in words if word in VERBS)
    if len(words) >= 5 and verbs and (words[0] in _LEADS or text.rstrip().endswith((".", "!", ")"))):
        return 0.8 if not read_quantity(text) else 0.5
    if len(words) >= 8 and verbs:
        return 0.5
    return 0.3 if len(words) >= 8 else 0.1


def count_kitchen_words(line: str) -> int:
    """How many words of the kitchen are in the line."""
    return sum(1 for word in _WORD.findall(line[:2000]) if word.casefold() in _KITCHEN)
