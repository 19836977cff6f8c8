"""The queries of a detector, and one query with its labels."""

from collections.abc import Mapping, Sequence
from typing import Any

from flask import Response, flash, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError, NotFoundError
from tracker.http import account, by, context, database, now
from tracker.services.estimates.query_lists import find_and_count, find_queries
from tracker.services.evidence.standing import is_closed
from tracker.services.fields import parse_input
from tracker.services.images import MEDIA_TYPES, make_thumbnail
from tracker.services.labelling.golds import get_gold, see_as
from tracker.services.labelling.labelers import get_agreement, list_judgements
from tracker.services.labelling.labels import NewLabel, add_label, list_label_history
from tracker.services.labelling.predictions import find_any
from tracker.services.queries import queries as services
from tracker.services.queries.queries import NewTags, get_query, set_tags
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import Detector, Version, find_detector, list_versions
from tracker.storage.labelling.rechecks import find_recheck
from tracker.storage.queries.queries import Query, find_query_of, list_tags, load_tags
from tracker.storage.queries.waiting import count_waiting, list_waiting
from tracker.web.blueprint import cut_page, lead_to, page, pages, reading
from tracker.web.drawing.pictures import build_picture
from tracker.web.drawing.readings import read
from tracker.web.forms import Form, failed_form, filled_in
from tracker.web.labelling.labels import choose_keys
from tracker.web.queries.filters import MOST_COUNTED, Filter
from tracker.words import DISPUTED, EDITOR, UNCLEAR

_PAGE = 24
# From so many queries on it says which filters read all of them.
MANY = 1_000_000


@page("GET /detectors/<detector_id>/queries", "viewer")
def show_queries(detector_id: str) -> ResponseReturnValue:
    wanted = Filter.parse(request.args)
    place = parse_id("iq", request.args.get("after", ""))
    problem, last, total = None, None, 0
    with reading(detector_id) as (session, detector):
        versions = list_versions(session, detector.id)
        after = place and find_query_of(session, detector.id, place)
        try:
            queries, last, total = list_page(session, detector, wanted, after or None)
        except InvalidInputError as error:
            problem, queries = str(error), []
        agreed, disputed = get_agreement(session, detector)
        page = render_template(
            "queries/list.html",
            detector=detector,
            shown=[(query, build_picture(detector, query)) for query in queries],
            total=total,
            problem=problem,
            last=last,
            is_first=not after,
            versions=versions,
            asked=wanted,
            labels=[*detector.classes, UNCLEAR],
            waiting=count_waiting(session, detector.id),
            tags=list_tags(session, detector.id),
            most_counted=MOST_COUNTED,
            is_large=sum(one.queries for one in versions) >= MANY,
            agreement=read(agreed, name="Agreement", tone=1)
            if agreed.labelled
            else None,
            disputed=disputed,
        )
    return page, 400 if problem else 200


def list_page(
    session: Session, detector: Detector, wanted: Filter, after: Query | None
) -> tuple[Sequence[Query], Query | None, int]:
    """Return a page of the list, its last query if more follow, and the total."""
    found, total = find_and_count(
        session,
        detector,
        wanted.wanted,
        sort=wanted.order,
        after=after,
        limit=_PAGE + 1,
        at=now(),
        at_most=MOST_COUNTED,
    )
    return *cut_page(found, _PAGE), total


@page("GET /detectors/<detector_id>/queries/waiting", "viewer")
def show_waiting(detector_id: str) -> ResponseReturnValue:
    before = parse_id("iq", request.args.get("before", ""))
    with reading(detector_id) as (session, detector):
        found = list_waiting(session, detector.id, before=before, limit=_PAGE + 1)
        queries, last = cut_page(found, _PAGE)
        return render_template(
            "queries/waiting.html",
            detector=detector,
            shown=[(query, build_picture(detector, query)) for query in queries],
            waiting=count_waiting(session, detector.id),
            last=last,
            is_first=before is None,
        )


@page("GET /queries/<query_id>", "viewer")
def show_query(query_id: str) -> ResponseReturnValue:
    with database().read() as session:
        return render_query(session, get_query(session, query_id), Form({}))


@page("POST /queries/<query_id>", "labeler")
def label_query(query_id: str) -> ResponseReturnValue:
    try:
        _label(query_id, request.form)
    except (InvalidInputError, ConflictError) as error:
        with database().read() as session:
            form = failed_form(request.form, error, conflict_field="label")
            return render_query(session, get_query(session, query_id), form), 422
    address = Filter.parse(request.args).address
    return lead_to("show_query", query_id=query_id, **address)


