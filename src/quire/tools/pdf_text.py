"""Pages of a PDF with text that is not seen: pictures that become pages, and layers on pages that exist.

Works with pikepdf, handed in as `library`, and on its objects. Promises: what a page shows is left as it is,
stream by stream; the graphics state of its content does not reach the layer; the same input gives the same
bytes. The text itself, and where it stands, is the caller's.
"""

from typing import Any, NamedTuple

FONT_NAME = "QuireText"
_DEEPEST_TREE = 64


class TextFont(NamedTuple):
    """The font of all layers of a document. Metrics are in thousandths of its size."""

    data: bytes
    to_unicode: bytes
    to_glyphs: bytes
    advance: int
    ascent: int
    descent: int
    tall: int


class PagePicture(NamedTuple):
    """A picture as it is stored in a PDF. `data` is encoded as `kind` says: jpeg, fax or png, of which only
    the pixels are kept. `across`, `down`, `left` and `bottom` map the unit square onto the page.
    """

    kind: str
    data: bytes
    width: int
    height: int
    components: int
    inverted: bool = False
    profile: bytes = b""
    placed: tuple[float, float, float, float, float, float] = (1, 0, 0, 1, 0, 0)


class PageFrame(NamedTuple):
    """The part of a page that is shown, in its own coordinates, and by how much it is turned clockwise."""

    left: float
    bottom: float
    right: float
    top: float
    rotation: int


def add_font(pdf: Any, font: TextFont, library: Any) -> Any:
    """The font as an object of the document."""
    word, table, row = library.Name, library.Dictionary, library.Array
    name = word(f"/{FONT_NAME}")
    described = pdf.make_indirect(
        table(
            Type=word.FontDescriptor,
            FontName=name,
            Flags=4,
            FontBBox=row([0, font.descent, font.advance, font.ascent]),
            ItalicAngle=0,
            Ascent=font.ascent,
            Descent=font.descent,
            CapHeight=font.tall,
            StemV=80,
            FontFile2=pdf.make_stream(font.data, Length1=len(font.data)),
        )
    )
    letters = pdf.make_indirect(
        table(
            Type=word.Font,
            Subtype=word.CIDFontType2,
            BaseFont=name,
            CIDSystemInfo=table(
                Registry=library.String("Adobe"), Ordering=library.String("Identity"), Supplement=0
            ),
            FontDescriptor=described,
            DW=font.advance,
            CIDToGIDMap=pdf.make_stream(font.to_glyphs),
        )
    )
    return pdf.make_indirect(
        table(
            Type=word.Font,
            Subtype=word.Type0,
            BaseFont=name,
            Encoding=word("/Identity-H"),
            DescendantFonts=row([letters]),
            ToUnicode=pdf.make_stream(font.to_unicode),
        )
    )


def add_picture_page(
    pdf: Any, picture: PagePicture | None, size: tuple[float, float], layer: bytes, font: Any, library: Any
) -> None:
    """A page of `size` points with nothing but the picture and the layer."""
    page = pdf.add_blank_page(page_size=size).obj
    page.Resources = library.Dictionary()
    drawn = b""
    if picture is not None:
        page.Resources.XObject = library.Dictionary(Picture=_build_image(pdf, picture, library))
        numbers = " ".join(_number(one) for one in picture.placed)
        drawn = f"q {numbers} cm /Picture Do Q\n".encode("ascii")
    if layer:
        page.Resources.Font = library.Dictionary({f"/{FONT_NAME}": font})
    page.Contents = pdf.make_stream(drawn + layer)


def add_layer(pdf: Any, page: Any, layer: bytes, font: Any, library: Any) -> None:
    """Put the layer on top of what the page shows."""
    resources = library.Dictionary(find_inherited(page, "/Resources", library) or {})
    fonts = library.Dictionary(resources.get("/Font") or {})
    name = FONT_NAME
    while f"/{name}" in fonts:  # of an earlier layer
        name += "x"
    fonts[f"/{name}"] = font
    resources.Font = fonts
    page.Resources = resources
    if name != FONT_NAME:
        layer = layer.replace(f"/{FONT_NAME} ".encode(), f"/{name} ".encode())
    contents = page.get("/Contents")
    before = list(contents) if isinstance(contents, library.Array) else [contents]
    kept = [one for one in before if isinstance(one, library.Stream)]
    page.Contents = library.Array([pdf.make_stream(b"q\n"), *kept, pdf.make_stream(b"\nQ\n" + layer)])


