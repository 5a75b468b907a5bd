"""Web pictures: their smaller copies, their reference, and what the corpus index expects of each file."""

import json

import pytest
from PIL import Image

from quire.model.errors import Reject
from quire.model.ids import named_ulid
from quire.tools.ipfs import file_cid

SIZES = {
    "Landscape_1.jpg": (1800, 1200),
    "Landscape_3.jpg": (1800, 1200),
    "Landscape_6.jpg": (1800, 1200),
    "Landscape_8.jpg": (1800, 1200),
    "exif.png": (512, 512),
    "invalid-exif.jpg": (200, 200),
    "pil_sample_cmyk.jpg": (100, 100),
    "phototest-rotated-R.png": (480, 640),
}
REFUSED = {
    "truncated.jpg": "truncated",
    "bomb_50000x50000.png": "too_many_pixels",
    "decompression_bomb.gif": "unsupported_format",
}


def by_role(output):
    return {made.role: made for made in output.files}


def test_every_picture_of_the_corpus_is_in_one_of_the_tables(corpus):
    assert {path.name for path in (corpus / "image").iterdir()} == SIZES.keys() | REFUSED.keys()


@pytest.mark.parametrize("name", SIZES)
def test_copies_are_made_only_of_larger_pictures(name, corpus, run_step):
    output = run_step("image_variants", corpus / "image" / name)

    assert (output.facts["width"], output.facts["height"]) == SIZES[name]
    longest = max(SIZES[name])
    wanted = {
        role: side for role, side in {"thumb": 200, "medium": 1288, "large": 2400}.items() if longest > side
    }
    made = by_role(output)
    assert made.keys() == {*wanted, "ref"}
    for role, side in wanted.items():
        with Image.open(made[role].path) as picture:
            assert max(picture.size) == side
            assert picture.size == (made[role].facts["width"], made[role].facts["height"])
            assert picture.size[0] / picture.size[1] == pytest.approx(
                SIZES[name][0] / SIZES[name][1], rel=0.01
            )
            assert picture.mode in {"RGB", "L"}
            assert not picture.info.get("progressive")
            assert not {"exif", "icc_profile"} & picture.info.keys()


@pytest.mark.parametrize("name", REFUSED)
def test_damaged_and_oversized_pictures_are_refused_for_good(name, corpus, run_step):
    with pytest.raises(Reject) as refusal:
        run_step("image_variants", corpus / "image" / name)

    assert refusal.value.code == REFUSED[name]


@pytest.mark.parametrize("number", [3, 6, 8])
@pytest.mark.parametrize("role", ["medium", "thumb"])
def test_four_orientations_give_the_same_upright_picture(number, role, corpus, run_step, difference):
    upright = by_role(run_step("image_variants", corpus / "image" / "Landscape_1.jpg"))
    turned = by_role(run_step("image_variants", corpus / "image" / f"Landscape_{number}.jpg"))

    # The files were compressed apart, so some noise is left; upside down the difference is over 60.
    assert difference(upright[role].path, turned[role].path) < 6


def test_the_reference_says_where_and_what_the_picture_is(corpus, run_step):
    source = corpus / "image" / "Landscape_1.jpg"
    output = run_step("image_variants", source, name="ünter p1.jpg", public_url="https://cdn.example/")
    made = by_role(output)["ref"]
    cid = file_cid(source)

    assert made.content_type == "application/json"
    text = made.path.read_text(encoding="utf-8")
    reference = json.loads(text)
    assert reference == {
        "url": f"https://cdn.example/asset/{named_ulid(cid)}",
        "ipfs_cid": cid,
        "type": "image/jpeg",
        "size": source.stat().st_size,
        "filename": "ünter p1.jpg",
    }
    assert list(reference) == ["url", "ipfs_cid", "type", "size", "filename"]
    assert text == json.dumps(reference, indent=2, ensure_ascii=False)
    assert output.facts["asset_id"] == named_ulid(cid)


