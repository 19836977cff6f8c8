"""The people and judges who label, their assignments, and gold queries."""

from collections.abc import Callable, Iterable
from typing import Any

from flask import flash, render_template, request
from flask.typing import ResponseReturnValue

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import by, database
from tracker.rounding import outward
from tracker.services.detectors import get_open_detector
from tracker.services.fields import parse_input
from tracker.services.labelling import golds
from tracker.services.labelling import labelers as services
from tracker.services.labelling.golds import NewGold, list_golds
from tracker.services.queries.queries import get_query
from tracker.shapes import Score
from tracker.storage.base import parse_whole
from tracker.storage.labelling.golds import count_golds
from tracker.storage.people import list_people_who_label
from tracker.web.blueprint import lead_to, page, reading
from tracker.web.drawing.readings import Reading, read, tone_of
from tracker.web.drawing.words import sentence
from tracker.web.forms import Form
from tracker.web.queries.filters import Filter
from tracker.web.queries.queries import render_query

# So many of the newest gold queries stand on the page.
MOST_LISTED = 100


@page("GET /detectors/<detector_id>/labelers", "editor")
def show_labelers(detector_id: str) -> ResponseReturnValue:
    """Show how labelers agree, and how often each of them errs."""
    with reading(detector_id) as (session, detector):
        report = services.get_labelers(session, detector)
        assignments = services.list_assignments(session, detector, by())
        names = list_people_who_label(session, detector.id)
        golds = count_golds(session, detector.id)
        listed = list_golds(session, detector, before=None, limit=MOST_LISTED)
    return render_template(
        "labelers/labelers.html",
        detector=detector,
        report=report,
        agreement=read(report.agreed, name="Agreement", tone=1),
        pairs=[
            (pair, read(pair.agreed, name="Agreement", tone=1), _say_kappa(pair))
            for pair in report.pairs
        ],
        rows=_rows(report.items),
        gold_rows=_rows(report.gold),
        golds=golds,
        assignments=assignments,
        names=names,
        listed=sorted(listed, key=lambda one: -one.wrong),
    )


def _rows(people: Iterable[services.Labeler]) -> list[tuple[services.Labeler, Reading]]:
    rows = []
    for one in people:
        rate = one.wrong / one.known if one.known else None
        counts = {"correct": one.wrong, "labelled": one.known, "accuracy": rate}
        errors = Score.from_row(one, **counts)
        rows.append((one, read(errors, name=one.name, tone=2)))
    return rows


def _say_kappa(found: services.Pair) -> str:
    low, high = outward(found.low, found.high, 2)
    said = "none" if found.kappa is None else f"{found.kappa:.2f}"
    return f"{said} [{low:.2f}, {high:.2f}]".replace("-", "\N{MINUS SIGN}")


@page("POST /detectors/<detector_id>/assignments", "editor")
def assign(detector_id: str) -> ResponseReturnValue:
    """Ask a person for so many labels."""
    labels = parse_whole(request.form.get("labels", ""))
    return _change(detector_id, services.NewAssignment, services.assign, labels=labels)


@page("POST /detectors/<detector_id>/assignments/end", "editor")
def end_assignment(detector_id: str) -> ResponseReturnValue:
    """End the assignment of a person."""
    return _change(detector_id, services.Assignee, services.end_assignment)


def _change(
    detector_id: str, kind: type[Any], do: Callable[..., object], **given: Any
) -> ResponseReturnValue:
    given["labeler"] = request.form.get("labeler", "").strip()
    try:
        asked = parse_input(kind, given)
        with database().write() as session:
            do(session, get_open_detector(session, detector_id), asked, by())
    except InvalidInputError as error:
        flash(sentence(str(error)))
    return lead_to("show_labelers", detector_id=detector_id)


@page("POST /queries/<query_id>/gold", "editor")
def mark_gold(query_id: str) -> ResponseReturnValue:
    """Say what the answer of a query is known to be."""
    try:
        new = parse_input(NewGold, {"label": request.form.get("known", "")})
        with database().write() as session:
            golds.mark_gold(session, query_id, new, by())
    except (ConflictError, InvalidInputError) as error:
        with database().read() as session:
            form = Form({}, {"gold": [str(error)]})
            return render_query(session, get_query(session, query_id), form), 422
    return _back_to_query(query_id)


@page("POST /queries/<query_id>/gold/end", "editor")
def unmark_gold(query_id: str) -> ResponseReturnValue:
    with database().write() as session:
        golds.unmark_gold(session, query_id, by())
    return _back_to_query(query_id)


def _back_to_query(query_id: str) -> ResponseReturnValue:
    address = Filter.parse(request.args).address
    return lead_to("show_query", query_id=query_id, **address)


@page("GET /detectors/<detector_id>/judges", "viewer")
def show_judges(detector_id: str) -> ResponseReturnValue:
    with reading(detector_id) as (session, detector):
        version = request.args.get("version") or None
        report = services.get_judges(session, detector, version=version)
    return render_template(
        "labelers/judges.html",
        detector=detector,
        report=report,
        rows=[
            (
                judge,
                [
                    (
                        one.name,
                        read(one.sensitivity, name="Sensitivity", tone=tone_of(place)),
                        read(one.specificity, name="Specificity", tone=tone_of(place)),
                    )
                    for place, one in enumerate(judge.classes)
                ],
            )
            for judge in report.items
        ],
    )
