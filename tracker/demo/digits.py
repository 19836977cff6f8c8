"""The digits of the demonstration, read from the files in the package.

`data/README.md` says where they come from, under which licence, and how the
predictions were made.
"""

import csv
import io
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from PIL import Image

DATA = files("tracker.demo").joinpath("data")
TABLE_NAME = "digits.csv"
SPRITE_NAME = "digits.png"

TILE_SIDE = 8
TILES_PER_ROW = 60
HIGHEST_INK = 16

MARGIN = 1
GREYS = 32


@dataclass(frozen=True, slots=True)
class DemoDetector:
    """A detector of the demonstration; `labels` has the class of each digit, 0 to 9."""

    name: str
    question: str
    classes: tuple[str, ...]
    versions: tuple[str, ...]
    target: float
    labels: tuple[str, ...]

    def label_of(self, digit: int) -> str:
        return self.labels[digit]


@dataclass(frozen=True, slots=True)
class Prediction:
    """What one version of a detector said of one image."""

    predicted: str
    confidence: float


@dataclass(frozen=True, slots=True)
class Digit:
    """One image: its place in the sprite, its digit, and what was predicted of it."""

    index: int
    digit: int
    # By detector name and version.
    predictions: Mapping[tuple[str, str], Prediction]


DETECTORS = (
    DemoDetector(
        name="digit-is-8",
        question="Is this digit an 8?",
        classes=("YES", "NO"),
        versions=("v1", "v2"),
        target=0.85,
        labels=tuple("YES" if digit == 8 else "NO" for digit in range(10)),
    ),
    DemoDetector(
        name="which-digit",
        question="Which digit is this?",
        classes=tuple(str(digit) for digit in range(10)),
        versions=("v1", "v2"),
        target=0.995,
        labels=tuple(str(digit) for digit in range(10)),
    ),
)


def prediction_columns(detector_name: str, version: str) -> tuple[str, str]:
    """Return the columns that hold a version's predictions and confidences."""
    start = f"{detector_name} {version}"
    return f"{start} predicted", f"{start} confidence"


def load_digits() -> list[Digit]:
    """Return the 1,797 digits in the order of their index, which starts at 0."""
    text = DATA.joinpath(TABLE_NAME).read_text(encoding="utf-8")
    digits = []
    for row in csv.DictReader(io.StringIO(text)):
        predictions = {}
        for detector in DETECTORS:
            for version in detector.versions:
                predicted, sure = prediction_columns(detector.name, version)
                said = Prediction(row[predicted], float(row[sure]))
                predictions[detector.name, version] = said
        digits.append(Digit(int(row["index"]), int(row["digit"]), predictions))
    return digits


def ink_levels(index: int) -> bytes:
    """Return the 64 ink levels, 0 (paper) to 16, of an image; raises IndexError."""
    sprite = _open_sprite()
    row, column = divmod(index, TILES_PER_ROW)
    left, top = column * TILE_SIDE, row * TILE_SIDE
    tile = sprite.crop((left, top, left + TILE_SIDE, top + TILE_SIDE)).tobytes()
    # The grid has a few places more than there are digits.  They are paper, and
    # nobody hands in an empty sheet.
    if not 0 <= row < sprite.height // TILE_SIDE or not any(tile):
        raise IndexError(f"There is no digit {index}.")
    return tile


def digit_png(
    index: int,
    *,
    scale: int = 16,
    change: Callable[[bytes], bytes] = lambda levels: levels,
) -> bytes:
    """Return an image as a square PNG, dark ink on white, for human eyes.

    *change* is made to its ink levels first.  The side is ten times *scale* pixels:
    eight of the original and a margin of one all around.
    """
    side = TILE_SIDE + 2 * MARGIN
    empty, *levels = change(bytes([0, *ink_levels(index)]))
    small = Image.new("L", (side, side), 255 - empty * 255 // HIGHEST_INK)
    paper = bytes(255 - level * 255 // HIGHEST_INK for level in levels)
    small.paste(Image.frombytes("L", (TILE_SIDE, TILE_SIDE), paper), (MARGIN, MARGIN))
    large = small.resize((side * scale, side * scale), Image.Resampling.BICUBIC)
    png = io.BytesIO()
    large.point(_tone_curve()).save(png, "PNG")
    return png.getvalue()


@cache
def _open_sprite() -> Image.Image:
    with DATA.joinpath(SPRITE_NAME).open("rb") as file, Image.open(file) as sprite:
        sprite.load()
        return sprite.copy()


@cache
def _tone_curve() -> list[int]:
    # Plain interpolation leaves a grey halo around the strokes.  An S-curve makes
    # their edges firm; it ends below white, so that the small loops of an 8 or a 9
    # stay open.  Few greys, because they halve the file and no eye counts them.
    step = 255 / (GREYS - 1)
    lights = (min(grey / 210, 1.0) for grey in range(256))
    firm = (255 * light * light * (3 - 2 * light) for light in lights)
    return [round(round(one / step) * step) for one in firm]