def _label(query_id: str, typed: Mapping[str, str]) -> None:
    given = filled_in(typed, "label", "note", "sampling")
    given["settles"] = "settles" in typed and account().may(EDITOR)
    new = parse_input(NewLabel, given)
    with database().write() as session:
        query = get_query(session, query_id)
        if query.is_gold and account().may(EDITOR):
            raise ConflictError(
                "this query is gold, and its answer is known; end that first"
            )
        add_label(session, query.id, new, by())


@page("POST /queries/<query_id>/erase", "admin")
def erase(query_id: str) -> ResponseReturnValue:
    if "sure" not in request.form:
        return lead_to("show_query", query_id=query_id)
    with database().write() as session:
        detector_id = dump_id("det", get_query(session, query_id).detector_id)
        name = services.erase_query(session, query_id, by())
    # No query shows it any more, once that is committed.
    if name is not None:
        context().images.delete(name)
    return lead_to("show_queries", says="The query is erased.", detector_id=detector_id)


@page("POST /queries/<query_id>/image/erase", "admin")
def erase_image(query_id: str) -> ResponseReturnValue:
    if "sure" in request.form:
        with database().write() as session:
            name = services.erase_image(session, query_id, by())
        if name is not None:
            context().images.delete(name)
        flash("The image is erased.")
    return lead_to("show_query", query_id=query_id)


def render_query(session: Session, query: Query, form: Form) -> str:
    """Return the page of a query."""
    detector = find_detector(session, query.detector_id)
    assert detector is not None
    asked = Filter.parse(request.args)
    query = see_as(session, query, account().name)
    is_editor = account().may(EDITOR)
    second = find_recheck(session, query)
    how: dict[str, Any] = {"sort": asked.order, "after": query, "limit": 1, "at": now()}
    neighbours = {}
    for name, back in (("before", True), ("behind", False)):
        found = find_queries(session, detector, asked.wanted, **how, is_backwards=back)
        neighbours[name] = next(iter(found[0]), None)
    return render_template(
        "queries/query.html",
        # What is known of a gold query nobody who labels may see.
        gold=get_gold(session, dump_id("iq", query.id))
        if query.is_gold and is_editor
        else None,
        judgements=list_judgements(session, query),
        # What was said of it when its label was given again.
        second=second if second and second.answered_at else None,
        detector=detector,
        query=query,
        version=session.get_one(Version, (query.detector_id, query.version_id)),
        picture=build_picture(detector, query),
        history=list_label_history(session, query, account().name),
        labels=[*detector.classes, UNCLEAR],
        keys=choose_keys(detector.classes),
        known_tags=list_tags(session, detector.id),
        asked=asked.address,
        **neighbours,
        settles=query.agreement == DISPUTED and is_editor,
        is_closed=is_closed(query, account()),
        form=form,
    )


@page("GET /queries/<query_id>/image", "viewer")
def show_image(query_id: str) -> ResponseReturnValue:
    content, suffix = _read_image(_image_name(query_id))
    return Response(content, mimetype=MEDIA_TYPES[suffix])


@page("GET /queries/<query_id>/thumbnail", "viewer")
def show_thumbnail(query_id: str) -> ResponseReturnValue:
    """Give the image of a query, small enough for a list."""
    name = _image_name(query_id)
    # A list shows dozens of them again and again, and none ever changes.  Yet the
    # browser asks each time: nobody may see what it kept after signing out.
    if request.if_none_match.contains(name):
        response = Response(status=304)
    else:
        content, suffix = make_thumbnail(*_read_image(name))
        response = Response(content, mimetype=MEDIA_TYPES[suffix])
    response.headers["Cache-Control"] = "private, no-cache"
    response.set_etag(name)
    return response


def _image_name(query_id: str) -> str:
    with database().read() as session:
        name = find_any(session, query_id).image
    if name is None:
        raise NotFoundError(f"the query {query_id[:40]} has no image")
    return name


def _read_image(name: str) -> tuple[bytes, str]:
    try:
        content = context().images.get(name)
    except FileNotFoundError as error:
        raise NotFoundError("the image is missing where images are kept") from error
    return content, name.rpartition(".")[2]


pages.add_app_template_global(load_tags)


@page("POST /queries/<query_id>/tags", "labeler")
def tag_query(query_id: str) -> ResponseReturnValue:
    with database().write() as session:
        tags = set(load_tags(get_query(session, query_id).tags))
        if added := request.form.get("add", "").strip():
            tags.add(added)
        tags.discard(request.form.get("remove", ""))
        set_tags(session, query_id, parse_input(NewTags, {"tags": sorted(tags)}))
    address = Filter.parse(request.args).address
    return lead_to("show_query", query_id=query_id, **address)
