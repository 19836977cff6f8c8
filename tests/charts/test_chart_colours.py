"""Colours that can be seen and told apart.

The matrices are those of G. M. Machado, M. M. Oliveira and L. A. F. Fernandes,
IEEE Transactions on Visualization and Computer Graphics 15 (2009), 1291-1298,
at severity 1.0; the contrast is that of WCAG 2.
"""

from itertools import combinations

import numpy as np
import numpy.typing as npt
import pytest

from tracker.charts.themes import COLOURS, Colours

Vector = npt.NDArray[np.float64]

VISION = {
    "usual": np.eye(3),
    "protanopia": np.array(
        [
            [0.152286, 1.052583, -0.204868],
            [0.114503, 0.786281, 0.099216],
            [-0.003882, -0.048116, 1.051998],
        ]
    ),
    "deuteranopia": np.array(
        [
            [0.367322, 0.860646, -0.227968],
            [0.280085, 0.672501, 0.047413],
            [-0.011820, 0.042940, 0.968881],
        ]
    ),
    "tritanopia": np.array(
        [
            [1.255528, -0.076749, -0.178779],
            [-0.078411, 0.930809, 0.147602],
            [0.004733, 0.691367, 0.303900],
        ]
    ),
}
TO_XYZ = np.array(
    [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
)
WHITE = np.array([0.95047, 1.0, 1.08883])


def linear(colour: str) -> Vector:
    channels = np.frombuffer(bytes.fromhex(colour[1:]), np.uint8) / 255
    return np.where(
        channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4
    )


def contrast(one: str, other: str) -> float:
    low, high = sorted(float(TO_XYZ[1] @ linear(colour)) for colour in (one, other))
    return (high + 0.05) / (low + 0.05)


def lab(colour: str, vision: str) -> Vector:
    seen = np.clip(VISION[vision] @ linear(colour), 0, 1)
    x, y, z = (
        t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116
        for t in TO_XYZ @ seen / WHITE
    )
    return np.array([116 * y - 16, 500 * (x - y), 200 * (y - z)])


@pytest.fixture(params=list(COLOURS.values()), ids=list(COLOURS))
def colours(request: pytest.FixtureRequest) -> Colours:
    chosen: Colours = request.param
    return chosen


def test_every_line_stands_out_from_the_background(colours: Colours) -> None:
    for colour in (colours.balanced, *colours.classes):
        assert contrast(colour, colours.background) >= 4


def test_text_has_the_contrast_that_wcag_asks_for(colours: Colours) -> None:
    for colour in (colours.text, colours.muted):
        assert contrast(colour, colours.background) >= 4.5


def test_twelve_classes_have_twelve_colours(colours: Colours) -> None:
    every = [lab(colour, "usual") for colour in (colours.balanced, *colours.classes)]
    assert len(every) == 13
    assert min(np.linalg.norm(a - b) for a, b in combinations(every, 2)) > 20


@pytest.mark.parametrize("vision", list(VISION))
def test_seven_classes_are_told_apart_by_every_eye(
    colours: Colours, vision: str
) -> None:
    every = [lab(colour, vision) for colour in (colours.balanced, *colours.classes[:7])]
    assert min(np.linalg.norm(a - b) for a, b in combinations(every, 2)) > 13