def find_frame(page: Any, library: Any) -> PageFrame:
    """What is shown of the page: its crop box, as far as it lies within the media box."""
    media = _read_box(find_inherited(page, "/MediaBox", library), library) or (0.0, 0.0, 612.0, 792.0)
    crop = _read_box(find_inherited(page, "/CropBox", library), library) or media
    left, bottom = max(media[0], crop[0]), max(media[1], crop[1])
    right, top = min(media[2], crop[2]), min(media[3], crop[3])
    if right <= left or top <= bottom:
        left, bottom, right, top = media
    turned = find_inherited(page, "/Rotate", library)
    rotation = int(turned) % 360 if isinstance(turned, int | float) or hasattr(turned, "__int__") else 0
    return PageFrame(left, bottom, right, top, rotation - rotation % 90)


def find_inherited(page: Any, key: str, library: Any) -> Any:
    """Of the page itself or of the tree above it, which may contain a cycle."""
    for _ in range(_DEEPEST_TREE):
        found = page.get(key)
        if found is not None:
            return found
        page = page.get("/Parent")
        if not isinstance(page, library.Dictionary):
            return None
    return None


def is_signed(pdf: Any, library: Any) -> bool:
    """Whether somebody has signed the document: any change would break that."""
    form = pdf.Root.get("/AcroForm")
    flags = form.get("/SigFlags") if isinstance(form, library.Dictionary) else None
    signed = isinstance(flags, int) and bool(flags & 1)
    return (signed and _has_signature(form, library)) or "/Perms" in pdf.Root


def _has_signature(form: Any, library: Any) -> bool:
    fields = form.get("/Fields")
    level = list(fields) if isinstance(fields, library.Array) else []
    for _ in range(_DEEPEST_TREE):
        below: list[Any] = []
        for field in (one for one in level[:10_000] if isinstance(one, library.Dictionary)):
            if field.get("/FT") == "/Sig" and field.get("/V") is not None:
                return True
            kids = field.get("/Kids")
            below += list(kids) if isinstance(kids, library.Array) else []
        level = below
    return False


def _build_image(pdf: Any, picture: PagePicture, library: Any) -> Any:
    word, table, row = library.Name, library.Dictionary, library.Array
    colours = word({1: "/DeviceGray", 3: "/DeviceRGB", 4: "/DeviceCMYK"}[picture.components])
    if picture.profile:
        colours = row([word.ICCBased, pdf.make_stream(picture.profile, N=picture.components)])
    image = table(
        Type=word.XObject,
        Subtype=word.Image,
        Width=picture.width,
        Height=picture.height,
        ColorSpace=colours,
        BitsPerComponent=8,
    )
    data = picture.data
    if picture.kind == "jpeg":
        image.Filter = word.DCTDecode
        if picture.inverted:
            image.Decode = row([1, 0] * picture.components)
    elif picture.kind == "fax":
        image.Filter, image.BitsPerComponent = word.CCITTFaxDecode, 1
        image.DecodeParms = table(K=-1, Columns=picture.width, Rows=picture.height)
    else:
        data = read_png_pixels(data)
        image.Filter = word.FlateDecode
        image.DecodeParms = table(
            Predictor=15, Colors=picture.components, BitsPerComponent=8, Columns=picture.width
        )
    stream = library.Stream(pdf, data)
    for key, value in image.items():
        stream[key] = value
    return pdf.make_indirect(stream)


def read_png_pixels(data: bytes) -> bytes:
    """The compressed pixels of a PNG of ours: a PDF stores them in the same form."""
    at, found = 8, []
    while at < len(data):
        length = int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] == b"IDAT":
            found.append(data[at + 8 : at + 8 + length])
        at += length + 12
    return b"".join(found)


def _read_box(found: Any, library: Any) -> tuple[float, float, float, float] | None:
    if not isinstance(found, library.Array) or len(found) != 4:
        return None
    try:
        across = sorted((float(found[0]), float(found[2])))
        down = sorted((float(found[1]), float(found[3])))
    except (TypeError, ValueError):
        return None
    return (across[0], down[0], across[1], down[1])


def _number(value: float) -> str:
    return f"{value:.4f}".rstrip("0").rstrip(".") or "0"
