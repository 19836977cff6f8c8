"""Queries: logged with their image and label, and found again."""

from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.api.dumps import dump_query
from tracker.api.once import answer_once
from tracker.api.pages import dump_page
from tracker.api.parameters import (
    DetectorPath,
    Flag,
    Page,
    QueryCursor,
    QueryPath,
    Text,
)
from tracker.api.routes import answers, answers_file, build_routes
from tracker.api.uploads import NEW_QUERY_BODY, read_new_query
from tracker.errors import NotFoundError
from tracker.http import account, context, database, now, requires
from tracker.services import queries as services
from tracker.services.detectors import (
    check_class,
    choose_versions,
    get_detector,
    get_open_detector,
)
from tracker.services.images import MEDIA_TYPES
from tracker.storage import queries as storage
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector

routes = build_routes("queries", "What was put to a detector, and what it said.")


class QueryList(Page):
    """Which queries to list."""

    labelled: Flag | None = Field(default=None, description="With a label, or without.")
    predicted: Text | None = Field(
        default=None, description="Only with this prediction."
    )
    label: Text | None = Field(
        default=None, description="Only with this current label."
    )
    version: Text | None = Field(default=None, description="Only of this version.")
    agreement: Literal["agreed", "disputed", "settled"] | None = Field(
        default=None,
        description="Only where several people labelled it and this came of it.",
    )
    after: QueryCursor | None = Field(default=None, description="As it stands in next.")


@routes.post(
    "/detectors/<detector:id>/queries",
    responses=answers({201: shapes.Query, 200: shapes.Query}, 404, 409, 413, 415, 422),
    openapi_extensions={"requestBody": NEW_QUERY_BODY},
)
@requires("editor")
def log_query(path: DetectorPath) -> Response:
    """Log a query, maybe with its label.

    The same key again with the same content answers 200 and the stored query; with
    other content it is a 409.
    """
    new, image = read_new_query()

    def log(session: Session) -> tuple[dict[str, Any], int]:
        detector = get_open_detector(session, path.id)
        query, is_new = services.log_query(
            session,
            detector,
            new,
            labeler=account().name,
            created_at=now(),
            image=image,
        )
        answer = dump_query(session, query, version=new.version)
        return answer, 201 if is_new else 200

    return answer_once(log, content=f"{image}\n{new.model_dump_json()}")


@routes.get(
    "/detectors/<detector:id>/queries", responses=answers({200: shapes.QueryPage}, 404)
)
@requires("viewer")
def list_queries(path: DetectorPath, query: QueryList) -> dict[str, Any]:
    """List the queries of a detector, the newest first."""
    with database().read() as session:
        return dump_page(
            _find(session, get_detector(session, path.id), query),
            query.limit,
            lambda found: dump_query(session, found),
            lambda found: dump_id("iq", found.id),
        )


def _find(session: Session, detector: Detector, query: QueryList) -> Any:
    if query.predicted is not None:
        check_class(detector, query.predicted, field="predicted", may_be_unclear=False)
    if query.label is not None:
        check_class(detector, query.label, field="label", may_be_unclear=True)
    version_id = None
    if query.version not in {None, "*"}:
        version_id = choose_versions(session, detector, query.version)[0].id
    return storage.list_queries(
        session,
        detector.id,
        labelled=query.labelled,
        predicted=query.predicted,
        label=query.label,
        version_id=version_id,
        agreement=query.agreement,
        before=query.after,
        limit=query.limit + 1,
    )


@routes.get("/queries/<id>", responses=answers({200: shapes.Query}, 404))
@requires("viewer")
def get_query(path: QueryPath) -> dict[str, Any]:
    """Look at a query."""
    with database().read() as session:
        return dump_query(session, services.get_query(session, path.id))


@routes.get(
    "/queries/<id>/image",
    responses=answers_file(*MEDIA_TYPES.values(), problems=(404,)),
)
@requires("viewer")
def get_image(path: QueryPath) -> Response:
    """Get the image of a query, as it was written anew when it came in."""
    with database().read() as session:
        name = services.get_query(session, path.id).image
    if name is None:
        raise NotFoundError("the query has no image")
    try:
        content = context().images.get(name)
    except FileNotFoundError as error:
        raise NotFoundError("the image is missing where images are kept") from error
    return Response(content, mimetype=MEDIA_TYPES[name.rpartition(".")[2]])
