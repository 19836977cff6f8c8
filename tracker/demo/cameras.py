"""The demonstration of a camera that went dark: which images, and what was said.

The digits are shared out among four cameras.  From a day on the one named north sees
them in the dark: `darken` takes most of the contrast, and the classifier, which was
trained on light images, answered those very pixels.
"""

import csv
import io
from dataclasses import dataclass

from tracker.demo.digits import DATA, HIGHEST_INK

TABLE_NAME = "cameras.csv"
NAME = "digit-is-even"
QUESTION = "Is this digit even?"
CLASSES = ("YES", "NO")
TARGET = 0.9
VERSION = "v1"
CAMERAS = ("north", "south", "east", "west")
DARK_CAMERA = "north"
DAYS = 20
# On this day of them, counted from 0, it went dark.
DARK_FROM_DAY = 12


@dataclass(frozen=True, slots=True)
class Frame:
    """One image as a camera saw it, and what the classifier said of it."""

    index: int
    digit: int
    camera: str
    day: int
    predicted: str
    confidence: float

    @property
    def is_dark(self) -> bool:
        return is_dark(self.camera, self.day)

    @property
    def label(self) -> str:
        return label_of(self.digit)


def label_of(digit: int) -> str:
    return CLASSES[digit % 2]


def place(index: int, count: int) -> tuple[str, int]:
    """Return which camera sees the image at *index* of *count*, and on which day."""
    return CAMERAS[index * 7 % 11 % 4], index * DAYS // count


def is_dark(camera: str, day: int) -> bool:
    return camera == DARK_CAMERA and day >= DARK_FROM_DAY


def darken(levels: bytes) -> bytes:
    """Return ink *levels* as they look in the dark: grey on darker grey."""
    return bytes(HIGHEST_INK // 2 + level * 3 // HIGHEST_INK for level in levels)


def load_frames() -> list[Frame]:
    """Return what the cameras saw, in the order of time."""
    text = DATA.joinpath(TABLE_NAME).read_text(encoding="utf-8")
    return [
        Frame(
            int(row["index"]),
            int(row["digit"]),
            row["camera"],
            int(row["day"]),
            row["predicted"],
            float(row["confidence"]),
        )
        for row in csv.DictReader(io.StringIO(text))
    ]
