"""Labelling many queries of the random sample at once, blind as one by one.

The detector's predictions neither choose nor group what is shown: a labeler who
saw all the queries that it called an 8 would know its answer before giving one.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from flask import flash, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.charts.words import plural
from tracker.errors import ConflictError, FieldError, InvalidInputError
from tracker.http import account, by, database, requires
from tracker.services.detectors import check_class, get_open_detector
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.labelling.queues import RECHECK
from tracker.services.labelling.rechecks import NewRecheck, add_recheck
from tracker.services.queries.queries import get_query_by_number
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.labelling.queues import RecheckQueue
from tracker.web.blueprint import lead_to, pages
from tracker.web.drawing.pictures import Picture, build_picture
from tracker.web.forms import Form, failed_form, filled_in
from tracker.web.labelling.label_progress import (
    build_progress,
    choose_queue,
    reserve_next,
)
from tracker.web.labelling.labels import choose_keys, find_query_of
from tracker.words import LABELER, UNCLEAR

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
    flash(_describe(stored, is_blind="queue" in _chosen()))
    return lead_to("show_grid", detector_id=detector_id, **_chosen())


def _chosen() -> dict[str, Any]:
    """Return the version, audit or re-check that the address or the form names."""
    found = filled_in(request.values, "version", "audit")
    if request.values.get("queue") == RECHECK:
        found["queue"] = RECHECK
    return found


def _store(session: Session, detector: Detector) -> list[tuple[str, str]]:
    """Label what was answered and still waits, so that a grid sent twice counts once.

    Queries are locked in the order of their ids, so that two grids never wait for each
    other.
    Returns each label with the prediction.
    """
    queue = choose_queue(session, detector, _chosen()).queue
    # Blind: even an editor does not change here what was settled just now.
    labeler = replace(by(), actor=replace(account(), role=LABELER))
    answers = _parse(detector, request.form)
    stored = []
    for name in sorted(answers, key=lambda name: (len(name), name)):
        query = find_query_of(session, detector, name)
        if query is None:
            raise InvalidInputError.of(name, "is no query of this detector")
        if not queue.holds(query):
            continue
        label = answers[name]
        try:
            if isinstance(queue, RecheckQueue):
                add_recheck(session, detector, query, NewRecheck(label=label), by())
            else:
                new = NewLabel(label=label, sampling=queue.sampling)
                add_label(session, query.id, new, labeler)
        except ConflictError:
            # Settled or answered just now, since it was found to wait.
            continue
        stored.append((label, query.predicted))
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


def _describe(stored: list[tuple[str, str]], *, is_blind: bool) -> str:
    scored = [pair for pair in stored if pair[0] != UNCLEAR]
    agreed = sum(label == predicted for label, predicted in scored)
    said = f"{plural(len(stored), 'label')} saved."
    if scored and not is_blind:
        said += f" The detector agreed on {agreed} of {len(scored)}."
    return said


def _show(detector_id: str, form: Form) -> str:
    reserved = reserve_next(detector_id, _chosen(), ahead=TILES - 1)
    with database().read() as session:
        detector = get_open_detector(session, detector_id)
        chosen = choose_queue(session, detector, _chosen())
        found = [get_query_by_number(session, detector.id, n) for n in reserved]
        return render_template(
            "labels/grid.html",
            detector=detector,
            form=form,
            chosen=chosen,
            keys=choose_keys(detector.classes),
            tiles=[
                Tile(dump_id("iq", query.id), build_picture(detector, query))
                for query in found
                if chosen.queue.holds(query)
            ],
            answers=[*detector.classes, UNCLEAR],
            progress=build_progress(session, detector, chosen),
        )