def test_a_cid_that_came_with_the_file_is_kept_and_does_not_choose_the_address(corpus, run_step):
    source = corpus / "image" / "exif.png"
    output = run_step("image_variants", source, cid="bafkreiknown")

    reference = json.loads(by_role(output)["ref"].path.read_bytes())
    assert reference["ipfs_cid"] == "bafkreiknown"
    assert reference["url"].endswith(named_ulid(file_cid(source)))


def test_a_picture_becomes_an_asset_with_its_upright_size(corpus, run_step):
    output = run_step("image_variants", corpus / "image" / "Landscape_6.jpg")

    assert output.asset.id == output.facts["asset_id"]
    assert (output.asset.width, output.asset.height) == (1800, 1200)
    assert (output.asset.content_type, output.asset.cid) == ("image/jpeg", output.facts["cid"])


@pytest.mark.parametrize("name", SIZES)
def test_a_repeated_run_gives_the_same_bytes(name, corpus, run_step):
    first = run_step("image_variants", corpus / "image" / name)
    second = run_step("image_variants", corpus / "image" / name)

    assert [made.path.read_bytes() for made in first.files] == [
        made.path.read_bytes() for made in second.files
    ]
    assert first.facts == second.facts


def test_a_large_picture_gets_all_three_copies_and_a_colour_profile_is_honoured(run_step, mean, tmp_path):
    import pyvips

    plain = pyvips.Image.black(3000, 1000, bands=3).copy(interpretation="srgb").linear(1, [200, 60, 40])
    wide = plain.cast("uchar").icc_transform("p3", input_profile="srgb")
    wide.jpegsave(str(tmp_path / "p3.jpg"), Q=100)

    made = by_role(run_step("image_variants", tmp_path / "p3.jpg"))

    assert made.keys() == {"thumb", "medium", "large", "ref"}
    assert made["large"].facts == {"width": 2400, "height": 800}
    for role in ("thumb", "medium", "large"):
        assert mean(made[role].path) == pytest.approx((200, 60, 40), abs=3)
    assert mean(tmp_path / "p3.jpg") != pytest.approx((200, 60, 40), abs=3)  # the profile was needed


@pytest.mark.parametrize("ending", ["png", "webp"])
def test_transparency_becomes_white(ending, run_step, mean, tmp_path):
    picture = Image.new("RGBA", (300, 300), (255, 0, 0, 0))
    picture.save(tmp_path / f"clear.{ending}", lossless=True)

    made = by_role(run_step("image_variants", tmp_path / f"clear.{ending}"))

    assert mean(made["thumb"].path) == pytest.approx((255, 255, 255), abs=2)


def test_sixteen_bit_png_keeps_its_brightness(run_step, mean, tmp_path):
    Image.new("I;16", (300, 300), 106 * 256).save(tmp_path / "deep.png")

    made = by_role(run_step("image_variants", tmp_path / "deep.png"))

    assert mean(made["thumb"].path) == pytest.approx((106,), abs=2)


def test_a_cmyk_picture_is_not_inverted(corpus, run_step, mean, tmp_path):
    with Image.open(corpus / "image" / "pil_sample_cmyk.jpg") as picture:
        icc = picture.info.get("icc_profile")
        picture.resize((400, 400)).save(tmp_path / "cmyk.jpg", quality=95, icc_profile=icc)
        expected = picture.convert("RGB").resize((1, 1), Image.Resampling.BOX).getpixel((0, 0))

    made = by_role(run_step("image_variants", tmp_path / "cmyk.jpg"))

    # Printing colours are converted by profile here and by a plain formula there: near, not equal.
    assert mean(made["thumb"].path) == pytest.approx(expected, abs=45)


def test_a_tiff_is_left_to_the_step_before(corpus, run_step):
    with pytest.raises(Reject, match="tiff_to_jpeg") as refusal:
        run_step("image_variants", corpus / "tiff" / "hopper_lzw.tif")

    assert refusal.value.code == "unsupported_format"
