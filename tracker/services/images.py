"""Images from outside: decoded and encoded again, or refused."""

import io
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np
from PIL import Image, ImageOps, UnidentifiedImageError

from tracker.errors import InvalidInputError
from tracker.services.wording import show_reason

FORMATS = {"PNG": "png", "JPEG": "jpg", "WEBP": "webp"}
MEDIA_TYPES = {"png": "image/png", "jpg": "image/jpeg", "webp": "image/webp"}
MAX_BYTES = 10 * 2**20
MAX_PIXELS = 25_000_000
# Twice the size in lists and grids, for high-density screens.
THUMBNAIL_PIXELS = 320
_JPEG = b"\xff\xd8"
_SCAN = b"\xff\xda"
# Scans of a progressive JPEG; usual ones have ten.
_MOST_SCANS = 100
# The modes that each format stores unchanged.
_WRITTEN = {
    "PNG": {"1", "L", "LA", "P", "RGB", "RGBA"},
    "JPEG": {"L", "RGB"},
    "WEBP": {"RGB", "RGBA"},
}
_FROM_SIXTEEN_BITS = ((np.arange(2**16) + 128) // 257).astype(np.uint8)


class CleanImage(NamedTuple):
    """An encoded image that holds only its pixels."""

    content: bytes
    suffix: str


def clean_image(content: bytes) -> CleanImage:
    """Decode *content* and encode it again, so that only pixels survive.

    Hidden content (scripts, archives, locations) is removed.  Raises InvalidInputError
    for anything but a PNG, JPEG or WebP of fewer than 25 million pixels and at most 10
    MiB.
    """
    with _opened(content) as image:
        image_format = str(image.format)
        pixels = to_eight_bits(ImageOps.exif_transpose(image))
        pixels.info = {}
        if pixels.mode not in _WRITTEN[image_format]:
            pixels = pixels.convert("RGB" if image_format == "JPEG" else "RGBA")
        output = io.BytesIO()
        options = {"quality": 90} if image_format != "PNG" else {}
        pixels.save(output, image_format, **options)
        return CleanImage(output.getvalue(), FORMATS[image_format])


def check_image(content: bytes, suffix: str) -> None:
    """Raise InvalidInputError unless *content* can be decoded and *suffix* fits it.

    For results of ``clean_image``, which may be larger than its input.
    """
    with _opened(content, max_bytes=None) as image:
        if FORMATS[str(image.format)] != suffix:
            raise InvalidInputError.of("image", f"it is a {image.format}")
        image.load()


@contextmanager
def _opened(
    content: bytes, *, max_bytes: int | None = MAX_BYTES
) -> Iterator[Image.Image]:
    if not content:
        raise InvalidInputError.of("image", "it is empty; send a PNG, JPEG or WebP")
    if max_bytes is not None and len(content) > max_bytes:
        raise InvalidInputError.of(
            "image", f"{len(content):,} bytes are too many; at most {max_bytes:,}"
        )
    try:
        _check_header(content)
        with warnings.catch_warnings():
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            with Image.open(io.BytesIO(content), formats=list(FORMATS)) as image:
                _check_pixels(image.width, image.height)
                yield image
    except UnidentifiedImageError as error:
        raise InvalidInputError.of("image", "it is not a PNG, JPEG or WebP") from error
    except (Image.DecompressionBombError, Image.DecompressionBombWarning) as error:
        raise InvalidInputError.of("image", "it has too many pixels") from error
    except (OSError, SyntaxError, ValueError) as error:
        raise InvalidInputError.of(
            "image", f"it cannot be decoded: {show_reason(error)}"
        ) from error


def _check_header(content: bytes) -> None:
    # These cost memory or time before the library knows their size.
    if content.startswith(b"RIFF") and content[12:16] == b"VP8X":
        # The library allocates the canvas when it opens the file.
        width, height = (
            int.from_bytes(content[place : place + 3], "little") + 1
            for place in (24, 27)
        )
        _check_pixels(width, height)
    if content.startswith(_JPEG) and content.count(_SCAN) > _MOST_SCANS:
        # Each scan takes a few bytes of the file and goes over all pixels.
        raise InvalidInputError.of(
            "image", f"it has more than {_MOST_SCANS} scans; save it again"
        )


def _check_pixels(width: int, height: int) -> None:
    if width * height >= MAX_PIXELS:
        raise InvalidInputError.of(
            "image",
            f"{width} x {height} pixels are too many; fewer than {MAX_PIXELS:,} in all",
        )


def make_thumbnail(content: bytes, suffix: str) -> CleanImage:
    """Return a thumbnail of a stored image, or the image itself if it is small."""
    with Image.open(io.BytesIO(content), formats=list(FORMATS)) as image:
        if max(image.size) <= THUMBNAIL_PIXELS:
            return CleanImage(content, suffix)
        # Decoding a JPEG at a fraction of its size is much faster.
        image.draft(None, (THUMBNAIL_PIXELS, THUMBNAIL_PIXELS))
        has_alpha = image.has_transparency_data
        pixels = image.convert("RGBA" if has_alpha else "RGB")
    pixels.thumbnail((THUMBNAIL_PIXELS, THUMBNAIL_PIXELS), reducing_gap=2)
    output = io.BytesIO()
    pixels.save(output, "WEBP", quality=80)
    return CleanImage(output.getvalue(), "webp")


def to_eight_bits(image: Image.Image) -> Image.Image:
    """Return *image* with 8 bits a value, in a mode that looks the same.

    Raises InvalidInputError for values of unknown range, which cannot be scaled.
    """
    if image.mode.startswith("I;16"):
        # Not by Pillow: it clips at 255, which turns nearly everything white.
        grey = np.asarray(image)
        transparent = image.info.get("transparency")
        image = Image.fromarray(_FROM_SIXTEEN_BITS[grey])
        if transparent is not None:
            opaque = np.where(grey == transparent, 0, 255).astype(np.uint8)
            image.putalpha(Image.fromarray(opaque))
    elif image.mode in {"I", "F"}:
        raise InvalidInputError.of(
            "image", "its values have 32 bits each; send 8 or 16 bits"
        )
    elif image.mode not in {"LA", "RGBA"} and image.has_transparency_data:
        # One colour of the palette may be transparent.
        image = image.convert("RGBA")
    return image
