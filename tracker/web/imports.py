"""Importing a file in the browser."""

import hashlib
from dataclasses import dataclass
from os import SEEK_END
from pathlib import PurePath
from typing import BinaryIO, cast

from flask import redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session
from werkzeug.datastructures import FileStorage

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import account, audit, context, database, now, origin, requires
from tracker.services.background_imports import (
    NewImport,
    add_import,
    get_import,
    unpack_report,
)
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.import_formats import BY_SUFFIX, READERS
from tracker.services.import_reports import ImportReport, RejectedImportError
from tracker.services.imports import import_rows
from tracker.storage.base import dump_id
from tracker.storage.import_progress import find_progress
from tracker.storage.imports import list_imports
from tracker.web.blueprint import pages
from tracker.web.forms import Form, failed_form

_MOST_SHOWN = 100
_NEWEST = 5
# A larger file takes longer than anybody looks at a page that does not come; a worker
# imports it.
LARGE_BYTES = 5 * 2**20
# A document is parsed as a whole, which takes many times its size in memory; the
# other kinds are read row by row.
_LARGEST_DOCUMENT = 32 * 2**20
# What each column of a file means, with an example.
COLUMNS = (
    (
        "key",
        "door-000123",
        "your own id of the query; the same key again is the same query",
    ),
    (
        "predicted",
        "YES",
        "the class that the detector said; needed for a query that is new",
    ),
    (
        "input",
        "frame-000123",
        "what was put in; two versions are compared on what both were given",
    ),
    ("confidence", "0.97", "how confident the detector was, from 0 to 1"),
    ("version", "v3", "which state of the detector answered"),
    ("asked_at", "2026-01-31T12:00:00Z", "when it was asked, with its time zone"),
    ("label", "NO", "the ground truth: a class, or UNCLEAR"),
    ("sampling", "random", "why it was labelled: random, targeted or unstated"),
    ("note", "hinge is hidden", "why the label is what it is, in words"),
    ("labelled_at", "2026-02-01T08:30:00Z", "when the label was given"),
    ("image_url", "https://…", "an image, shown if the server is set up to"),
    ("metadata", '{"camera": 4}', "anything else, as a JSON object"),
)


@pages.get("/detectors/<detector_id>/import")
@requires("editor")
def show_import(detector_id: str) -> ResponseReturnValue:
    """Show the form to import a file."""
    with database().read() as session:
        return _render(session, detector_id, form=Form({"on_error": "reject"}))


@pages.post("/detectors/<detector_id>/import")
@requires("editor")
def import_file(detector_id: str) -> ResponseReturnValue:
    """Import the queries and labels in a file, and report on every bad row."""
    report, form, status = None, Form(request.form), 200
    try:
        sent = _read_file(request.files.get("file"))
        if sent.size > LARGE_BYTES:
            import_id = dump_id("imp", _import_later(detector_id, sent))
            return redirect(url_for("pages.follow_import", import_id=import_id), 303)
        report = _import(detector_id, sent)
    except RejectedImportError as error:
        report, status = error.report, 422
    except (InvalidInputError, ConflictError) as error:
        form, status = failed_form(request.form, error, conflict_field="file"), 422
    with database().read() as session:
        return _render(session, detector_id, form=form, report=report), status


@pages.get("/imports/<import_id>")
@requires("editor")
def follow_import(import_id: str) -> ResponseReturnValue:
    """Show how far an import is that a worker carries out, and what came of it."""
    with database().read() as session:
        file_import = get_import(session, import_id)
        report = unpack_report(file_import)
        return render_template(
            "imports/following.html",
            detector=get_detector(session, dump_id("det", file_import.detector_id)),
            file_import=file_import,
            progress=find_progress(session, file_import),
            report=report,
            errors=report.errors[:_MOST_SHOWN] if report else [],
        )


@dataclass(frozen=True, slots=True)
class _Sent:
    """A file that has arrived as a whole."""

    format: str
    digest: str
    size: int
    stream: BinaryIO

    @property
    def on_error(self) -> str:
        """What is to happen to bad rows."""
        return "skip" if request.form.get("on_error") == "skip" else "reject"


def _read_file(file: FileStorage | None) -> _Sent:
    if file is None or not file.filename:
        raise InvalidInputError.of("file", "choose a file first")
    kind = BY_SUFFIX.get(PurePath(file.filename).suffix.lower())
    if kind is None:
        raise InvalidInputError.of(
            "file", f"its name must end in {', '.join(BY_SUFFIX)}"
        )
    stream = cast("BinaryIO", file.stream)
    size = stream.seek(0, SEEK_END)
    if kind == "json" and size > _LARGEST_DOCUMENT:
        raise InvalidInputError.of(
            "file", "too large for JSON; send JSON Lines instead"
        )
    stream.seek(0)
    digest = hashlib.file_digest(file.stream, "sha256").hexdigest()  # type: ignore[arg-type]
    return _Sent(kind, digest, size, stream)


def _import(detector_id: str, sent: _Sent) -> ImportReport:
    def work(session: Session) -> ImportReport:
        # It may be tried twice: another request may bring the same new key.
        sent.stream.seek(0)
        detector = get_open_detector(session, detector_id)
        report = import_rows(
            session,
            detector,
            READERS[sent.format](sent.stream),
            digest=sent.digest,
            labeler=account().name,
            created_at=now(),
            skip_bad_rows=sent.on_error == "skip",
        )
        if report.has_changed:
            name, counts = detector.name, report.counts
            audit(session, "imported", name, sha256=sent.digest, **counts)
        return report

    return database().run(work)


def _import_later(detector_id: str, sent: _Sent) -> int:
    """Leave the file to a worker, and return the number of the import."""
    new = NewImport(
        format=sent.format,
        on_error=sent.on_error,
        sha256=sent.digest,
        actor=account().name,
        actor_kind=account().kind,
        address=origin().address,
    )

    def work(session: Session) -> int:
        detector = get_open_detector(session, detector_id)
        return add_import(session, detector, sent.stream, new, created_at=now()).id

    return database().run(work)


def _render(
    session: Session,
    detector_id: str,
    *,
    form: Form,
    report: ImportReport | None = None,
) -> str:
    detector = get_detector(session, detector_id)
    return render_template(
        "imports/import.html",
        detector=detector,
        form=form,
        # What is wrong with the file as a whole is said of no column of the form.
        problems=[
            f"{name}: {message}" if name not in ("file", "body") else message
            for name, messages in form.errors.items()
            for message in messages
        ],
        report=report,
        errors=report.errors[:_MOST_SHOWN] if report else [],
        columns=COLUMNS,
        suffixes=",".join(BY_SUFFIX),
        newest=list_imports(session, detector.id, limit=_NEWEST),
        limit_mebibytes=context().settings.max_body_bytes // 2**20,
    )
