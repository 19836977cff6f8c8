"""The queries of a detector, and one query with its labels."""

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from flask import Response, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError, NotFoundError
from tracker.http import account, context, database, now, requires
from tracker.services.agreement import DISPUTED, get_agreement, is_closed
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import UNCLEAR, parse_input
from tracker.services.images import MEDIA_TYPES, make_thumbnail
from tracker.services.labels import NewLabel, add_label, list_label_history
from tracker.services.queries import get_query
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import Detector, Version, find_detector, list_versions
from tracker.storage.queries import Query
from tracker.web.blueprint import cut_page, pages
from tracker.web.filters import Filter, find_queries
from tracker.web.forms import Form, failed_form, filled_in
from tracker.web.pictures import build_picture
from tracker.web.readings import read

_PAGE = 24


@pages.get("/detectors/<detector_id>/queries")
@requires("viewer")
def show_queries(detector_id: str) -> ResponseReturnValue:
    """Show the queries that pass the filters, the newest first."""
    wanted = Filter.parse(request.args)
    before = parse_id("iq", request.args.get("before", ""))
    with database().read() as session:
        detector = get_detector(session, detector_id)
        found = find_queries(session, detector, wanted, before=before, limit=_PAGE + 1)
        queries, last = cut_page(found, _PAGE)
        return render_template(
            "queries/list.html",
            detector=detector,
            shown=[(query, build_picture(query)) for query in queries],
            last=last,
            is_first=before is None,
            versions=list_versions(session, detector.id),
            asked=asdict(wanted),
            labels=[*detector.classes, UNCLEAR],
            **_describe_agreement(session, detector),
        )


def _describe_agreement(session: Session, detector: Detector) -> dict[str, Any]:
    found = get_agreement(session, detector)
    compared = found.share.labelled
    reading = read(
        found.share, labels=compared, computed_at=now(), name="Agreement", tone=1
    )
    return {"agreement": reading if compared else None, "disputed": found.disputed}


@pages.get("/queries/<query_id>")
@requires("viewer")
def show_query(query_id: str) -> ResponseReturnValue:
    """Show a query with every label that it was ever given."""
    with database().read() as session:
        return _render(session, get_query(session, query_id), Form({}))


@pages.post("/queries/<query_id>")
@requires("labeler")
def label_query(query_id: str) -> ResponseReturnValue:
    """Give a query its label, or another one than it has."""
    try:
        _label(query_id, request.form)
    except (InvalidInputError, ConflictError) as error:
        with database().read() as session:
            form = failed_form(request.form, error, conflict_field="label")
            return _render(session, get_query(session, query_id), form), 422
    return redirect(url_for("pages.show_query", query_id=query_id), 303)


def _label(query_id: str, typed: Mapping[str, str]) -> None:
    given = filled_in(typed, "label", "note", "sampling")
    given["settles"] = "settles" in typed and account().may("editor")
    new = parse_input(NewLabel, given)
    with database().write() as session:
        query = get_query(session, query_id)
        detector = get_open_detector(session, dump_id("det", query.detector_id))
        add_label(
            session,
            detector,
            query,
            new,
            labeler=account().name,
            created_at=now(),
            is_editor=account().may("editor"),
        )


def _render(session: Session, query: Query, form: Form) -> str:
    detector = find_detector(session, query.detector_id)
    assert detector is not None
    return render_template(
        "queries/query.html",
        detector=detector,
        query=query,
        version=session.get_one(Version, query.version_id),
        picture=build_picture(query),
        history=list_label_history(session, query),
        labels=[*detector.classes, UNCLEAR],
        settles=query.agreement == DISPUTED and account().may("editor"),
        is_closed=is_closed(query, is_editor=account().may("editor")),
        form=form,
    )


@pages.get("/queries/<query_id>/image")
@requires("viewer")
def show_image(query_id: str) -> ResponseReturnValue:
    """Give the image of a query."""
    content, suffix = _read_image(_image_name(query_id))
    return Response(content, mimetype=MEDIA_TYPES[suffix])


@pages.get("/queries/<query_id>/thumbnail")
@requires("viewer")
def show_thumbnail(query_id: str) -> ResponseReturnValue:
    """Give the image of a query, small enough for a list."""
    name = _image_name(query_id)
    # A list shows dozens of them again and again, and none ever changes.  Yet the
    # browser asks each time: whoever has signed out must not see what it kept.
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
        name = get_query(session, query_id).image
    if name is None:
        raise NotFoundError(f"the query {query_id[:40]} has no image")
    return name


def _read_image(name: str) -> tuple[bytes, str]:
    try:
        content = context().images.get(name)
    except FileNotFoundError as error:
        raise NotFoundError("the image is missing where images are kept") from error
    return content, name.rpartition(".")[2]
