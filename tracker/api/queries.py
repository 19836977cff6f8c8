"""Queries, logged with image and label, and found again; tags of queries."""

from collections.abc import Callable, Sequence
from typing import Any, Literal

from flask import Response, request, url_for
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import http
from tracker.api import parameters, shapes
from tracker.api.imports import NEW_QUERY_BODY, read_query_and_image
from tracker.api.parameters import optional
from tracker.api.routes import answers_file, build_routes
from tracker.errors import NotFoundError
from tracker.services.by import By
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.estimates import query_lists
from tracker.services.fields import parse_input
from tracker.services.images import MEDIA_TYPES
from tracker.services.labelling import predictions
from tracker.services.labelling.golds import see_as
from tracker.services.labelling.predictions import QueryCompletion
from tracker.services.queries import queries as services
from tracker.services.queries.queries import NewTags, set_tags
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.images import name_of
from tracker.storage.queries import queries as storage
from tracker.storage.queries.finding import count_queries
from tracker.storage.queries.waiting import (
    WaitingQuery,
    count_waiting,
    find_waiting,
    list_waiting,
)

AnyQuery = storage.Query | WaitingQuery
routes = build_routes("queries", "Inputs of a detector and its predictions.")


class QueryList(parameters.Page, parameters.Window, parameters.Where):
    """The filters and the page of a list of queries."""

    prefix = "iq"

    labelled: parameters.Flag | None = optional(
        "Only queries with a label, or only those without."
    )
    predicted: parameters.Text | None = optional("Only queries with this prediction.")
    label: parameters.Text | None = optional("Only queries with this current label.")
    version: parameters.Text | None = optional("Only queries of this version.")
    key: parameters.Text | None = optional(
        "Only queries with this key; a * at the end matches any ending."
    )
    wrong: parameters.Flag | None = optional(
        "true: only queries that the detector got wrong; false: only "
        "those it got right. UNCLEAR labels are neither."
    )
    agreement: Literal["agreed", "majority", "disputed", "settled"] | None = optional(
        "Only queries that several people labelled, with this outcome."
    )
    versus: parameters.Text | None = optional(
        "Only queries whose input this other version answered too, with "
        "exactly one of the two right; wrong=false lists gains, wrong=true losses."
    )
    tag: parameters.Text | None = optional("Only queries with this tag.")
    waiting: parameters.Flag | None = optional(
        "true: only queries that wait for their prediction, newest first; "
        "false: none of these. Without an order and filters but key, both are listed."
    )
    sort: Literal[
        "newest",
        "oldest",
        "asked_at",
        "-asked_at",
        "confidence",
        "-confidence",
        "key",
        "-key",
    ] = Field(
        default="newest",
        description="With - descending; queries without a value come last.",
    )

    @property
    def takes_waiting(self) -> bool:
        """Whether the list includes queries without a prediction."""
        others = {"waiting", "after", "limit", "key"}
        asked = self.model_dump(exclude=others)
        usual = type(self)().model_dump(exclude=others)
        if self.waiting and asked != usual:
            raise parameters.wrong_parameter(
                "waiting", "true", "it can be combined with key and no other filter"
            )
        return self.waiting or (self.waiting is None and asked == usual)


@routes.call(
    "POST /detectors/<id>/queries",
    "logger",
    {"200": services.Query, "201": services.Query},
    *(409, 413, 415, 422),
    openapi_extensions={"requestBody": NEW_QUERY_BODY},
)
def log_query(path: parameters.IdPath) -> Response:
    """Log a query, with or without its label.

    Sending the same key, image and content again, or a part of the content, returns
    200 and the stored query; anything else is a 409.  A prediction for the key of a
    query that waits for it completes that query.  An erased image is not stored again.
    """
    name = stored = None
    if request.mimetype == "multipart/form-data":
        new, image = read_query_and_image()
        name, is_erased = name_of(*image), False
        if new.key is not None:
            with http.database().read() as session:
                detector = get_open_detector(session, path.id)
                is_erased = services.is_image_erased(session, detector, new.key)
        # Before its query.
        if not is_erased:
            stored = http.context().images.put(image.content, image.suffix)
    else:
        new = parse_input(services.NewQuery, http.read_json_body(is_object=True))

    def log(session: Session) -> tuple[Shape, int]:
        detector = get_open_detector(session, path.id)
        query, is_new = predictions.log_any(
            session, detector, new, http.by(), image=stored
        )
        address = address_of_image(query)
        described = services.describe_query(session, query, image=address)
        return described, 201 if is_new else 200

    return http.answer_idempotently(log, name, new)


def _describe(session: Session, query: AnyQuery) -> services.Query:
    image = address_of_image(query)
    return services.describe_query(session, query, image=image)


def address_of_image(query: AnyQuery) -> str | None:
    """Return the URL of the image of *query*, None if it has none."""
    if query.image is None:
        return None
    return url_for("queries.get_image", id=dump_id("iq", query.id), _external=True)


