"""Labels that are given a second time: drawing them, answering, what they tell."""

from dataclasses import dataclass

from flask import flash, redirect, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.charts.words import plural
from tracker.errors import ConflictError, InvalidInputError
from tracker.http import account, by, database, now
from tracker.rounding import outward
from tracker.services.detectors import get_open_detector
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.measures import Bounds, LabelErrors
from tracker.services.fields import parse_input
from tracker.services.labelling import rechecks
from tracker.shapes import Accuracy
from tracker.storage.base import parse_whole
from tracker.storage.detectors import Detector
from tracker.storage.labelling.rechecks import Recheck, find_recheck
from tracker.storage.queries.queries import Query
from tracker.web.blueprint import page
from tracker.web.drawing.readings import Reading
from tracker.web.drawing.words import narrow, sentence
from tracker.web.forms import filled_in
from tracker.words import BALANCED


@dataclass(frozen=True, slots=True)
class Reread:
    """What a page says of label errors, in percent rounded outward."""

    errors: LabelErrors
    most: str
    # Of the set, by the measure of the detector, and of the process; by the truth.
    truth: Reading | None
    process: Reading | None

    @property
    def fingerprint(self) -> tuple[int, int, int]:
        return self.errors.answered, self.errors.drawn, self.errors.different


def read_errors(
    session: Session, detector: Detector, estimate: Estimate
) -> Reread | None:
    """Return what there is to say of label errors, None before the first answer."""
    found = rechecks.find_label_errors(session, detector, estimate)
    if found is None:
        return None
    most = outward(0.0, found.error_high, 3)[1].scaleb(2)
    is_balanced = detector.measure == BALANCED
    return Reread(
        errors=found,
        most=narrow(f"{most:f} %"),
        truth=_read(found.balanced if is_balanced else found.overall),
        process=_read(found.process),
    )


def _read(bounds: Bounds | None) -> Reading | None:
    if bounds is None:
        return None
    score = Accuracy(accuracy=None, low=bounds.low, high=bounds.high)
    return Reading(name="", tone=0, score=score, counts="")


def find_answer(session: Session, query: Query) -> Recheck | None:
    found = find_recheck(session, query)
    if found is None or found.labeler != account().name or found.answered_at is None:
        return None
    return found if found.answered_at >= now() - rechecks.MAY_CHANGE else None


@page("POST /detectors/<detector_id>/rechecks", "editor")
def draw_more_rechecks(detector_id: str) -> ResponseReturnValue:
    """Draw labels by chance that are to be given a second time."""
    asked = filled_in(request.form, "version")
    count = parse_whole(request.form.get("count", ""))
    address = url_for(
        "pages.show_next", detector_id=detector_id, queue="recheck", **asked
    )
    try:
        more = {"new_set": "new_set" in request.form}
        new = parse_input(rechecks.NewRechecks, {"count": count, **asked, **more})
        with database().read() as session:
            detector = get_open_detector(session, detector_id)
            version, frozen = rechecks.freeze_if_needed(session, detector, new, now())
        with database().write() as session:
            detector = get_open_detector(session, detector_id)
            version = rechecks.choose_version(session, detector, version.name)
            drawn = rechecks.draw_rechecks(session, version, frozen, new, by())
    except (InvalidInputError, ConflictError) as error:
        flash(sentence(str(error)))
    else:
        flash(f"{plural(drawn, 'label')} drawn to be given again.")
    return redirect(address, 303)
