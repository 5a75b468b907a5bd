"""Pictures of words, drawn when a test needs them: a small one is read in a tenth of a second."""

from io import BytesIO
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

SIZE = 48


def draw_words(text: str, form: str = "PNG") -> bytes:
    """Black on white, as large as needed."""
    font = ImageFont.load_default(SIZE)
    lines = text.split("\n")
    width = max(int(font.getlength(line)) for line in lines) + 60
    picture = Image.new("L", (width, len(lines) * SIZE * 3 // 2 + 60), 255)
    ImageDraw.Draw(picture).multiline_text((30, 30), text, fill=0, font=font, spacing=SIZE // 2)
    found = BytesIO()
    picture.save(found, form)
    return found.getvalue()


def save_words(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(draw_words(text))
    return path
