"""Images of every mode look as they did, once they are encoded again."""

import io

import pytest
from PIL import Image

from tracker.errors import InvalidInputError
from tracker.services.images import clean_image, make_thumbnail, to_eight_bits

RED, HALF_RED = (255, 0, 0, 255), (255, 0, 0, 128)


def save(image: Image.Image, image_format: str, **options: object) -> bytes:
    output = io.BytesIO()
    image.save(output, image_format, **options)
    return output.getvalue()


def grey(mode: str, value: int) -> Image.Image:
    # Pillow fills no more than 8 bits of the other order of bytes.
    order = "big" if mode == "I;16B" else "little"
    return Image.frombytes(mode, (4, 4), value.to_bytes(2, order) * 16)


def palette() -> Image.Image:
    image = Image.new("P", (4, 4), 1)
    image.putpalette([0, 0, 255, 255, 0, 0])
    return image


def look(content: bytes) -> tuple[int, ...]:
    with Image.open(io.BytesIO(content)) as image:
        assert "transparency" not in image.info
        found = image.convert("RGBA").getpixel((1, 1))
    assert isinstance(found, tuple)
    return found


@pytest.mark.parametrize(
    ("drawn", "image_format", "options", "pixel"),
    [
        (Image.new("1", (4, 4), 1), "PNG", {}, (255, 255, 255, 255)),
        (Image.new("1", (4, 4), 1), "PNG", {"transparency": 1}, (255, 255, 255, 0)),
        (Image.new("L", (4, 4), 117), "PNG", {}, (117, 117, 117, 255)),
        (Image.new("L", (4, 4), 9), "PNG", {"transparency": 9}, (9, 9, 9, 0)),
        (Image.new("LA", (4, 4), (117, 128)), "PNG", {}, (117, 117, 117, 128)),
        (palette(), "PNG", {}, RED),
        (palette(), "PNG", {"transparency": 1}, (255, 0, 0, 0)),
        (palette(), "PNG", {"transparency": b"\xff\x80"}, HALF_RED),
        (palette(), "PNG", {"transparency": 0}, RED),
        (Image.new("RGB", (4, 4), "red"), "PNG", {}, RED),
        (
            Image.new("RGB", (4, 4), "red"),
            "PNG",
            {"transparency": (255, 0, 0)},
            (255, 0, 0, 0),
        ),
        (Image.new("RGBA", (4, 4), HALF_RED), "PNG", {}, HALF_RED),
        (grey("I;16", 30_000), "PNG", {}, (117, 117, 117, 255)),
        (grey("I;16B", 30_000), "PNG", {}, (117, 117, 117, 255)),
        (grey("I;16", 0), "PNG", {}, (0, 0, 0, 255)),
        (grey("I;16", 65_535), "PNG", {}, (255, 255, 255, 255)),
        (grey("I;16", 30_000), "PNG", {"transparency": 30_000}, (117, 117, 117, 0)),
        (grey("I;16", 30_000), "PNG", {"transparency": 3}, (117, 117, 117, 255)),
        (Image.new("L", (8, 8), 117), "JPEG", {}, (117, 117, 117, 255)),
        (Image.new("RGB", (8, 8), "red"), "JPEG", {}, (254, 0, 0, 255)),
        (Image.new("CMYK", (8, 8), (0, 255, 255, 0)), "JPEG", {}, (254, 0, 0, 255)),
        (Image.new("RGB", (4, 4), "red"), "WEBP", {"lossless": True}, RED),
        (Image.new("RGBA", (4, 4), HALF_RED), "WEBP", {"lossless": True}, HALF_RED),
    ],
)
def test_a_pixel_looks_as_it_was_sent(
    drawn: Image.Image,
    image_format: str,
    options: dict[str, object],
    pixel: tuple[int, ...],
) -> None:
    content, suffix = clean_image(save(drawn, image_format, **options))
    # What is lossy may be off by a shade.
    most = 0 if image_format == "PNG" else 3
    for found in (look(content), look(make_thumbnail(content, suffix).content)):
        assert max(abs(a - b) for a, b in zip(found, pixel, strict=True)) <= most


def test_a_ramp_of_sixteen_bits_keeps_its_order() -> None:
    values = range(0, 65_536, 257)
    ramp = Image.frombytes(
        "I;16", (256, 1), b"".join(value.to_bytes(2, "little") for value in values)
    )
    assert list(to_eight_bits(ramp).tobytes()) == list(range(256))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_values_of_no_known_range_are_refused(mode: str) -> None:
    with pytest.raises(InvalidInputError, match="send 8 or 16 bits"):
        to_eight_bits(Image.new(mode, (4, 4), 30_000))
