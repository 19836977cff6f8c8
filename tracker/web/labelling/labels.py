"""Labelling by hand and blind: one query after the other, many at once, all queues.

Where many are shown at once, the detector's predictions neither choose nor group them:
a labeler who saw all the queries that it called an 8 would know its answer before
giving one.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import replace
from itertools import islice
from typing import Any

from flask import (
    Response,
    flash,
    make_response,
    redirect,
    render_template,
    request,
    url_for,
)
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.charts.words import plural
from tracker.errors import ConflictError, FieldError, InvalidInputError, NotFoundError
from tracker.http import account, by, database
from tracker.services.detectors import check_class, get_open_detector
from tracker.services.estimates.report import Report
from tracker.services.evidence.standing import SettledError, is_closed
from tracker.services.fields import parse_input
from tracker.services.labelling import queues
from tracker.services.labelling.golds import see_as
from tracker.services.labelling.labels import NewLabel, add_label, list_label_history
from tracker.services.labelling.rechecks import NewRecheck, add_recheck
from tracker.services.queries.queries import get_query_by_number
from tracker.services.wording import invalid
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import Detector, list_detectors, list_versions
from tracker.storage.labelling.labelers import Assignment, list_asked
from tracker.storage.labelling.queues import RecheckQueue, list_queued
from tracker.storage.queries import queries as storage
from tracker.storage.queries.queries import Query
from tracker.web.blueprint import lead_to, page, reading
from tracker.web.detector_list import list_reports
from tracker.web.drawing.pictures import build_picture
from tracker.web.drawing.words import number
from tracker.web.forms import Form, failed_form, filled_in
from tracker.web.labelling.label_progress import (
    Chosen,
    build_progress,
    by_browser,
    choose_queue,
    reserve_next,
)
from tracker.web.labelling.rechecks import find_answer
from tracker.web.telling.inbox import count_work
from tracker.words import LABELER, UNCLEAR

MOST_BUTTONS = 10
# If the typed text fits more than one class, this many of them are named.
_MOST_NAMED = 3


@page("GET /detectors/<detector_id>/label", "labeler")
def show_next(detector_id: str) -> ResponseReturnValue:
    """Show the next query without its prediction, to be labelled."""
    try:
        return _show(detector_id, asked=request.args, form=Form({}))
    except InvalidInputError as error:
        # What is wrong with the condition is shown at its field, and no query.
        if any(wrong.field != "where" for wrong in error.errors):
            raise
        form = failed_form(request.args, error)
        unbound = {x: text for x, text in form.values.items() if x != "where"}
        with database().read() as session:
            detector = get_open_detector(session, detector_id)
            chosen = choose_queue(session, detector, unbound)
            progress = build_progress(session, detector, chosen)
            asked = form.values
            return _render(
                session, detector, chosen, [], progress, asked=asked, form=form
            ), 400


@page("POST /detectors/<detector_id>/label", "labeler")
def label_next(detector_id: str) -> ResponseReturnValue:
    """Store the label that was given, or skip, and go on to the next query."""
    typed, last = request.form, request.form.get("query")

    def skip(session: Session) -> None:
        detector = get_open_detector(session, detector_id)
        query = find_query_of(session, detector, last)
        if query is not None:
            queues.skip(session, query, by_browser())

    if "skip" in typed:
        # The worker may delete the query just now: the second try does not find it.
        database().run(skip)
        last = typed.get("last")
    else:
        try:
            _store(detector_id, typed)
        except InvalidInputError as error:
            form = failed_form(typed, error)
            return make_response(_show(detector_id, asked=typed, form=form), 422)
        except SettledError:
            flash(
                "Your answer was not saved, for an editor has settled this query "
                "meanwhile."
            )
            return _send_to(url_for("pages.show_query", query_id=str(last)))
    with reading(detector_id) as (session, detector):
        address = choose_queue(session, detector, typed).address
    following = dict[str, Any](address, detector_id=detector_id, last=last)
    return lead_to("show_next", **following)


def _send_to(address: str) -> ResponseReturnValue:
    if "HX-Request" in request.headers:
        # What takes the place of the form comes from this page, not from that one.
        return Response(status=409, headers={"HX-Redirect": address})
    return redirect(address, 303)


def _store(detector_id: str, typed: Mapping[str, str]) -> None:
    given = filled_in(typed, "label", "note")
    if "unclear" in typed:
        given["label"] = UNCLEAR
    with database().write() as session:
        detector = get_open_detector(session, detector_id)
        query = find_query_of(session, detector, typed.get("query"))
        if query is None:
            raise NotFoundError("this query belongs to no detector of that name")
        queue = choose_queue(session, detector, typed).queue
        if not choose_keys(detector.classes) and "label" in given:
            given["label"] = find_class(detector.classes, given["label"])
        if isinstance(queue, RecheckQueue):
            second = parse_input(NewRecheck, given)
            try:
                add_recheck(session, detector, query, second, by())
            except ConflictError as error:
                flash(f"Your answer was not saved: {error}.")
            return
        # A changed answer, or one after somebody else's, is about a query that was
        # chosen as its label says.
        if "again" not in typed and queue.holds(query):
            given["sampling"] = queue.sampling
        add_label(session, query.id, parse_input(NewLabel, given), by())


def find_class(classes: list[str], typed: str) -> str:
    """Return the class that *typed* stands for: its name, or a part of one only."""
    if typed in {*classes, UNCLEAR}:
        return typed
    part = typed.casefold()
    fits = [name for name in classes if part in name.casefold()]
    same = [name for name in fits if part == name.casefold()]
    found = same or fits
    if len(found) == 1:
        return found[0]
    named = ", ".join(fits[:_MOST_NAMED])
    more = ", …" if len(fits) > _MOST_NAMED else ""
    fitting = f"{number(len(fits))} classes have that in their name: {named}{more}"
    raise invalid("label", typed, fitting if fits else "no class has that in its name")


def _show(
    detector_id: str, *, asked: Mapping[str, str], form: Form
) -> ResponseReturnValue:
    # A transaction of its own: see `reserve_next`.
    reserved = reserve_next(detector_id, asked, ahead=1)
    with database().read() as session:
        detector = get_open_detector(session, detector_id)
        held = [get_query_by_number(session, detector.id, n) for n in reserved]
        chosen = choose_queue(session, detector, asked)
        # Somebody who knew its id may have labelled one meanwhile.
        queries = [query for query in held if chosen.queue.holds(query)]
        progress = build_progress(session, detector, chosen)
        if chosen.is_stream and not form.errors and "again" not in asked:
            # Until this detector needs no more labels the question stays the same,
            # whichever is nearer to its verdict.
            found = progress["estimate"].decision
            is_open = queries and (found is None or found.verdict == "undecided")
            first = None if is_open else next(_iter_waiting(session, at_most=1), None)
            if first is not None and first[0].detector is not detector:
                why = "is decided" if queries else "has nothing left to label"
                flash(f"{detector.name} {why}. Next: {first[0].detector.name}.")
                following = dump_id("det", first[0].detector.id)
                address = url_for(
                    "pages.show_next", detector_id=following, stream="all"
                )
                return _send_to(address)
        return _render(
            session, detector, chosen, queries, progress, asked=asked, form=form
        )


def find_query_of(
    session: Session, detector: Detector, query_id: str | None
) -> Query | None:
    number = parse_id("iq", query_id or "")
    if number is None:
        return None
    return storage.find_query_of(session, detector.id, number)


def _find_answer_to_change(
    session: Session, detector: Detector, chosen: Chosen, query_id: str | None
) -> dict[str, Any] | None:
    """Return the last answer of this visitor, and whether the detector agrees."""
    # A query without a label would tell its prediction before it is answered, and
    # may be reserved for somebody else.
    query = find_query_of(session, detector, query_id)
    if query is not None:
        query = see_as(session, query, account().name)
    if query is None or query.label is None:
        return None
    # Of a second answer nothing is told of the first label or of the detector.
    is_blind = isinstance(chosen.queue, RecheckQueue)
    if is_blind:
        second = find_answer(session, query)
        if second is None:
            return None
        label, note = str(second.answer), second.note
    # What cannot be changed is not offered to be.
    elif is_closed(query, account()):
        return None
    else:
        current = list_label_history(session, query, account().name)[0]
        is_own = current.labeler == account().name
        label, note = query.label, current.note if is_own else None
    return {
        "query": query,
        "label": label,
        "note": note,
        "is_blind": is_blind,
        "is_unclear": label == UNCLEAR,
        "agrees": label == query.predicted,
    }


def _render(  # noqa: PLR0913 - what is shown, and what was asked for.
    session: Session,
    detector: Detector,
    chosen: Chosen,
    queries: list[Query],
    progress: dict[str, Any],
    *,
    asked: Mapping[str, str],
    form: Form,
) -> str:
    again = _find_answer_to_change(session, detector, chosen, asked.get("again"))
    if again is not None:
        queries = [again["query"], *queries]
        form = form if form.values else Form({"note": again["note"] or ""})
    query, following = [*queries, None, None][:2]
    # Be it in the random queue or not.
    open_one = storage.list_queries(session, detector.id, labelled=False, limit=1)
    last = again or _find_answer_to_change(session, detector, chosen, asked.get("last"))
    return render_template(
        "labels/label.html",
        detector=detector,
        form=form,
        query=query,
        again=again,
        picture=build_picture(detector, query) if query else None,
        following=following,
        next_picture=build_picture(detector, following) if following else None,
        last=last,
        keys=choose_keys(detector.classes),
        has_unlabelled=bool(open_one),
        progress=progress,
        chosen=chosen,
        asked=asked,
        versions=list_versions(session, detector.id),
    )


def choose_keys(classes: list[str]) -> dict[str, str]:
    """Return the key that stands for each class; none where there are too many."""
    if len(classes) > MOST_BUTTONS:
        return {}
    if all(len(name) == 1 and name in "0123456789" for name in classes):
        return {name: name for name in classes}
    return dict(zip(classes, "1234567890", strict=False))


TILES = 24


@page("GET /detectors/<detector_id>/label/grid", "labeler")
def show_grid(detector_id: str, failed: Form | None = None) -> str:
    reserved = reserve_next(detector_id, _chosen(), ahead=TILES - 1)
    with database().read() as session:
        detector = get_open_detector(session, detector_id)
        chosen = choose_queue(session, detector, _chosen())
        found = [get_query_by_number(session, detector.id, n) for n in reserved]
        return render_template(
            "labels/grid.html",
            detector=detector,
            form=failed or Form({}),
            chosen=chosen,
            keys=choose_keys(detector.classes),
            # The id of a query names its field.
            tiles=[
                {"name": dump_id("iq", one.id), "picture": build_picture(detector, one)}
                for one in found
                if chosen.queue.holds(one)
            ],
            answers=[*detector.classes, UNCLEAR],
            progress=build_progress(session, detector, chosen),
        )


@page("POST /detectors/<detector_id>/label/grid", "labeler")
def label_grid(detector_id: str) -> ResponseReturnValue:
    """Store the labels of a grid, all or none, and show the next one."""
    try:
        with database().write() as session:
            stored = _store_grid(session, get_open_detector(session, detector_id))
    except InvalidInputError as error:
        return show_grid(detector_id, failed_form(request.form, error)), 422
    scored = [pair for pair in stored if pair[0] != UNCLEAR]
    agreed = sum(label == predicted for label, predicted in scored)
    said = f"{plural(len(stored), 'label')} saved."
    if scored and "queue" not in _chosen():
        said += f" The detector agreed on {agreed} of {len(scored)}."
    return lead_to("show_grid", says=said, detector_id=detector_id, **_chosen())


def _chosen() -> dict[str, Any]:
    found = filled_in(request.values, "version", "audit")
    if request.values.get("queue") == queues.RECHECK:
        found["queue"] = queues.RECHECK
    return found


def _store_grid(session: Session, detector: Detector) -> list[tuple[str, str]]:
    """Label what was answered and still waits, so that a grid sent twice counts once.

    Returns each label with the prediction.
    """
    queue = choose_queue(session, detector, _chosen()).queue
    # Blind: even an editor does not change here what was settled just now.
    labeler = replace(by(), actor=replace(account(), role=LABELER))
    answers = _parse(detector, request.form)
    stored = []
    # In the order of their ids, so that two grids never wait for each other.
    for name in sorted(answers, key=lambda name: (len(name), name)):
        query = find_query_of(session, detector, name)
        if query is None:
            raise InvalidInputError.of(name, "is no query of this detector")
        if not queue.holds(query):
            continue
        label = answers[name]
        # Settled or answered just now, since it was found to wait.
        with suppress(ConflictError):
            if isinstance(queue, RecheckQueue):
                add_recheck(session, detector, query, NewRecheck(label=label), by())
            else:
                new = NewLabel(label=label, sampling=queue.sampling)
                add_label(session, query.id, new, labeler)
            stored.append((label, query.predicted))
    return stored


def _parse(detector: Detector, typed: Mapping[str, str]) -> dict[str, str]:
    # Each has an answer of its own, or that of the rest.
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


# How many detectors are listed.
_MOST = 20


@page("GET /label", "labeler")
def choose_label() -> ResponseReturnValue:
    """Show the detectors with queries that wait, what decides most first."""
    with database().read() as session:
        waiting = list(islice(_iter_waiting(session), _MOST))
        return render_template(
            "labels/list.html",
            waiting=waiting,
            work=count_work(session),
            is_cut=len(waiting) == _MOST,
            most=queues.MOST_COUNTED,
        )


def _iter_waiting(
    session: Session, *, at_most: int = queues.MOST_COUNTED
) -> Iterator[tuple[Report, int, Assignment | None]]:
    # Each with how many wait and what the visitor is asked for, which comes first.
    asked = {one.detector_id: one for one, _ in list_asked(session, account().name)}
    queued = list_queued(session, among=account().detectors)
    rows = list_reports(session, list_detectors(session, among=queued))

    def place(row: Report) -> tuple[Any, ...]:
        is_decided = row.state not in {"undecided", "open"}
        return row.detector.id not in asked, is_decided, *row.urgency

    for row in sorted(rows, key=place):
        # The version that is shown, which it would look for again.
        choice = queues.QueueChoice(version=row.estimate.version)
        queue = queues.build_queue(session, row.detector, choice, by())
        if count := queues.count_waiting(session, queue, at_most=at_most):
            yield row, count, asked.get(row.detector.id)