@routes.call("GET /detectors/<id>/queries", "viewer", shapes.QueryPage)
def list_queries(path: parameters.IdPath, query: QueryList) -> dict[str, Any]:
    """List the queries of a detector, newest first unless sorted otherwise."""
    with http.database().read() as session:
        detector = get_detector(session, path.id)
        if query.takes_waiting:
            found, total = _list_any(session, detector, query)
        else:
            of_page = {"wrong", "waiting", "sort", "limit", "after"}
            found, total = query_lists.find_and_count(
                session,
                detector,
                query_lists.QueryFilter(
                    is_wrong=query.wrong, **query.model_dump(exclude=of_page)
                ),
                sort=query.sort,
                after=_find_place(session, detector, query),
                limit=query.limit + 1,
                at=http.now(),
            )
        page = parameters.dump_page(
            found,
            query.limit,
            lambda found: _describe(session, found),
            lambda found: dump_id("iq", found.id),
        )
        return page | {"total": total}


def _list_any(
    session: Session, detector: Detector, query: QueryList
) -> tuple[Sequence[AnyQuery], int]:
    """Return waiting queries, alone or merged with the others, newest first."""
    if query.after is not None and find_waiting(session, query.after) is None:
        _find_place(session, detector, query)
    place: dict[str, Any] = {"before": query.after, "limit": query.limit + 1}
    key = query.key
    found: list[AnyQuery] = [*list_waiting(session, detector.id, key=key, **place)]
    total = count_waiting(session, detector.id, key)
    if not query.waiting:
        wanted = query_lists.QueryFilter(key=key)
        also = query_lists.build_filter(session, detector, wanted, at=http.now())
        found += storage.list_queries(session, detector.id, also=also, **place)
        total += (
            query_lists.count_shown(session, detector.id)
            if key is None
            else count_queries(session, also)
        )
        found.sort(key=lambda one: one.id, reverse=True)
    return found[: query.limit + 1], total


def _find_place(
    session: Session, detector: Detector, query: QueryList
) -> storage.Query | None:
    if query.after is None:
        return None
    found = storage.find_query_of(session, detector.id, query.after)
    if found is None:
        message = "this query no longer exists; start with the first page"
        raise parameters.wrong_parameter("after", dump_id("iq", query.after), message)
    return found


@routes.call("GET /queries/<id>", "viewer", services.Query)
def get_query(path: parameters.IdPath) -> dict[str, Any]:
    """Get a query."""
    with http.database().read() as session:
        return _describe(
            session, predictions.find_any(session, path.id, seen_by=http.by().name)
        ).dump()


@routes.call("PATCH /queries/<id>", "editor", services.Query, 409)
def complete_query(path: parameters.IdPath, body: QueryCompletion) -> dict[str, Any]:
    """Set the input of a query, or the prediction that it waits for.

    Queries that were logged without a prediction wait for one.  All queries with the
    same input share its label.  Sending the same again returns the same; another
    prediction or input is a 409.
    """

    def complete(session: Session) -> dict[str, Any]:
        query = predictions.complete_query(session, path.id, body, http.by())
        return _describe(session, query).dump()

    return http.database().run(complete)


@routes.call("DELETE /queries/<id>", "admin", None, 409, 410)
def erase_query(path: parameters.IdPath) -> Response:
    """Erase a query: its image, metadata, input and notes.

    The counts and the history stay.  From then on the query returns 410.
    """
    return _erase(services.erase_query, path.id)


def _erase(work: Callable[[Session, str, By], str | None], query_id: str) -> Response:
    """Erase a query or its image, then the file if no query uses it."""
    name = http.database().run(lambda session: work(session, query_id, http.by()))
    if name is not None:
        http.context().images.delete(name)
    return http.no_content()


@routes.call("GET /queries/<id>/image", "viewer", answers_file(*MEDIA_TYPES.values()))
def get_image(path: parameters.IdPath) -> Response:
    """Get the image of a query, as encoded again on upload."""
    with http.database().read() as session:
        name = predictions.find_any(session, path.id).image
    if name is None:
        raise NotFoundError("the query has no image")
    return http.send_image(name)


@routes.call("DELETE /queries/<id>/image", "admin", None, 410)
def erase_image(path: parameters.IdPath) -> Response:
    """Erase the image of a query, and its address if it is stored elsewhere.

    Everything else of the query stays.  Erasing it again is a 410.
    """
    return _erase(services.erase_image, path.id)


tags_routes = build_routes("tags", "Words on queries, to find them again.")


@tags_routes.call("PUT /queries/<id>/tags", "labeler", services.Query, 409, 410)
def tag_query(path: parameters.IdPath, body: NewTags) -> dict[str, Any]:
    """Replace the tags of a query.

    List the queries with a tag by tag=; the labels export has the tags too.
    """
    with http.database().write() as session:
        query = see_as(session, set_tags(session, path.id, body), http.by().name)
        image = address_of_image(query)
        return services.describe_query(session, query, image=image).dump()
