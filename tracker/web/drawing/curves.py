"""A curve with its band, as an SVG draws it: steps in a square of 100 by 100."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracker.services.estimates.thresholds import CalibrationBin, ThresholdPoint
from tracker.web.drawing.readings import Tick
from tracker.web.drawing.words import narrow


@dataclass(frozen=True, slots=True)
class Frame:
    """What the square shows: from *left* to 1 across, from *bottom* to 1 upwards."""

    left: float
    bottom: float

    def x(self, share: float) -> float:
        return 100 * (share - self.left) / max(1 - self.left, 1e-9)

    def y(self, share: float) -> float:
        return 100 * (1 - share) / max(1 - self.bottom, 1e-9)

    @property
    def columns(self) -> list[Tick]:
        return [Tick(f"{self.x(one):.2f}%", f"{one:.2f}") for one in _spread(self.left)]

    @property
    def rows(self) -> list[Tick]:
        """The numbers up the side."""
        return [
            Tick(f"{self.y(one):.2f}%", narrow(f"{100 * one:.0f} %"))
            for one in _spread(self.bottom)
        ]


def _spread(low: float) -> list[float]:
    step = 0.1 if low >= 0.45 else 0.2
    return [1 - step * i for i in range(round((1 - low) / step) + 1)][::-1]


@dataclass(frozen=True, slots=True)
class Curve:
    """The accuracy above each threshold, as points of an SVG."""

    frame: Frame
    line: str
    band: str


def draw_thresholds(points: Sequence[ThresholdPoint], target: float | None) -> Curve:
    """Return the curve of *points* with its band, and room for the *target*."""
    lows = [point.low for point in points] + ([target] if target else [])
    frame = Frame(
        left=_tenth(min(point.threshold for point in points)), bottom=_tenth(min(lows))
    )
    # A threshold leaves the same queries until the next one.
    ends = [point.threshold for point in points[1:]] + [1.0]
    spans = list(zip(points, ends, strict=True))
    known = [(point, end) for point, end in spans if point.accuracy is not None]
    line = [
        place
        for point, end in known
        for place in _step(frame, point.threshold, end, point.accuracy or 0.0)
    ]
    upper = [
        place
        for point, end in spans
        for place in _step(frame, point.threshold, end, point.high)
    ]
    lower = [
        place
        for point, end in spans
        for place in _step(frame, point.threshold, end, point.low)
    ]
    return Curve(frame, " ".join(line), " ".join([*upper, *lower[::-1]]))


def _step(frame: Frame, start: float, end: float, height: float) -> list[str]:
    y = frame.y(height)
    return [f"{frame.x(start):.3f},{y:.3f}", f"{frame.x(end):.3f},{y:.3f}"]


def _tenth(share: float) -> float:
    return min(0.5, int(10 * share + 1e-9) / 10)


@dataclass(frozen=True, slots=True)
class BinMark:
    """A bin of confidences: its interval, its accuracy and its mean confidence."""

    x: str
    y: str
    width: str
    height: str
    # Where the accuracy lies, None without a label.
    accuracy: str | None
    confidence: str
    middle: str


def draw_bins(bins: Sequence[CalibrationBin]) -> list[BinMark]:
    """Return the marks of *bins*, on axes that both run from 0 to 1."""
    frame = Frame(0.0, 0.0)
    return [
        BinMark(
            x=f"{frame.x(one.start) + 1:.2f}%",
            y=f"{frame.y(one.high):.2f}%",
            width=f"{100 * (one.end - one.start) - 2:.2f}%",
            height=f"{100 * (one.high - one.low):.2f}%",
            accuracy=None if one.accuracy is None else f"{frame.y(one.accuracy):.2f}%",
            confidence=f"{frame.y(one.confidence):.2f}%",
            middle=f"{frame.x(one.end) - 1:.2f}%",
        )
        for one in bins
    ]
