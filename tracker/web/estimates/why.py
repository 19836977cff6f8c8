"""Why the intervals are exact: the tail at a bound, and the effect of peeking."""

from functools import lru_cache

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker import stats
from tracker.charts.histogram import draw_curve, draw_tail
from tracker.http import database, now
from tracker.services.detectors import get_detector
from tracker.services.estimates.estimate import get_estimate
from tracker.services.versions import choose_versions
from tracker.stats import TailSide, chances_of_ever_missing
from tracker.web.blueprint import page, reading
from tracker.web.drawing.readings import read

# The example that explains exact intervals where they were first published for
# detectors: 80 of 100 correct, and an error of 5 % above.
PUBLISHED = (80, 100, (0.80, 0.83, float(stats.upper_bound(80, 100, 0.05))))

LOOKS = 1_000
_LOOKED_AT = (10, 100, LOOKS)
_PEEKED_ACCURACY = 0.9
_PEEKED_LEVEL = 0.95
_CEILING = 0.4


@page("GET /detectors/<detector_id>/why", "viewer")
def show_why(detector_id: str) -> ResponseReturnValue:
    """Show the binomial tail behind the bounds of one class."""
    asked = request.args.get("version") or None
    with reading(detector_id) as (session, detector):
        versions = choose_versions(session, detector, asked)
        estimate = get_estimate(session, detector, version=asked, computed_at=now())
        name = request.args.get("scope")
        known = [one for one in estimate.classes if one.labelled]
        scope = next(
            (one for one in known if one.name == name), next(iter(known), None)
        )
        tail = None
        if scope is not None:
            # Begin where one may see something: at the bound that is further away.
            seen = scope.correct / scope.labelled
            low_is_further = seen - scope.low > scope.high - seen
            supposed = round(scope.low if low_is_further else scope.high, 3)
            percent = request.args.get("supposed", type=float)
            if percent is not None and 0 <= percent <= 100:
                supposed = percent / 100
            is_high = supposed * scope.labelled >= scope.correct
            side: TailSide = "fewer" if is_high else "more"
            tail = draw_tail(scope.correct, scope.labelled, supposed, side)
        return render_template(
            "why/why.html",
            detector=detector,
            version=versions[0] if versions else None,
            estimate=estimate,
            scope=scope,
            tail_share=(1 - estimate.confidence_level) / 2,
            reading=None if scope is None else read(scope, name=scope.name, tone=0),
            tail=tail,
            published=[
                draw_tail(*PUBLISHED[:2], supposed, "fewer")
                for supposed in PUBLISHED[2]
            ],
        )


@page("GET /detectors/<detector_id>/why/peeking", "viewer")
def show_peeking(detector_id: str) -> ResponseReturnValue:
    """Show what looking after every label does to an interval for one look."""
    with database().read() as session:
        return render_template(
            "why/peeking.html",
            detector=get_detector(session, detector_id),
            curves=[(one, *_peek(one)) for one in ("exact", "anytime")],
            looked_at=_LOOKED_AT,
            accuracy=_PEEKED_ACCURACY,
            level=_PEEKED_LEVEL,
            ceiling=_CEILING,
        )


@lru_cache(maxsize=2)
def _peek(method: str) -> tuple[str, dict[int, float]]:
    """Return how likely a method has missed the truth at some look so far."""
    # It takes a second or two, is the same for every detector, and never changes.
    chances = chances_of_ever_missing(
        stats.get_method(method).class_interval, LOOKS, _PEEKED_ACCURACY, _PEEKED_LEVEL
    ).tolist()
    missed = {number: chances[number - 1] for number in _LOOKED_AT}
    return draw_curve(chances, ceiling=_CEILING), missed
