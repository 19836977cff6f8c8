"""Labelling by hand: one query after the other, drawn at random, blind."""

import secrets
from collections.abc import Mapping
from dataclasses import dataclass

from flask import redirect, render_template, request, url_for
from flask import session as cookie
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError, NotFoundError
from tracker.http import account, database, now, requires
from tracker.services.detectors import choose_versions, get_detector, get_open_detector
from tracker.services.estimates import Estimate, get_estimate
from tracker.services.fields import UNCLEAR, parse_input
from tracker.services.labels import NewLabel, add_label, list_label_history
from tracker.services.queries import get_query, get_query_by_number
from tracker.services.reservations import (
    MOST_COUNTED,
    count_waiting,
    has_unlabelled,
    reserve,
    skip,
)
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.queries import Query
from tracker.web.blueprint import answer_live, pages
from tracker.web.forms import Form, failed_form, filled_in
from tracker.web.pictures import build_picture
from tracker.web.readings import Axis, Reading, build_axis, read_balanced
from tracker.web.sparklines import draw_sparkline

MOST_BUTTONS = 10


@dataclass(frozen=True, slots=True)
class Progress:
    """How far labelling has come."""

    estimate: Estimate
    reading: Reading
    axis: Axis
    labels: int
    waiting: int
    versions: int
    sparkline: str

    @property
    def has_more(self) -> bool:
        """Whether more wait than were counted."""
        return self.waiting == MOST_COUNTED

    @property
    def fingerprint(self) -> str:
        """Another one whenever a number of the panel is another one."""
        parts = (self.labels, self.waiting, self.reading.low, self.reading.high)
        return "-".join(map(str, parts))


@dataclass(frozen=True, slots=True)
class Answered:
    """The last answer of this visitor, and what the detector had said."""

    query: Query

    @property
    def is_unclear(self) -> bool:
        """Whether there is nothing to agree about."""
        return self.query.label == UNCLEAR

    @property
    def agrees(self) -> bool:
        """Whether the detector had said the same."""
        return self.query.label == self.query.predicted


@pages.get("/detectors/<detector_id>/label")
@requires("labeler")
def show_next(detector_id: str) -> ResponseReturnValue:
    """Show a query drawn at random, without its prediction, to be labelled."""
    return _show(detector_id, asked=request.args, form=Form({}))


@pages.post("/detectors/<detector_id>/label")
@requires("labeler")
def label_next(detector_id: str) -> ResponseReturnValue:
    """Store the label that was given, or skip, and go on to the next query."""
    typed, last = request.form, request.form.get("query")
    if "skip" in typed:
        _skip(detector_id, typed)
        last = typed.get("last")
    else:
        try:
            _store(detector_id, typed)
        except InvalidInputError as error:
            form = failed_form(typed, error)
            return _show(detector_id, asked=typed, form=form), 422
    return redirect(url_for("pages.show_next", detector_id=detector_id, last=last), 303)


def _store(detector_id: str, typed: Mapping[str, str]) -> None:
    given = filled_in(typed, "label", "note")
    if "unclear" in typed:
        given["label"] = UNCLEAR
    if "again" not in typed:
        # An answer given anew is about a query that was chosen as it was before.
        given["sampling"] = "random"
    new = parse_input(NewLabel, given)
    with database().write() as session:
        detector = get_open_detector(session, detector_id)
        query = find_query_of(session, detector, typed.get("query"))
        if query is None:
            raise NotFoundError("this query belongs to no detector of that name")
        labeler = account().name
        add_label(session, detector, query, new, labeler=labeler, created_at=now())


def _skip(detector_id: str, typed: Mapping[str, str]) -> None:
    with database().write() as session:
        detector = get_open_detector(session, detector_id)
        query = find_query_of(session, detector, typed.get("query"))
        if query is not None:
            skip(session, query, labeler=_browser(), skipped_at=now())


def _browser() -> str:
    """Return for whom queries are reserved here.

    Everybody at the pages may have the same account, and two browsers must not be
    shown the same query.
    """
    if "browser" not in cookie:
        cookie["browser"] = secrets.token_hex(8)
    return f"{account().name} {cookie['browser']}"


