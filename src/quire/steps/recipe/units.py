"""The units of ingredient lines: measures and containers, in words and abbreviations of five languages.

Words are compared in lower case without a final full stop, except `T` (tablespoon) and `t` (teaspoon).
"""

_MEASURES = """
cup cups c tablespoon tablespoons tbsp tbsps tbs tbl tblsp tbls tb teaspoon teaspoons tsp tsps
dessertspoon dessertspoons dsp spoon spoons spoonful spoonfuls tablespoonful tablespoonfuls teaspoonful
teaspoonfuls table-spoonful table-spoonfuls tea-spoonful tea-spoonfuls table-spoon table-spoons
tea-spoon tea-spoons wine-glass wineglass wineglasses ounce ounces oz ozs pound pounds lb lbs gram grams
gramme grammes g gr gm gms kilogram kilograms kilo kilos kg kgs kgms milligram milligrams mg millilitre
millilitres milliliter milliliters ml mls mL centilitre centilitres centiliter cl decilitre decilitres
deciliter dl litre litres liter liters l ltr ltrs pint pints pt pts quart quarts qt qts gallon gallons
gal gals inch inches cm el tl esslöffel teelöffel prise prisen tasse tassen becher päckchen pck pkg pckg
msp messerspitze gramm liter bund dose dosen zehe zehen scheibe scheiben stück stk zweig zweige würfel
schuss spritzer glas gläser blatt blätter cuillère cuillères cuillérée cuillérées tasses gousse gousses
pincée pincées sachet sachets verre verres tranche tranches botte bottes brin brins litre càs càc cs cc
grammes cucchiaio cucchiai cucchiaino cucchiaini tazza tazze spicchio spicchi pizzico bicchiere
bicchieri etto etti grammi litro litri bustina fetta fette mazzetto rametto cucharada cucharadas
cucharadita cucharaditas taza tazas diente dientes pizca gramos litros vaso vasos lata latas rebanada
rebanadas ramita ramitas kilo cda cdta cdas cdtas
"""
_CONTAINERS = """
can cans tin tins jar jars bottle bottles box boxes bag bags package packages packet packets pkg pkgs
pack packs pouch pouches carton cartons container containers tub tubs tube tubes envelope envelopes
punnet punnets sleeve
"""
_PIECES = """
pinch pinches dash dashes splash splashes drizzle drizzles knob knobs handful handfuls drop drops clove
cloves stick sticks slice slices piece pieces bunch bunches sprig sprigs stalk stalks head heads rasher
rashers cube cubes sheet sheets ear ears rib ribs bulb bulbs leaf leaves strip strips scoop scoops
squirt squirts fistful wedge wedges block blocks ball balls bowl bowls loaf loaves part parts portion
portions serving servings sachet sachets glug glugs touch fillet fillets rack racks square squares batch
batches recipe recipes dollop dollops shot shots jigger jiggers thumb nub round rounds
"""
_ALONE = frozenset("""
pinch pinches dash dashes splash drizzle knob handful handfuls sprig sprigs bunch squirt glug few couple
dollop sprinkle sprinkling prise pincée pizzico pizca
""".split())  # fmt: skip
_LONG = (
    ("inch", "piece"),
    ("inch", "pieces"),
    ("inch", "knob"),
    ("cm", "piece"),
    ("fluid", "ounces"),
    ("fluid", "ounce"),
    ("fl", "oz"),
    ("fl", "ozs"),
    ("imperial", "pint"),
    ("imperial", "pints"),
    ("us", "cups"),
    ("us", "cup"),
    ("cuillères", "à", "soupe"),
    ("cuillère", "à", "soupe"),
    ("cuillères", "à", "café"),
    ("cuillère", "à", "café"),
    ("cuillères", "a", "soupe"),
    ("cuillère", "a", "soupe"),
    ("cuillères", "a", "café"),
    ("cuillère", "a", "café"),
    ("c", "à", "s"),
    ("c", "à", "c"),
    ("c", "à", "soupe"),
    ("c", "à", "café"),
    ("cucchiai", "da", "tavola"),
)
SIZED = frozenset(
    "heaped heaping level scant rounded generous good large small big gestrichene gehäufte".split()
)

MEASURES = frozenset(_MEASURES.split())
CONTAINERS = frozenset(_CONTAINERS.split())
UNITS = MEASURES | CONTAINERS | frozenset(_PIECES.split())
# Without a number these stand for one of their kind: `Pinch of salt`.
STAND_ALONE = _ALONE
CONNECTORS = frozenset({"of", "de", "d'", "d’", "di", "von", "du", "des", "del", "della"})
# A single letter or a word with other meanings is a unit only right behind a digit.
AMBIGUOUS = frozenset({"c", "l", "g", "t", "gr", "pt", "tb", "cc", "cs", "el", "tl", "in", "mg", "cl", "dl"})


def unit_key(word: str) -> str:
    """The form in which a word is looked up."""
    bare = word.rstrip(".,")
    return bare if bare in {"T", "t"} else bare.casefold()


def is_unit(word: str) -> bool:
    key = unit_key(word)
    return key in UNITS or key in {"T", "t"}


def count_unit_words(words: list[str]) -> int:
    """How many words at the beginning name a unit: two for `heaped tbsp`, 0 for none."""
    if not words:
        return 0
    keys = [unit_key(word) for word in words[:3]]
    for long in _LONG:
        if tuple(keys[: len(long)]) == long:
            return len(long)
    if keys[0] in SIZED and len(words) > 1 and is_unit(words[1]):
        # `2 large heads of lettuce`, but `2 large cloves`, where the last word would be the name, too.
        return 2
    return 1 if is_unit(words[0]) else 0
