"""Importing many queries and labels in one file, at once or by and by."""

from typing import Any, Literal

from flask import Response, jsonify, request, url_for
from pydantic import Field
from sqlalchemy.orm import Session
from werkzeug.http import parse_dict_header

from tracker.api import shapes
from tracker.api.dumps import dump_import, dump_report
from tracker.api.once import answer_once
from tracker.api.pages import dump_page
from tracker.api.parameters import (
    DetectorPath,
    ImportCursor,
    ImportPath,
    Page,
    Parameters,
)
from tracker.api.routes import answers, answers_later, build_routes
from tracker.api.uploads import IMPORT_BODY, Upload, receive_rows
from tracker.http import account, audit, database, now, origin, requires
from tracker.services import background_imports as services
from tracker.services.background_imports import NewImport, add_import
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.imports import check_rows, import_rows
from tracker.storage.base import dump_id
from tracker.storage.imports import list_imports as list_stored_imports

routes = build_routes("imports", "Many queries and labels at once.")

_LATER = "respond-async"
_RETRY_SECONDS = "1"
PREFER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "With respond-async (RFC 7240) the answer is a 202 as soon as the "
    "file has arrived, and a worker imports it; Location says where to ask how far it "
    "is. Anything else makes no difference.",
    "schema": {"type": "string"},
    "example": _LATER,
}


class ImportChoice(Parameters):
    """What happens to bad rows."""

    on_error: Literal["reject", "skip"] = Field(
        default="reject",
        description="reject: one bad row and nothing is written; skip: the others are.",
    )


class ImportList(Page):
    """Which imports to list."""

    after: ImportCursor | None = Field(
        default=None, description="As it stands in next."
    )


@routes.post(
    "/detectors/<detector:id>/import",
    responses={
        **answers({200: shapes.ImportReport}, 404, 409, 413, 415, 422),
        **answers_later(shapes.Import),
    },
    openapi_extensions={"requestBody": IMPORT_BODY},
)
@requires("editor")
def import_file(path: DetectorPath, query: ImportChoice) -> Response:
    """Import queries with or without labels, or labels for known keys.

    Sending a file again adds nothing.  A known key with another label is a
    correction, with another prediction an error.
    """
    with receive_rows() as upload:
        if _is_for_later():
            return _import_later(path, query, upload)

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
                name, counts = detector.name, report.counts
                audit(session, "imported", name, sha256=upload.digest, **counts)
            return dump_report(report), 200

        return _finish(answer_once(add, content=upload.digest))


def _is_for_later() -> bool:
    preferences = parse_dict_header(",".join(request.headers.getlist("Prefer")))
    names = (name.partition(";")[0].strip().lower() for name in preferences)
    return _LATER in names


def _import_later(path: DetectorPath, query: ImportChoice, upload: Upload) -> Response:
    new = NewImport(
        format=upload.format,
        on_error=query.on_error,
        sha256=upload.digest,
        actor=account().name,
        actor_kind=account().kind,
        address=origin().address,
    )

    def add(session: Session) -> tuple[dict[str, Any], int]:
        detector = get_open_detector(session, path.id)
        # What is wrong with the file as a whole is said at once, and of a document,
        # which was parsed already, what is wrong with its rows.
        for _ in upload.open_rows():
            break
        if upload.document is not None and query.on_error == "reject":
            check_rows(session, detector, upload.open_rows())
        added = add_import(session, detector, upload.file, new, created_at=now())
        return dump_import(session, added), 202

    return _finish(answer_once(add, content=upload.digest))


def _finish(response: Response) -> Response:
    """Add what stands in no body, and so in no answer that was stored under a key."""
    if response.status_code == 202:
        answer: Any = response.json
        address = url_for("imports.get_import", id=answer["id"])
        response.headers["Location"] = address
        response.headers["Preference-Applied"] = _LATER
        response.headers["Retry-After"] = _RETRY_SECONDS
    return response


@routes.get(
    "/detectors/<detector:id>/imports",
    responses=answers({200: shapes.ImportPage}, 404),
)
@requires("editor")
def list_imports(path: DetectorPath, query: ImportList) -> dict[str, Any]:
    """List the imports into a detector that a worker carries out, the newest first."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        return dump_page(
            list_stored_imports(
                session, detector.id, before=query.after, limit=query.limit + 1
            ),
            query.limit,
            lambda file_import: dump_import(session, file_import),
            lambda file_import: dump_id("imp", file_import.id),
        )


@routes.get("/imports/<id>", responses=answers({200: shapes.Import}, 404))
@requires("editor")
def get_import(path: ImportPath) -> Response:
    """Ask how far an import is that a worker carries out, and what came of it.

    Until it has ended, Retry-After says in how many seconds to ask again.
    """
    with database().read() as session:
        found = dump_import(session, services.get_import(session, path.id))
    response = jsonify(found)
    if found["finished_at"] is None:
        response.headers["Retry-After"] = _RETRY_SECONDS
    return response