def _show(detector_id: str, *, asked: Mapping[str, str], form: Form) -> str:
    """Reserve the next query, and show it in a transaction of its own.

    A page takes longer than a reservation, and a write keeps other writers out.
    """

    def work(session: Session) -> list[int]:
        queries = reserve(
            session,
            get_open_detector(session, detector_id),
            labeler=_browser(),
            reserved_at=now(),
            ahead=1,
        )
        return [query.id for query in queries]

    reserved = database().run(work)
    with database().read() as session:
        detector = get_open_detector(session, detector_id)
        found = [get_query_by_number(session, number) for number in reserved]
        # Somebody who knew its id may have labelled one meanwhile.
        queries = [query for query in found if query.audit_rank is not None]
        return _render(session, detector, queries, asked=asked, form=form)


def find_query_of(
    session: Session, detector: Detector, query_id: str | None
) -> Query | None:
    """Return the query of *detector* with that public id."""
    if not query_id:
        return None
    try:
        query = get_query(session, query_id)
    except NotFoundError:
        return None
    return query if query.detector_id == detector.id else None


def _find_labelled(
    session: Session, detector: Detector, query_id: str | None
) -> Query | None:
    # A query without a label would tell its prediction before it is answered, and
    # may be reserved for somebody else.
    query = find_query_of(session, detector, query_id)
    return query if query is not None and query.label is not None else None


def _render(
    session: Session,
    detector: Detector,
    queries: list[Query],
    *,
    asked: Mapping[str, str],
    form: Form,
) -> str:
    again = _find_labelled(session, detector, asked.get("again"))
    if again is not None:
        queries = [again, *queries]
        form = form if form.values else _typed_before(session, again)
    query, following = [*queries, None, None][:2]
    last = again or _find_labelled(session, detector, asked.get("last"))
    return render_template(
        "labels/label.html",
        detector=detector,
        form=form,
        query=query,
        again=again,
        picture=build_picture(query) if query else None,
        next_picture=build_picture(following) if following else None,
        last=Answered(last) if last else None,
        keys=choose_keys(detector.classes),
        has_unlabelled=has_unlabelled(session, detector),
        progress=build_progress(session, detector),
    )


def _typed_before(session: Session, query: Query) -> Form:
    """Return the note that was given with the current label by this visitor."""
    current = list_label_history(session, query)[0]
    is_own = current.labeler == account().name
    return Form({"note": current.note or ""} if is_own else {})


def choose_keys(classes: list[str]) -> dict[str, str]:
    """Return the key that stands for each class; none where there are too many.

    A class that is called by a digit has that digit, or a person who sees an 8
    and presses 8 would answer something else.
    """
    if len(classes) > MOST_BUTTONS:
        return {}
    if all(len(name) == 1 and name in "0123456789" for name in classes):
        return {name: name for name in classes}
    return dict(zip(classes, "1234567890", strict=False))


@pages.get("/detectors/<detector_id>/label/progress")
@requires("labeler")
def show_progress(detector_id: str) -> ResponseReturnValue:
    """Show how far labelling has come."""
    with database().read() as session:
        detector = get_detector(session, detector_id)
        progress = build_progress(session, detector)
        return answer_live(
            "labels/_progress.html",
            seen=request.args.get("seen", ""),
            fingerprint=progress.fingerprint,
            progress=progress,
            detector=detector,
        )


def build_progress(session: Session, detector: Detector) -> Progress:
    """Return how far labelling has come: of all versions, and of the newest."""
    estimate = get_estimate(session, detector, computed_at=now())
    newest = choose_versions(session, detector, None)
    versions = list_versions(session, detector.id)
    pooled = estimate
    if len(versions) > 1:
        pooled = get_estimate(session, detector, version="*", computed_at=now())
    labels = pooled.labels + pooled.unclear + pooled.targeted_left_out
    reading = read_balanced(estimate)
    return Progress(
        estimate=estimate,
        reading=reading,
        axis=build_axis([reading], detector.target),
        labels=labels,
        waiting=count_waiting(session, detector),
        versions=len(versions),
        sparkline=draw_sparkline(session, newest[0] if newest else None),
    )
