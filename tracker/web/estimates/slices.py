"""Slices, where a detector is worse than elsewhere, and repeated questions."""

from collections.abc import Sequence
from dataclasses import dataclass

from flask import render_template, request
from flask.typing import ResponseReturnValue

from tracker.http import database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates.repeats import get_repeats
from tracker.services.estimates.slices import (
    METADATA,
    SLICE_COLUMNS,
    SliceEstimate,
    Slices,
    get_slices,
    iter_slice_rows,
    list_cuts,
)
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.web.blueprint import pages
from tracker.web.downloads import download
from tracker.web.drawing.readings import Reading, build_axis, read

# A page of more would be long; the file has all.
_MOST = 60
_STATES = {
    "worse": "worse",
    "better": "better",
    "no_difference_shown": "no-difference",
    "too_few_labels": "too-few",
}


@dataclass(frozen=True, slots=True)
class Card:
    """A slice as it is drawn."""

    slice: SliceEstimate
    reading: Reading
    badge: str


@pages.get("/detectors/<detector_id>/slices")
@requires("viewer")
def show_slices(detector_id: str) -> ResponseReturnValue:
    """Show how accurate a detector is on each part of its queries."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        by = _choose(detector, request.args.get("by", ""))
        found = get_slices(
            session,
            detector,
            by=by,
            version=_version(),
            computed_at=now(),
        )
        cards = [
            Card(one, read(one.overall, name=one.value, tone=0), _STATES[one.state])
            for one in found.items[:_MOST]
        ]
        return render_template(
            "slices/slices.html",
            detector=detector,
            found=found,
            by=by,
            cuts=[(cut, cut.removeprefix(METADATA)) for cut in list_cuts(detector)],
            cards=cards,
            whole=read(found.overall, name="All together", tone=0),
            axis=build_axis([card.reading for card in cards]),
            noun=_noun(found),
            left_out=len(found.items) - len(cards),
        )


def _version() -> str | None:
    version = request.args.get("version") or None
    return None if version == "*" else version


def _choose(detector: Detector, by: str) -> str:
    """Return the key to slice by: the requested one, or the first."""
    return by or list_cuts(detector)[0]


def _noun(found: Slices) -> Sequence[str]:
    """Return the word for one slice and for several."""
    name = found.by.removeprefix(METADATA)
    if name == "predicted":
        return ("prediction", "predictions")
    return (name, name if name.endswith("s") else f"{name}s")


@pages.get("/detectors/<detector_id>/slices.<suffix>")
@requires("viewer")
def download_slices(detector_id: str, suffix: str) -> ResponseReturnValue:
    """Download the slices of a detector."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        found = get_slices(
            session,
            detector,
            by=_choose(detector, request.args.get("by", "")),
            version=_version(),
            computed_at=now(),
        )

    return download(
        dump_id("det", detector.id),
        "slices",
        suffix,
        SLICE_COLUMNS,
        lambda _session: iter_slice_rows(found),
    )


@pages.get("/detectors/<detector_id>/repeats")
@requires("viewer")
def show_repeats(detector_id: str) -> ResponseReturnValue:
    """Show pass@k, pass^k and how often the answers to a question differ."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        version = request.args.get("version") or None
        found = get_repeats(session, detector, version=version)
    return render_template(
        "slices/repeats.html",
        detector=detector,
        found=found,
        differing=read(found.differing, name="Differing", tone=0),
    )
