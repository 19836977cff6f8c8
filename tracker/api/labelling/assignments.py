"""Assignments: how many labels each person is asked for, and how far they are."""

from typing import Any

from flask import Response
from pydantic import Field

from tracker.api.parameters import IdPath, Parameters
from tracker.api.routes import answers, build_routes
from tracker.http import by, database, no_content, requires
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import KeyName
from tracker.services.labelling import labelers as services
from tracker.services.labelling.labelers import Assignment, NewAssignment
from tracker.shapes import Shape

routes = build_routes("assignments", "How many labels each person is asked for.")


class WhoseAssignment(Parameters):
    """Whose assignment."""

    labeler: KeyName = Field(description="The person.")


class AssignmentList(Shape):
    """The assignments of a detector, by the name of the person."""

    items: list[Assignment]
    next: None = Field(description="Always null: all are in this list.")


@routes.put(
    "/detectors/<id>/assignments",
    responses=answers({200: Assignment}, 404, 409, 413, 415, 422),
)
@requires("editor")
def assign(path: IdPath, body: NewAssignment) -> dict[str, Any]:
    """Ask a person for a number of labels, counted from now on.

    This replaces what they were asked for before.
    """
    with database().write() as session:
        detector = get_open_detector(session, path.id)
        return services.assign(session, detector, body, by()).dump()


@routes.get(
    "/detectors/<id>/assignments", responses=answers({200: AssignmentList}, 404)
)
@requires("labeler")
def list_assignments(path: IdPath) -> dict[str, Any]:
    """List the progress of each person; labelers see only their own."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        items = services.list_assignments(session, detector, by())
        return AssignmentList(items=items, next=None).dump()


@routes.delete(
    "/detectors/<id>/assignments", responses={"204": None, **answers({}, 404, 409)}
)
@requires("editor")
def end_assignment(path: IdPath, query: WhoseAssignment) -> Response:
    """End the assignment of a person; their labels stay."""
    with database().write() as session:
        detector = get_open_detector(session, path.id)
        services.end_assignment(session, detector, query.labeler, by())
    return no_content()
