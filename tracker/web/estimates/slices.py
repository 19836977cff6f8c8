"""Slices, where a detector is worse than elsewhere, and repeated questions."""

from collections.abc import Sequence

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import now
from tracker.rounding import roughly
from tracker.services.deciding.pairs import Change
from tracker.services.estimates import slices as services
from tracker.services.estimates.repeats import get_repeats
from tracker.services.estimates.slices import SliceEstimate, Slices
from tracker.services.evidence.measure import read_measure
from tracker.stats import TOO_WIDE, slice_intervals
from tracker.storage.base import dump_id
from tracker.web.blueprint import Sort, name_measure, page, reading, sort_rows
from tracker.web.downloads import download
from tracker.web.drawing.answers import near_axis
from tracker.web.drawing.differences import Bar, draw_change
from tracker.web.drawing.differences import build_axis as build_points
from tracker.web.drawing.readings import read
from tracker.words import BALANCED

# Of more slices those that say most are shown first.
_MOST = 50
# Of slices with fewer labels nothing much is known; a visitor can leave them out.
LEAST = (0, 20, 100)
# The numbers of labels at which it is asked whether they would tell.
_STEP, _STEPS = 1.1, 80
# Where the axis ends if nothing much is known of any.
_USUAL = 0.55

SORTS = {
    "value": Sort("", lambda one: one.value.casefold()),
    "traffic": Sort("traffic", lambda one: one.queries, is_down=True),
    "right": Sort("right", lambda one: one.measured.accuracy or 0.0),
    "labels": Sort("labels", lambda one: one.labels, is_down=True),
    "mistakes": Sort("mistakes", lambda one: one.mistakes, is_down=True),
}


def _compare(one: SliceEstimate, other: SliceEstimate) -> Bar:
    """Return how much higher the measure of *one* is, in points.

    The intervals hold for all slices at once, so this does for any two of them,
    whichever a visitor picks after looking.
    """
    left, right, difference = one.measured, other.measured, None
    if left.accuracy is not None and right.accuracy is not None:
        difference = left.accuracy - right.accuracy
    low, high = left.low - right.high, left.high - right.low
    return draw_change(Change(difference=difference, low=low, high=high), one.value, 0)


def _count_to_tell(found: Slices, one: SliceEstimate) -> int | None:
    """Return about how many more labels would tell of a slice with too few.

    If as many were right.
    """
    compared = one.classes if found.measure == BALANCED else [one.measured]
    if one.state != "too_few_labels":
        return None
    needed = []
    for score in (each for each in compared if each.labelled):
        more = [round(score.labelled * _STEP**step) for step in range(1, _STEPS)]
        intervals = slice_intervals(
            [round(score.correct * n / score.labelled) for n in more],
            more,
            found.confidence_level,
            slices=len(found.items) * len(compared),
        )
        widths = (intervals.high - intervals.low).tolist()
        enough = (n for n, width in zip(more, widths, strict=True) if width <= TOO_WIDE)
        if first := next(enough, None):
            needed.append((first / score.labelled - 1) * one.labels)
    return roughly(round(min(needed))) if needed else None


@page("GET /detectors/<detector_id>/slices", "viewer")
def show_slices(detector_id: str) -> ResponseReturnValue:
    asked = request.args
    with reading(detector_id) as (session, detector):
        by = asked.get("by") or services.list_cuts(detector)[0]
        found = services.get_slices(
            session, detector, by=by, version=_version(), computed_at=now()
        )
        text, sort = asked.get("q", "").strip(), asked.get("sort", "")
        least = asked.get("least", 0, type=int)
        rows = [
            one
            for one in found.items
            if text.casefold() in one.value.casefold() and one.labels >= least
        ]
        # Unless a column is named, the worst come first, as they are.
        sort_rows(rows, SORTS, sort, usual=lambda _: 0)
        # What the axis must hold; slices with too few labels are cut.
        lows = [one.measured.low for one in rows if one.state != "too_few_labels"]
        picked = [one for one in found.items if one.value in asked.getlist("pick")]
        bar = _compare(*picked) if len(picked) == 2 else None
        return render_template(
            "slices/slices.html",
            detector=detector,
            found=found,
            by=by,
            cuts=[
                (cut, cut.removeprefix(services.METADATA))
                for cut in services.list_cuts(detector)
            ],
            matching=len(rows),
            most_queries=max((one.queries for one in found.items), default=0) or 1,
            rows=rows if "all" in asked else rows[:_MOST],
            text=text,
            sort=sort,
            sorts=SORTS,
            least=least,
            leasts=LEAST,
            picked=picked,
            bar=bar,
            to_tell=_count_to_tell(found, picked[0]) if len(picked) == 1 else None,
            worst=_find_worst(found),
            measured=name_measure(found.measure),
            points=build_points([bar]) if bar else None,
            whole=read(found.measured, name="All together", tone=0),
            axis=near_axis(*(lows or [_USUAL])),
            noun=_noun(found),
        )


def _find_worst(
    found: Slices,
) -> tuple[SliceEstimate, str, float | None, float | None] | None:
    """Return the first slice that is shown to be worse, with what shows it.

    That is the name of the measure, and how much it is there and in all others.
    """
    worse = found.find("worse")
    if not worse:
        return None
    one, measure = worse[0], read_measure(worse[0].worse_in[0])
    here, whole = one.measured, found.measured
    if found.measure == BALANCED:
        place = [each.name for each in one.classes].index(measure.of or "")
        rows = [each.classes[place] for each in found.items]
        here = one.classes[place]
        correct = sum(row.correct for row in rows) - here.correct
        labelled = sum(row.labelled for row in rows) - here.labelled
    else:
        correct = whole.correct - here.correct
        labelled = whole.labelled - here.labelled
    rest = correct / labelled if labelled else None
    return one, measure.name, here.accuracy, rest


def _version() -> str | None:
    version = request.args.get("version") or None
    return None if version == "*" else version


def _noun(found: Slices) -> Sequence[str]:
    name = found.by.removeprefix(services.METADATA)
    if name == "predicted":
        return ("prediction", "predictions")
    return (name, name if name.endswith("s") else f"{name}s")


@page("GET /detectors/<detector_id>/slices.<suffix>", "viewer")
def download_slices(detector_id: str, suffix: str) -> ResponseReturnValue:
    with reading(detector_id) as (session, detector):
        found = services.get_slices(
            session,
            detector,
            by=request.args.get("by") or services.list_cuts(detector)[0],
            version=_version(),
            computed_at=now(),
        )

    return download(
        dump_id("det", detector.id),
        "slices",
        suffix,
        services.SLICE_COLUMNS,
        lambda _session: services.iter_slice_rows(found),
    )


@page("GET /detectors/<detector_id>/repeats", "viewer")
def show_repeats(detector_id: str) -> ResponseReturnValue:
    """Show pass@k, pass^k and how often the answers to a question differ."""
    with reading(detector_id) as (session, detector):
        version = request.args.get("version") or None
        found = get_repeats(session, detector, version=version)
    return render_template(
        "slices/repeats.html",
        detector=detector,
        found=found,
        differing=read(found.differing, name="Differing", tone=0),
    )
