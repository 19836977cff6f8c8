"""Thresholds and calibration, with the curve and its band as an SVG draws it."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import now
from tracker.services.estimates import thresholds
from tracker.services.estimates.thresholds import CalibrationBin, ThresholdPoint
from tracker.shapes import Score
from tracker.web.blueprint import page, reading
from tracker.web.drawing.readings import Reading, Tick, read
from tracker.web.drawing.words import narrow
from tracker.web.forms import parse_percent


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
        return [
            Tick(f"{self.y(one):.2f}%", narrow(f"{100 * one:.0f} %"))
            for one in _spread(self.bottom)
        ]


def _spread(low: float) -> list[float]:
    step = 0.1 if low >= 0.45 else 0.2
    return [1 - step * i for i in range(round((1 - low) / step) + 1)][::-1]


def _draw_curve(
    points: Sequence[ThresholdPoint], target: float | None
) -> dict[str, Any]:
    """Return the accuracy above each threshold as points of an SVG, with its band."""
    lows = [point.low for point in points] + ([target] if target else [])
    frame = Frame(
        left=_tenth(min(point.threshold for point in points)), bottom=_tenth(min(lows))
    )
    # A threshold leaves the same queries until the next one.
    ends = [point.threshold for point in points[1:]] + [1.0]
    spans = list(zip(points, ends, strict=True))

    def trace(field: str) -> list[str]:
        return [
            f"{frame.x(x):.3f},{frame.y(height):.3f}"
            for point, end in spans
            for height in [getattr(point, field)]
            if height is not None
            for x in (point.threshold, end)
        ]

    band = [*trace("high"), *trace("low")[::-1]]
    line = " ".join(trace("accuracy"))
    return {"frame": frame, "line": line, "band": " ".join(band)}


def _tenth(share: float) -> float:
    return min(0.5, int(10 * share + 1e-9) / 10)


def _draw_bin(frame: Frame, one: CalibrationBin) -> dict[str, str | None]:
    return {
        "x": f"{frame.x(one.start) + 1:.2f}%",
        "y": f"{frame.y(one.high):.2f}%",
        "width": f"{100 * (one.end - one.start) - 2:.2f}%",
        "height": f"{100 * (one.high - one.low):.2f}%",
        "accuracy": None if one.accuracy is None else f"{frame.y(one.accuracy):.2f}%",
        "confidence": f"{frame.y(one.confidence):.2f}%",
        "middle": f"{frame.x(one.end) - 1:.2f}%",
    }


@page("GET /detectors/<detector_id>/thresholds", "viewer")
def show_thresholds(detector_id: str) -> ResponseReturnValue:
    """Show how accurate answers above a confidence are, and what confidences mean."""
    version = request.args.get("version") or None
    typed = request.args.get("target", "")
    share = parse_percent(typed)
    target = share if isinstance(share, float) and 0 < share < 1 else None
    choices: Any = {"computed_at": now()}
    choices["version"] = None if version == "*" else version
    with reading(detector_id) as (session, detector):
        found = thresholds.get_thresholds(session, detector, target=target, **choices)
        calibration = thresholds.get_calibration(session, detector, **choices)
        has_curve = bool(found.points) and bool(found.labels)
        return render_template(
            "thresholds/thresholds.html",
            detector=detector,
            found=found,
            calibration=calibration,
            curve=_draw_curve(found.points, found.target) if has_curve else None,
            # Every digit counts in the condition on the queries of a point.
            points=[
                (one, _read(one), f"confidence:{Decimal(repr(one.threshold)):f}..")
                for one in found.points
            ],
            lowest=None if found.lowest is None else _read(found.lowest),
            bins=[(one, _read(one), _within(one)) for one in calibration.bins],
            # On axes that both run from 0 to 1.
            marks=[_draw_bin(Frame(0.0, 0.0), one) for one in calibration.bins],
            typed=typed,
        )


def _within(one: CalibrationBin) -> str:
    """Return the condition on the queries of a bin; the last one has both its ends."""
    return f"confidence:{one.start}..{'<' if one.end < 1 else ''}{one.end}"


def _read(one: ThresholdPoint | CalibrationBin) -> Reading:
    return read(Score.from_row(one), name="", tone=0)
