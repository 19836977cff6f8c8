"""What is labelled next, in which queue: the random sample, re-checks, gold queries."""

from typing import Any, ClassVar

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import errors, http
from tracker.api import parameters, queries
from tracker.api.routes import build_routes
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import Address, KeyName
from tracker.services.labelling import golds, queues, rechecks
from tracker.services.labelling.golds import Gold, NewGold
from tracker.services.queries.queries import get_query
from tracker.services.wording import missing
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.labelling.queues import RecheckQueue
from tracker.storage.labelling.rechecks import find_recheck
from tracker.storage.queries.queries import find_query_of

routes = build_routes("labelling", "Which query to label next.")


class NextWanted(queues.QueueChoice, parameters.Parameters):
    """For whom the next query is."""

    repeated: ClassVar[frozenset[str]] = frozenset({"where"})

    labeler: KeyName | None = parameters.optional(
        "The labeler; by default the name of the key."
    )
    skip: parameters.QueryReference | None = parameters.optional(
        "The id of a query to skip first."
    )


@routes.call(
    "GET /detectors/<id>/next",
    "labeler",
    {
        "200": queues.NextQuery,
        "204": {"description": "No query is left, or others have reserved the rest."},
    },
    409,
)
def get_next(path: parameters.IdPath, query: NextWanted) -> Response | dict[str, Any]:
    """Get the next query to label, drawn at random by default.

    It is reserved, and comes without its prediction.  The same labeler gets the same
    query until it is labelled or skipped; nobody else gets it within five minutes.
    """
    asked_by = http.by().credit(query.labeler)

    def work(session: Session) -> dict[str, Any] | None:
        detector = get_open_detector(session, path.id)
        if query.skip is not None:
            skipped = find_query_of(session, detector.id, query.skip)
            if skipped is None:
                message = "it is not a query of this detector"
                raise parameters.wrong_parameter(
                    "skip", dump_id("iq", query.skip), message
                )
            queues.skip(session, skipped, asked_by)
        try:
            queue = queues.build_queue(session, detector, query, asked_by)
        except errors.InvalidInputError as error:
            raise http.BadParametersError(error.errors) from error
        found = queues.reserve(session, queue, asked_by)
        if not found:
            return None
        return queues.describe_next(
            detector,
            found[0],
            queue.sampling,
            asked_by.at + queues.RESERVED_FOR,
            image=queries.address_of_image(found[0]),
            recheck=isinstance(queue, RecheckQueue),
        ).dump()

    answer = http.database().run(work)
    return http.no_content() if answer is None else answer


rechecks_routes = build_routes(
    "rechecks", "Labels given a second time; they are not scored."
)


class RecheckChoice(parameters.Parameters):
    """Of which version."""

    version: parameters.ShownVersion = None


@rechecks_routes.call(
    "POST /detectors/<id>/rechecks", "editor", rechecks.RecheckReport, 409, status=201
)
def draw_rechecks(path: parameters.IdPath, body: rechecks.NewRechecks) -> Response:
    """Draw labels of a version by chance, for somebody else to give again.

    Get them by `/next?queue=recheck`, and send the answers to `/queries/{id}/recheck`.
    """
    # It goes through all labels, which a write would keep others waiting for.
    with http.database().read() as session:
        detector = get_open_detector(session, path.id)
        version, frozen = rechecks.freeze_if_needed(session, detector, body, http.now())

    def draw(session: Session) -> tuple[Shape, int]:
        detector = get_open_detector(session, path.id)
        found = rechecks.choose_version(session, detector, version.name)
        rechecks.draw_rechecks(session, found, frozen, body, http.by())
        return rechecks.get_recheck_report(session, detector, found, http.now()), 201

    return http.answer_idempotently(draw, body)


@rechecks_routes.call(
    "GET /detectors/<id>/rechecks", "viewer", rechecks.RecheckReport, 409
)
def get_rechecks(path: parameters.IdPath, query: RecheckChoice) -> dict[str, Any]:
    """Bound the share of wrong labels, and the accuracies by the truth."""
    with http.database().read() as session:
        detector = get_detector(session, path.id)
        version = rechecks.choose_version(session, detector, query.version)
        at = http.now()
        return rechecks.get_recheck_report(session, detector, version, at).dump()


@rechecks_routes.call(
    "POST /queries/<id>/recheck", "labeler", rechecks.Recheck, 409, status=201
)
def add_recheck(path: parameters.IdPath, body: rechecks.NewRecheck) -> Response:
    """Label a query a second time; the first label stays and is scored.

    Where the two differ the query is disputed, until an editor settles it.
    """

    def add(session: Session) -> tuple[Shape, int]:
        query = get_query(session, path.id)
        detector = get_open_detector(session, dump_id("det", query.detector_id))
        found = rechecks.add_recheck(session, detector, query, body, http.by())
        return rechecks.describe_recheck(found), 201

    return http.answer_idempotently(add, body)


@rechecks_routes.call("GET /queries/<id>/recheck", "viewer", rechecks.Recheck)
def get_recheck(path: parameters.IdPath) -> dict[str, Any]:
    """Get the second label of a query; 404 until it has one."""
    with http.database().read() as session:
        found = find_recheck(session, get_query(session, path.id))
        if found is None or found.answered_at is None:
            raise missing("recheck", path.id)
        return rechecks.describe_recheck(found).dump()


gold_queries_routes = build_routes(
    "gold queries", "Queries whose answer is known; they tell how often people err."
)


class GoldList(parameters.Page):
    """Which gold queries to list."""

    prefix = "iq"


class GoldPage(Shape):
    """A page of gold queries, the newest first."""

    items: list[Gold]
    next: Address | None = Field(description="The address of the page after this one.")


@gold_queries_routes.call("PUT /queries/<id>/gold", "editor", Gold, 409, 410)
def mark_gold(path: parameters.IdPath, body: NewGold) -> dict[str, Any]:
    """Make a query without a label gold, by giving its known answer.

    It is mixed into the random queue at the detector's `gold_rate`, unmarked.
    Answers to it are not labels, and are never scored.
    """
    with http.database().write() as session:
        return golds.mark_gold(session, path.id, body, http.by()).dump()


@gold_queries_routes.call("GET /queries/<id>/gold", "editor", Gold, 410)
def get_gold(path: parameters.IdPath) -> dict[str, Any]:
    """Get the known answer of a gold query, and how many people answered otherwise."""
    with http.database().read() as session:
        return golds.get_gold(session, path.id).dump()


@gold_queries_routes.call("DELETE /queries/<id>/gold", "editor", None, 409, 410)
def unmark_gold(path: parameters.IdPath) -> Response:
    """Make a gold query ordinary again; the answers to it still count."""
    with http.database().write() as session:
        golds.unmark_gold(session, path.id, http.by())
    return http.no_content()


@gold_queries_routes.call("GET /detectors/<id>/gold", "editor", GoldPage)
def list_golds(path: parameters.IdPath, query: GoldList) -> dict[str, Any]:
    """List the gold queries of a detector, including those that no longer are."""
    with http.database().read() as session:
        found = golds.list_golds(
            session,
            get_detector(session, path.id),
            before=query.after,
            limit=query.limit + 1,
        )
        return parameters.dump_page(
            found, query.limit, lambda one: one, lambda one: one.query
        )
