"""The people who label, beside each other."""

from collections.abc import Iterable
from dataclasses import dataclass

from flask import render_template
from flask.typing import ResponseReturnValue

from tracker.http import by, database, requires
from tracker.rounding import outward
from tracker.services.detectors import get_detector
from tracker.services.labelling.assignments import list_assignments
from tracker.services.labelling.golds import list_golds
from tracker.services.labelling.labelers import Kappa, Labeler, get_labelers
from tracker.shapes import Score
from tracker.storage.labelling.golds import count_golds
from tracker.storage.people.accounts import list_people_who_label
from tracker.web.blueprint import pages
from tracker.web.drawing.readings import Reading, read

# So many of the newest gold queries stand on the page.
MOST_LISTED = 100


@dataclass(frozen=True, slots=True)
class Row:
    """A person, and their error rate as it is said."""

    labeler: Labeler
    errors: Reading


@pages.get("/detectors/<detector_id>/labelers")
@requires("editor")
def show_labelers(detector_id: str) -> ResponseReturnValue:
    """Show how labelers agree, and how often each of them errs."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        report = get_labelers(session, detector)
        assignments = list_assignments(session, detector, by())
        names = list_people_who_label(session, detector.id)
        golds = count_golds(session, detector.id)
        listed = list_golds(session, detector, before=None, limit=MOST_LISTED)
    return render_template(
        "labelers/labelers.html",
        detector=detector,
        report=report,
        agreement=read(report.agreed, name="Agreement", tone=1),
        several=None if report.several is None else say_kappa(report.several),
        pairs=[
            (pair, read(pair.agreed, name="Agreement", tone=1), say_kappa(pair))
            for pair in report.pairs
        ],
        rows=_rows(report.items),
        gold_rows=_rows(report.gold),
        golds=golds,
        assignments=assignments,
        names=names,
        listed=sorted(listed, key=lambda one: -one.wrong),
    )


def _rows(people: Iterable[Labeler]) -> list[Row]:
    return [Row(one, read(_errors(one), name=one.name, tone=2)) for one in people]


def _errors(one: Labeler) -> Score:
    return Score(
        correct=one.wrong,
        labelled=one.known,
        accuracy=one.wrong / one.known if one.known else None,
        low=one.low,
        high=one.high,
    )


def say_kappa(found: Kappa) -> str:
    """Return kappa with its bounds rounded outward, such as "0.82 [0.61, 0.95]"."""
    low, high = outward(found.low, found.high, 2)
    said = "none" if found.kappa is None else f"{found.kappa:.2f}"
    return f"{said} [{low:.2f}, {high:.2f}]".replace("-", "\N{MINUS SIGN}")
