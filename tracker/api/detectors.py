"""Detectors: created, found, changed and archived."""

from typing import Any

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import http
from tracker.api import shapes
from tracker.api.parameters import IdPath, Page, Text, dump_page, optional
from tracker.api.routes import build_routes
from tracker.services import detectors as services
from tracker.services.detectors import DetectorChange, NewDetector, VersionChange
from tracker.shapes import Shape
from tracker.storage import detectors as storage

routes = build_routes("detectors", "Classifiers under measurement.")


class DetectorList(Page):
    """The filters and the page of a list of detectors."""

    prefix = "det"

    name: Text | None = optional("Only the one with this name.")


class VersionPath(IdPath):
    """A version of a detector."""

    name: str = Field(description="The name of the version.")


@routes.call("POST /detectors", "logger", services.Detector, 409, status=201)
def create_detector(body: NewDetector) -> Response:
    """Create a detector."""

    def create(session: Session) -> tuple[Shape, int]:
        detector = services.create_detector(session, body, http.by())
        return services.describe_detector(session, detector), 201

    return http.answer_idempotently(create, body)


@routes.call("GET /detectors", "viewer", shapes.DetectorPage)
def list_detectors(query: DetectorList) -> dict[str, Any]:
    """List the detectors that are not archived, oldest first."""
    with http.database().read() as session:
        found = storage.list_detectors(
            session,
            name=query.name,
            after=query.after,
            limit=query.limit + 1,
            among=http.account().detectors,
        )
        described = services.describe_detectors(session, found)
        return dump_page(described, query.limit, lambda one: one, lambda one: one.id)


@routes.call("GET /detectors/<id>", "viewer", services.Detector)
def get_detector(path: IdPath) -> dict[str, Any]:
    """Get a detector; an archived one is found only by its id."""
    with http.database().read() as session:
        detector = services.get_detector(session, path.id)
        return services.describe_detector(session, detector).dump()


@routes.call("PATCH /detectors/<id>", "editor", services.Detector, 409)
def change_detector(path: IdPath, body: DetectorChange) -> dict[str, Any]:
    """Change a detector; classes can be added, and its history stays unchanged."""
    hosts = http.context().settings.predictor_hosts
    with http.database().write() as session:
        detector = services.get_open_detector(session, path.id)
        services.change_detector(
            session, detector, body, http.by(), predictor_hosts=hosts
        )
        return services.describe_detector(session, detector).dump()


@routes.call(
    "PATCH /detectors/<id>/versions/<path:name>",
    "editor",
    services.DetectorVersion,
    409,
)
def change_version(path: VersionPath, body: VersionChange) -> dict[str, Any]:
    """State that a version was made without the labels it is tested on.

    Only then do labels older than the version decide anything.
    """
    with http.database().write() as session:
        detector = services.get_open_detector(session, path.id)
        found = services.change_version(
            session, detector, path.name, http.by(), unseen=body.unseen
        )
        return found.dump()


@routes.call("DELETE /detectors/<id>", "admin")
def archive_detector(path: IdPath) -> Response:
    """Archive a detector: it leaves the lists, its name is free, nothing is lost."""
    with http.database().write() as session:
        detector = services.get_detector(session, path.id)
        services.archive_detector(session, detector, http.by())
    return http.no_content()
