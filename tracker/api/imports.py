"""Importing many queries and labels in one file."""

from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.api.dumps import dump_report
from tracker.api.once import answer_once
from tracker.api.parameters import DetectorPath, Parameters
from tracker.api.routes import answers, build_routes
from tracker.api.uploads import IMPORT_BODY, receive_rows
from tracker.http import account, audit, now, requires
from tracker.services.detectors import get_open_detector
from tracker.services.imports import import_rows

routes = build_routes("imports", "Many queries and labels at once.")


class ImportChoice(Parameters):
    """What happens to bad rows."""

    on_error: Literal["reject", "skip"] = Field(
        default="reject",
        description="reject: one bad row and nothing is written; skip: the others are.",
    )


@routes.post(
    "/detectors/<detector:id>/import",
    responses=answers({200: shapes.ImportReport}, 404, 409, 413, 415, 422),
    openapi_extensions={"requestBody": IMPORT_BODY},
)
@requires("editor")
def import_file(path: DetectorPath, query: ImportChoice) -> Response:
    """Import queries with or without labels, or labels for known keys.

    Sending a file again adds nothing.  A known key with another label is a
    correction, with another prediction an error.
    """
    with receive_rows() as upload:

        def add(session: Session) -> tuple[dict[str, Any], int]:
            detector = get_open_detector(session, path.id)
            report = import_rows(
                session,
                detector,
                upload.open_rows(),
                digest=upload.digest,
                labeler=account().name,
                created_at=now(),
                skip_bad_rows=query.on_error == "skip",
            )
            if report.has_changed:
                audit(session, "imported", detector.name, sha256=upload.digest)
            return dump_report(report), 200

        return answer_once(add, content=upload.digest)
