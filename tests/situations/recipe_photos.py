"""Photos of recipe cards, drawn: small, so that reading one takes less than a second."""

import io

from PIL import Image, ImageDraw, ImageFont

CARD = """Grandma's Pancakes
Serves 4
Ingredients
2 eggs
1 cup flour
1 cup milk
1 tbsp sugar
Directions
1. Mix the eggs and the milk in a bowl.
2. Add the flour and the sugar.
3. Fry small cakes in butter until golden.
"""
SIZE = (900, 740)


def card_photo(text: str = CARD, *, kind: str = "PNG", orientation: int = 1) -> bytes:
    """`orientation` is the EXIF tag with which the picture is stored on its side (6: turned right)."""
    picture = Image.new("L", SIZE, 255)
    font = ImageFont.load_default(size=34)
    ImageDraw.Draw(picture).multiline_text((40, 30), text, fill=0, font=font, spacing=16)
    exif = Image.Exif()
    if orientation == 6:
        picture = picture.rotate(90, expand=True)
        exif[0x0112] = 6
    stored = io.BytesIO()
    picture.save(stored, kind, **({"exif": exif} if kind == "JPEG" else {}))
    return stored.getvalue()
