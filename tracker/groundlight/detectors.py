"""Detectors and their groups."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from flask import Response, jsonify, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, FieldError, InvalidInputError
from tracker.groundlight.bodies import DetectorPatch, GroupBody, NewDetectorBody
from tracker.groundlight.modes import choose_classes
from tracker.groundlight.routes import (
    dump_page,
    naming,
    once,
    read_body,
    read_place,
    routes,
)
from tracker.http import account, by, database, no_content, requires
from tracker.services import archive, device
from tracker.services import detectors as services
from tracker.services.detectors import DetectorChange, NewDetector
from tracker.services.fields import is_storable, parse_input
from tracker.services.wording import dump_instant, missing
from tracker.storage import detectors as storage
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.device import DetectorGroup


def find_detector(session: Session, detector_id: str) -> Detector:
    """Return a detector; an archived one is deleted to the SDK."""
    detector = services.get_detector(session, detector_id)
    if detector.archived_at is not None:
        raise missing("detector", detector_id)
    return detector


def dump_detector(session: Session, detector: Detector) -> dict[str, Any]:
    """Return a detector as the SDK reads it."""
    settings = device.get_settings(session, detector)
    return {
        "id": dump_id("det", detector.id),
        "type": "detector",
        "created_at": dump_instant(detector.created_at),
        "name": detector.name,
        "query": detector.question,
        "group_name": settings.group_name,
        "metadata": device.load_details(settings),
        "mode": settings.mode,
        "mode_configuration": settings.mode_configuration,
        "confidence_threshold": settings.confidence_threshold,
        "patience_time": settings.patience_time,
        "status": settings.status,
        "escalation_type": settings.escalation_type,
    }


@contextmanager
def _naming_taken_names() -> Iterator[None]:
    try:
        yield
    except ConflictError as error:
        raise InvalidInputError(
            [
                FieldError("name", "Detector with this name already exists."),
                # Programs look for the name of this constraint.
                FieldError(
                    "non_field_errors",
                    "Constraint unique_undeleted_name_per_set is violated.",
                ),
            ]
        ) from error


@routes.post("/detectors")
@requires("editor")
def create_detector() -> Response:
    """Make a detector of one of the kinds that are classifiers."""
    body = read_body(NewDetectorBody)
    classes, configuration = choose_classes(body.mode, body.mode_configuration or {})

    def create(session: Session) -> tuple[dict[str, Any], int]:
        with naming(question="query", classes="mode_configuration"):
            values = {"name": body.name, "question": body.query, "classes": classes}
            new = parse_input(NewDetector, values)
        with _naming_taken_names():
            detector = services.create_detector(session, new, by())
        kept = {"mode": body.mode, "mode_configuration": configuration}
        device.set_settings(session, detector, by(), **kept, **body.settings)
        return dump_detector(session, detector), 201

    return once(create, body)


@routes.get("/detectors")
@requires("viewer")
def list_detectors() -> dict[str, Any]:
    """List the detectors, or look for the one of a name."""
    offset, size = read_place()
    name, seen = request.args.get("name"), account().detectors
    with database().read() as session:
        found: Sequence[Detector] = []
        if name is None or is_storable(name):
            found = storage.list_detectors(session, name=name, among=seen)
        shown = [dump_detector(session, one) for one in found[offset : offset + size]]
        return dump_page(len(found), shown)


@routes.get("/detectors/<id>")
@requires("viewer")
def get_detector(id: str) -> dict[str, Any]:  # noqa: A002 - as in the path.
    """Look at a detector."""
    with database().read() as session:
        return dump_detector(session, find_detector(session, id))


@routes.patch("/detectors/<id>")
@requires("editor")
def change_detector(id: str) -> dict[str, Any]:  # noqa: A002 - as in the path.
    """Change the name of a detector, or its other settings."""
    body = read_body(DetectorPatch)
    with database().write() as session:
        detector = find_detector(session, id)
        if body.name is not None:
            change = parse_input(DetectorChange, {"name": body.name})
            with _naming_taken_names():
                services.change_detector(session, detector, change, by())
        if body.settings:
            device.set_settings(session, detector, by(), **body.settings)
        return dump_detector(session, detector)


@routes.delete("/detectors/<id>")
@requires("admin")
def delete_detector(id: str) -> Response:  # noqa: A002 - as in the path.
    """Archive a detector: the SDK finds it no more, and nothing is lost."""
    with database().write() as session:
        archive.archive_detector(session, find_detector(session, id), by())
    return no_content()


@routes.delete("/detector-reset/<id>")
@requires("admin")
def reset_detector(id: str) -> Response:  # noqa: A002 - as in the path.
    """Refuse: no query and no label is ever deleted on request."""
    with database().read() as session:
        find_detector(session, id)
    raise InvalidInputError.of(
        "non_field_errors",
        "Tracker keeps every label, so that no detector can be reset. Delete it, which "
        "archives it and frees its name, and create it again.",
    )


def _dump_group(group: DetectorGroup) -> dict[str, str]:
    return {"id": dump_id("dgr", group.id), "name": group.name}


@routes.get("/detector-groups")
@requires("viewer")
def list_groups() -> ResponseReturnValue:
    """List the groups."""
    with database().write() as session:
        groups = device.list_groups(session, by())
        return jsonify([_dump_group(group) for group in groups])


@routes.post("/detector-groups")
@requires("editor")
def create_group() -> Response:
    """Make a group."""
    body = read_body(GroupBody)

    def create(session: Session) -> tuple[dict[str, Any], int]:
        group, is_new = device.create_group(session, body.name, by())
        if not is_new:
            raise InvalidInputError.of(
                "name", "Detector group with this name already exists."
            )
        return dict(_dump_group(group)), 201

    return once(create, body)
