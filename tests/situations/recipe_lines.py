"""Ingredient lines as recipes have them, and the parts into which each must be split."""

# line | quantity | unit | name | notes
LINES = """
2 cups flour | 2 | cups | flour |
1 cup sugar | 1 | cup | sugar |
1/2 cup butter | 1/2 | cup | butter |
1 1/2 cups milk | 1 1/2 | cups | milk |
1½ cups milk | 1½ | cups | milk |
½ tsp salt | ½ | tsp | salt |
¼ teaspoon nutmeg | ¼ | teaspoon | nutmeg |
⅓ cup honey | ⅓ | cup | honey |
1 ⅓ cups water | 1 ⅓ | cups | water |
2⅔ cups oats | 2⅔ | cups | oats |
3/4 cup cocoa powder | 3/4 | cup | cocoa powder |
1-1/2 cups cubed cooked chicken | 1-1/2 | cups | cooked chicken | cubed
1-2/3 cups frozen mixed vegetables, thawed | 1-2/3 | cups | frozen mixed vegetables | thawed
1 and 1/2 cups rice | 1 and 1/2 | cups | rice |
.5 oz yeast | .5 | oz | yeast |
0.25 tsp saffron | 0.25 | tsp | saffron |
1.5 kg potatoes | 1.5 | kg | potatoes |
1,5 kg Mehl | 1,5 | kg | Mehl |
500 g flour | 500 | g | flour |
500g flour | 500 | g | flour |
280ml lukewarm water | 280 | ml | lukewarm water |
2 tbsp olive oil | 2 | tbsp | olive oil |
2 Tbsp. soy sauce | 2 | Tbsp | soy sauce |
2 T butter | 2 | T | butter |
1 t vanilla | 1 | t | vanilla |
3 tsp. baking powder | 3 | tsp | baking powder |
1 Tablespoon honey | 1 | Tablespoon | honey |
2 tablespoons lemon juice | 2 | tablespoons | lemon juice |
1 lb ground beef | 1 | lb | ground beef |
2 lbs. chicken thighs | 2 | lbs | chicken thighs |
1 pound carrots, peeled | 1 | pound | carrots | peeled
8 oz cream cheese, softened | 8 | oz | cream cheese | softened
8 ounces mushrooms, sliced | 8 | ounces | mushrooms | sliced
1 quart chicken stock | 1 | quart | chicken stock |
1 pint heavy cream | 1 | pint | heavy cream |
2 qt water | 2 | qt | water |
1 gallon cider | 1 | gallon | cider |
1 l water | 1 | l | water |
1 L milk | 1 | L | milk |
250 ml cream | 250 | ml | cream |
2 dl Rahm | 2 | dl | Rahm |
5 cl rum | 5 | cl | rum |
2 fl oz rum | 2 | fl oz | rum |
4 fluid ounces gin | 4 | fluid ounces | gin |
1 pinch salt | 1 | pinch | salt |
Pinch of salt |  | Pinch | salt |
A pinch of cayenne pepper | A | pinch | cayenne pepper |
a dash of hot sauce | a | dash | hot sauce |
Dash of nutmeg |  | Dash | nutmeg |
1 clove garlic | 1 | clove | garlic |
3 cloves garlic, minced | 3 | cloves | garlic | minced
5 garlic cloves, minced | 5 |  | garlic cloves | minced
1 can chickpeas | 1 | can | chickpeas |
1 can (14 oz) diced tomatoes | 1 | can | diced tomatoes | 14 oz
1 (14 oz) can diced tomatoes | 1 | can | diced tomatoes | 14 oz
1 (14.5-ounce) can black beans, drained and rinsed | 1 | can | black beans | 14.5-ounce, drained and rinsed
2 (15 oz) cans kidney beans | 2 | cans | kidney beans | 15 oz
1 14-oz can coconut milk | 1 | can | coconut milk | 14-oz
1 28 oz. can crushed tomatoes | 1 | can | crushed tomatoes | 28 oz
2 x 400 g tins chopped tomatoes | 2 x 400 g | tins | chopped tomatoes |
2 x 400g tinned chopped tomatoes | 2 x 400 | g | tinned chopped tomatoes |
400g tin chickpeas | 400 | g | chickpeas | tin
14 oz can black beans | 14 | oz | black beans | can
10 oz. pkg frozen spinach | 10 | oz | frozen spinach | pkg
1 stick butter | 1 | stick | butter |
1 stick unsalted butter, melted | 1 | stick | unsalted butter | melted
1/4 a stick of butter | 1/4 | stick | butter |
2 sticks cinnamon | 2 | sticks | cinnamon |
1 bunch parsley, chopped | 1 | bunch | parsley | chopped
1 head of lettuce | 1 | head | lettuce |
2 sprigs thyme | 2 | sprigs | thyme |
4 slices bacon | 4 | slices | bacon |
3 stalks celery, diced | 3 | stalks | celery | diced
2 rashers bacon | 2 | rashers | bacon |
1 package active dry yeast | 1 | package | active dry yeast |
1 packet gelatin | 1 | packet | gelatin |
1 jar pasta sauce | 1 | jar | pasta sauce |
1 bag tortilla chips | 1 | bag | tortilla chips |
1 bottle red wine | 1 | bottle | red wine |
2 eggs | 2 |  | eggs |
2 large eggs | 2 |  | large eggs |
3 large eggs, beaten | 3 |  | large eggs | beaten
1 egg yolk | 1 |  | egg yolk |
6 Medium Eggs (or 5 Extra Large) | 6 |  | Medium Eggs | or 5 Extra Large
1 onion | 1 |  | onion |
1 onion, finely chopped | 1 |  | onion | finely chopped
1 large onion, peeled and diced | 1 |  | large onion | peeled and diced
1 peeled white onion | 1 |  | white onion | peeled
a white onion | a |  | white onion |
one onion | one |  | onion |
two carrots | two |  | carrots |
1 whole chicken (about 4 lbs) | 1 |  | whole chicken | about 4 lbs
4 chicken breasts | 4 |  | chicken breasts |
4 skinless, boneless chicken breasts | 4 |  | skinless, boneless chicken breasts |
4 boneless, skinless chicken thighs, trimmed | 4 |  | boneless, skinless chicken thighs | trimmed
salt |  |  | salt |
Salt and pepper |  |  | Salt and pepper |
salt and pepper to taste |  |  | salt and pepper | to taste
Salt, to taste |  |  | Salt | to taste
Freshly ground black pepper, to taste |  |  | Freshly ground black pepper | to taste
olive oil for frying |  |  | olive oil | for frying
oil, for greasing |  |  | oil | for greasing
fresh basil |  |  | fresh basil |
Fresh basil leaves, for garnish |  |  | Fresh basil leaves | for garnish
milk |  |  | milk |
butter |  |  | butter |
ketchup (optional) |  |  | ketchup | optional
parsnips(optional) |  |  | parsnips | optional
1 tsp chili flakes (optional) | 1 | tsp | chili flakes | optional
sesame oil (or olive oil) |  |  | sesame oil | or olive oil
1 cup (240 ml) milk | 1 | cup | milk | 240 ml
1 cup/240 ml milk | 1 | cup | milk | 240 ml
2 lb/900g potatoes | 2 | lb | potatoes | 900g
1 cup (2 sticks) butter | 1 | cup | butter | 2 sticks
1 Cup (stick) unsalted butter | 1 | Cup | unsalted butter | stick
40g sugar (3 tbsp) | 40 | g | sugar | 3 tbsp
60ml milk (4 tbsp) (you can use water instead) | 60 | ml | milk | 4 tbsp, you can use water instead
1 cup plus 2 tablespoons flour | 1 | cup | flour | plus 2 tablespoons
1 cup + 2 tbsp flour | 1 | cup | flour | + 2 tbsp
2-3 potatoes | 2-3 |  | potatoes |
2 - 3 potatoes | 2 - 3 |  | potatoes |
2–3 medium-sized potatoes | 2–3 |  | medium-sized potatoes |
2 to 3 carrots | 2 to 3 |  | carrots |
1 to 2 tablespoons oil | 1 to 2 | tablespoons | oil |
1 or 2 lemons | 1 or 2 |  | lemons |
3-4 tbsp water | 3-4 | tbsp | water |
1/2-3/4 cup water | 1/2-3/4 | cup | water |
1/2 to 1 cup broth | 1/2 to 1 | cup | broth |
about 2 cups flour | 2 | cups | flour | about
approximately 3 tbsp oil | 3 | tbsp | oil | approximately
~2 cups stock | 2 | cups | stock | about
around 200 g rice | 200 | g | rice | around
a dozen eggs | a dozen |  | eggs |
half a dozen eggs | half a dozen |  | eggs |
one dozen oysters | one dozen |  | oysters |
half a lemon | half a |  | lemon |
half an onion, sliced | half an |  | onion | sliced
One can of condensed milk. | One | can | condensed milk |
Three or four spoons of chocolate powder | Three or four | spoons | chocolate powder |
Two cups of chicken stock | Two | cups | chicken stock |
A quarter of a pound of sugar. | A quarter | pound | sugar |
Half a tea-spoonful of rose-water. | Half a | tea-spoonful | rose-water |
Three ounces and a half of fresh butter. | Three and a half | ounces | fresh butter |
A pint and a half of milk, or cream and milk. | one and a half | pint | milk | or cream and milk
Six eggs. | Six |  | eggs |
juice of 1 lemon |  |  | juice of 1 lemon |
zest of one orange |  |  | zest of one orange |
2 tablespoons finely chopped parsley | 2 | tablespoons | parsley | finely chopped
1 cup chopped onion | 1 | cup | onion | chopped
1 cup shredded cheddar cheese | 1 | cup | cheddar cheese | shredded
1 1/2 cups mashed bananas (this is around 4-5 bananas) | 1 1/2 | cups | bananas | mashed, this is around 4-5 bananas
1/4 cup crushed walnuts | 1/4 | cup | walnuts | crushed
1 cup packed brown sugar | 1 | cup | brown sugar | packed
1 tablespoon minced fresh ginger | 1 | tablespoon | fresh ginger | minced
1 cup freshly grated Parmesan | 1 | cup | Parmesan | freshly grated
1 can crushed tomatoes | 1 | can | crushed tomatoes |
2 cups crushed tomatoes | 2 | cups | crushed tomatoes |
1 heaped tbsp flour | 1 | heaped tbsp | flour |
1 level teaspoon salt | 1 | level teaspoon | salt |
2 heaping cups spinach | 2 | heaping cups | spinach |
• 2 cups flour | 2 | cups | flour |
- 2 cups flour | 2 | cups | flour |
▢ 1 cup sugar | 1 | cup | sugar |
* 1 egg | 1 |  | egg |
[ ] 2 onions | 2 |  | onions |
l cup sugar | 1 | cup | sugar |
I cup milk | 1 | cup | milk |
l/2 cup oil | 1/2 | cup | oil |
% cup sugar |  | cup | sugar | quantity unclear: %
2 Cloves | 2 |  | Cloves |
1 tbsp Coriander | 1 | tbsp | Coriander |
5/6 Bayleaf | 5/6 |  | Bayleaf |
10+ potatoes | 10+ |  | potatoes |
400 g 00 flour | 400 | g | 00 flour |
Rosemary; dried should be fine, but fresh is obviously better |  |  | Rosemary | dried should be fine, but fresh is obviously better
Butter, a stick or two |  |  | Butter | a stick or two
Mace (Optional): Mace is a dried flower |  |  | Mace | Optional, Mace is a dried flower
200 g Mehl | 200 | g | Mehl |
3 EL Zucker | 3 | EL | Zucker |
1 TL Salz | 1 | TL | Salz |
1 Prise Salz | 1 | Prise | Salz |
2 Zehen Knoblauch, gehackt | 2 | Zehen | Knoblauch | gehackt
1 Bund Petersilie | 1 | Bund | Petersilie |
1 Pck. Vanillezucker | 1 | Pck | Vanillezucker |
2 gousses d'ail | 2 | gousses | ail |
200 g de farine | 200 | g | farine |
3 cuillères à soupe de sucre | 3 | cuillères à soupe | sucre |
1 pincée de sel | 1 | pincée | sel |
20 cl de crème | 20 | cl | crème |
200 g di farina | 200 | g | farina |
2 spicchi di aglio | 2 | spicchi | aglio |
1 pizzico di sale | 1 | pizzico | sale |
2 dientes de ajo | 2 | dientes | ajo |
1 cucharada de aceite | 1 | cucharada | aceite |
3 cups all-purpose flour, plus more for dusting | 3 | cups | all-purpose flour | plus more for dusting
1 cup flour plus extra for dusting | 1 | cup | flour | plus extra for dusting
2 tbsp butter, at room temperature | 2 | tbsp | butter | at room temperature
1 cup walnuts – chopped | 1 | cup | walnuts | chopped
1 ½ tsp or less of Xanthan Gum (optional) | 1 ½ | tsp | Xanthan Gum | or less, optional
1 (8-ounce) package cream cheese, at room temperature | 1 | package | cream cheese | 8-ounce, at room temperature
2 (6 ounce) skinless salmon fillets | 2 |  | skinless salmon fillets | 6 ounce
1 1/2 pounds boneless skinless chicken breasts, cut into 1-inch pieces | 1 1/2 | pounds | boneless skinless chicken breasts | cut into 1-inch pieces
3 tablespoons extra-virgin olive oil, divided | 3 | tablespoons | extra-virgin olive oil | divided
1 small yellow onion, diced (about 1 cup) | 1 |  | small yellow onion | about 1 cup, diced
4 cloves garlic (minced) | 4 | cloves | garlic | minced
1/2 teaspoon kosher salt, or to taste | 1/2 | teaspoon | kosher salt | or to taste
1 teaspoon freshly ground black pepper | 1 | teaspoon | freshly ground black pepper |
2 cups (250g) all-purpose flour | 2 | cups | all-purpose flour | 250g
1 cup (227g; 2 sticks) unsalted butter, cold | 1 | cup | unsalted butter | 227g; 2 sticks, cold
2 large eggs + 1 egg yolk | 2 |  | large eggs + 1 egg yolk |
1 1/2 - 2 cups chicken broth | 1 1/2 - 2 | cups | chicken broth |
one 15-ounce can chickpeas, drained | one | can | chickpeas | 15-ounce, drained
1 15 oz can black beans, rinsed and drained | 1 | can | black beans | 15 oz, rinsed and drained
2 15-ounce cans white beans | 2 | cans | white beans | 15-ounce
3 to 4 pounds beef chuck roast | 3 to 4 | pounds | beef chuck roast |
1/4 cup plus 1 tablespoon maple syrup | 1/4 | cup | maple syrup | plus 1 tablespoon
1 inch piece of ginger, grated | 1 | inch piece | ginger | grated
1-inch piece fresh ginger, peeled | 1 | inch piece | fresh ginger | peeled
1 bay leaf | 1 |  | bay leaf |
2 bay leaves | 2 |  | bay leaves |
1 head cauliflower, cut into florets | 1 | head | cauliflower | cut into florets
1 bunch of kale | 1 | bunch | kale |
6 cups water | 6 | cups | water |
Zest and juice of 1 lemon |  |  | Zest and juice of 1 lemon |
Kosher salt and freshly ground black pepper |  |  | Kosher salt and freshly ground black pepper |
Cooking spray |  |  | Cooking spray |
Flaky sea salt, for finishing |  |  | Flaky sea salt | for finishing
1 scant cup sugar | 1 | scant cup | sugar |
1 generous pinch of saffron | 1 | generous pinch | saffron |
200g/7oz plain flour | 200 | g | plain flour | 7oz
25g/1oz butter, plus extra for greasing | 25 | g | butter | 1oz, plus extra for greasing
1 tbsp olive oil | 1 | tbsp | olive oil |
2 x 400g cans chopped tomatoes | 2 x 400g | cans | chopped tomatoes |
300ml/½ pint double cream | 300 | ml | double cream | ½ pint
small handful of parsley, chopped |  | small handful | parsley | chopped
large knob of butter |  | large knob | butter |
1 red onion thinly sliced | 1 |  | red onion | thinly sliced
2 medium carrots, peeled and chopped | 2 |  | medium carrots | peeled and chopped
¾ cup + 2 tbsp milk | ¾ | cup | milk | + 2 tbsp
100 g (3.5 oz) dark chocolate | 100 | g | dark chocolate | 3.5 oz
1 dl milk | 1 | dl | milk |
500 grams minced beef | 500 | grams | minced beef |
2 celery stalks, chopped | 2 |  | celery stalks | chopped
12 oz. bag chocolate chips | 12 | oz | chocolate chips | bag
1 (1 oz) packet ranch seasoning mix | 1 | packet | ranch seasoning mix | 1 oz
5-6 large basil leaves | 5-6 |  | large basil leaves |
8 slices thick-cut bacon | 8 | slices | thick-cut bacon |
1 cup milk, warm (110°F) | 1 | cup | milk | 110°F, warm
1 tsp each salt and pepper | 1 | tsp | each salt and pepper |
salt & pepper |  |  | salt & pepper |
1 tablespoon (15 ml) soy sauce | 1 | tablespoon | soy sauce | 15 ml
1/2 of a red onion | 1/2 |  | red onion |
half of a lemon | half |  | lemon |
2 Tbs butter | 2 | Tbs | butter |
1 c. sugar | 1 | c | sugar |
1 c sugar | 1 | c | sugar |
3 T. flour | 3 | T | flour |
1 pkg. yeast | 1 | pkg | yeast |
2-1/4 teaspoons yeast | 2-1/4 | teaspoons | yeast |
2¼ tsp instant yeast | 2¼ | tsp | instant yeast |
"""
ROWS = [tuple(part.strip() for part in row.split("|")) for row in LINES.strip().split("\n")]
