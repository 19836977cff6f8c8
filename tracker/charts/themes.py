"""The colours and the configuration of the charts."""

from dataclasses import dataclass
from typing import Any, Literal

Theme = Literal["light", "dark"]

# Liberation Sans comes with the renderer; the others have the same widths, so
# texts are cut at the same place everywhere.
FONT = "Liberation Sans, Arial, Helvetica, sans-serif"


@dataclass(frozen=True, slots=True)
class Colours:
    """One theme.  Every line colour has contrast 4 or more on the background.

    The balanced colour and the first seven of the classes differ by 13 or more (CIE
    1976), for people with protanopia, deuteranopia or tritanopia too.  The others
    cannot all do that; every panel has the name of its class.
    """

    background: str
    text: str
    muted: str
    grid: str
    balanced: str
    classes: tuple[str, ...]
    band: float
    # The window's line, events, and behind the words of verdicts.
    lately: str
    warn: str
    good: str
    bad: str
    plain: str


COLOURS: dict[Theme, Colours] = {
    "light": Colours(
        background="#ffffff",
        text="#262626",
        muted="#5c5c5c",
        grid="#e7e7e7",
        balanced="#1f4fb4",
        classes=(
            *("#0b895d", "#cc5e10", "#a74282", "#655100"),
            *("#374e52", "#775dac", "#76432b", "#c4163d"),
            *("#498e00", "#728181", "#8f2bd0", "#1687a3"),
        ),
        band=0.16,
        lately="#a84a08",
        warn="#7a4b00",
        good="#bfe5d5",
        bad="#f5c3cc",
        plain="#dededa",
    ),
    "dark": Colours(
        background="#262626",
        text="#ededed",
        muted="#b3b3b3",
        grid="#3d3d3d",
        balanced="#7fabff",
        classes=(
            *("#2cc88a", "#f78b50", "#e68fc0", "#e0bd3f"),
            *("#67dcfb", "#a88fd0", "#c18f66", "#ff5c7a"),
            *("#b4e04a", "#f0d6cb", "#cf6bff", "#9aa8a8"),
        ),
        band=0.2,
        lately="#f78b50",
        warn="#f2c14e",
        good="#1d5340",
        bad="#6b2a39",
        plain="#474747",
    ),
}


def settings(colours: Colours) -> dict[str, Any]:
    """Return the ``config`` of a specification in these colours."""
    return {
        "background": colours.background,
        "font": FONT,
        # The picture has one description; hundreds of marks that read out their own
        # would bury it.
        "aria": False,
        "view": {"stroke": None},
        "axis": {
            "domain": False,
            "ticks": False,
            "gridColor": colours.grid,
            "labelColor": colours.muted,
            "labelFontSize": 12,
            "labelPadding": 5,
            "titleColor": colours.muted,
            "titleFontSize": 12,
            "titleFontWeight": "normal",
        },
        "title": {
            "anchor": "start",
            "color": colours.text,
            "fontWeight": 600,
            "offset": 8,
            "subtitleColor": colours.muted,
        },
    }
