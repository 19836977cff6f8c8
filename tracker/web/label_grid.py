"""Labelling many queries of the random sample at once, blind as one by one.

The detector's predictions neither choose nor group what is shown: whoever saw the
ones it called an 8 together would be told its answer before giving their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from flask import flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import FieldError, InvalidInputError
from tracker.http import account, database, now, requires
from tracker.services.agreement import SettledError
from tracker.services.detectors import check_class, get_open_detector
from tracker.services.fields import UNCLEAR, parse_input
from tracker.services.labels import NewLabel, add_label
from tracker.services.queries import get_query_by_number
from tracker.services.queues import QueueChoice, build_queue
from tracker.services.reservations import reserve
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.web.blueprint import pages
from tracker.web.forms import Form, failed_form
from tracker.web.label_progress import build_progress
from tracker.web.label_queues import choose_queue
from tracker.web.labels import find_query_of, name_browser
from tracker.web.pictures import Picture, build_picture
from tracker.web.planning import CHOICES
from tracker.web.words import plural

TILES = 24


@dataclass(frozen=True, slots=True)
class Tile:
    """One query of the grid; its id names its field."""

    name: str
    picture: Picture


@pages.get("/detectors/<detector_id>/label/grid")
@requires("labeler")
def show_grid(detector_id: str) -> ResponseReturnValue:
    """Show many queries at once without their predictions, to be labelled."""
    return _show(detector_id, Form({}))


@pages.post("/detectors/<detector_id>/label/grid")
@requires("labeler")
def label_grid(detector_id: str) -> ResponseReturnValue:
    """Store the labels of a grid, all or none, and show the next one."""
    try:
        with database().write() as session:
            stored = _store(session, get_open_detector(session, detector_id))
    except InvalidInputError as error:
        return _show(detector_id, failed_form(request.form, error)), 422
    flash(_describe(stored))
    return redirect(url_for("pages.show_grid", detector_id=detector_id), 303)


def _store(session: Session, detector: Detector) -> list[tuple[str, str]]:
    """Label what was answered and still waits, so that a grid sent twice counts once.

    Queries are locked in the order of their ids, lest two grids wait for each other.
    Returns each label with the prediction.
    """
    queue = build_queue(session, detector, QueueChoice(), labeler=account().name)
    answers = _parse(detector, request.form)
    stored = []
    for name in sorted(answers, key=lambda name: (len(name), name)):
        query = find_query_of(session, detector, name)
        if query is None:
            raise InvalidInputError.of(name, "is no query of this detector")
        if not queue.holds(query):
            continue
        new = parse_input(NewLabel, {"label": answers[name], "sampling": "random"})
        labeler = account().name
        try:
            add_label(session, detector, query, new, labeler=labeler, created_at=now())
        except SettledError:
            # Just now, since it was found to wait.
            continue
        stored.append((new.label, query.predicted))
    return stored


def _parse(detector: Detector, typed: Mapping[str, str]) -> dict[str, str]:
    """Return the label of each query that was answered, by itself or as the rest."""
    names = typed.get("queries", "").split()
    if len(names) > TILES or len(set(names)) < len(names):
        message = f"at most {TILES} at once, and none of them twice"
        raise InvalidInputError.of("queries", message)
    given = {name: typed.get(name) or typed.get("rest", "") for name in names}
    errors: list[FieldError] = []
    for name, label in given.items():
        try:
            if label:
                check_class(detector, label, field=name, may_be_unclear=True)
        except InvalidInputError as error:
            errors.extend(error.errors)
    if errors:
        raise InvalidInputError(errors)
    return {name: label for name, label in given.items() if label}


def _describe(stored: list[tuple[str, str]]) -> str:
    scored = [pair for pair in stored if pair[0] != UNCLEAR]
    agreed = sum(label == predicted for label, predicted in scored)
    said = f"{plural(len(stored), 'label')} saved."
    if scored:
        said += f" The detector agreed on {agreed} of {len(scored)}."
    return said


def _show(detector_id: str, form: Form) -> str:
    def work(session: Session) -> list[int]:
        detector = get_open_detector(session, detector_id)
        queries = reserve(
            session,
            build_queue(session, detector, QueueChoice(), labeler=account().name),
            labeler=name_browser(),
            reserved_at=now(),
            ahead=TILES - 1,
        )
        return [query.id for query in queries]

    reserved = database().run(work)
    with database().read() as session:
        detector = get_open_detector(session, detector_id)
        chosen = choose_queue(session, detector, {})
        found = [get_query_by_number(session, detector.id, n) for n in reserved]
        return render_template(
            "labels/grid.html",
            detector=detector,
            form=form,
            chosen=chosen,
            choices=CHOICES,
            tiles=[
                Tile(dump_id("iq", query.id), build_picture(query))
                for query in found
                if chosen.queue.holds(query)
            ],
            answers=[*detector.classes, UNCLEAR],
            progress=build_progress(session, detector, chosen),
        )
