"""Importing a file in the browser."""

import hashlib
from collections.abc import Callable, Iterable
from os import SEEK_END
from pathlib import PurePath
from typing import BinaryIO, cast

from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session
from werkzeug.datastructures import FileStorage

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import account, audit, context, database, now, requires
from tracker.services.csv_rows import CsvRows
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.import_reports import ImportReport, RejectedImportError
from tracker.services.imports import import_rows
from tracker.services.rows import Row, iter_json, iter_jsonl, iter_parquet
from tracker.web.blueprint import pages
from tracker.web.forms import Form, failed_form

READERS: dict[str, Callable[[BinaryIO], Iterable[Row]]] = {
    ".csv": CsvRows,
    ".tsv": CsvRows,
    ".txt": CsvRows,
    ".jsonl": iter_jsonl,
    ".ndjson": iter_jsonl,
    ".json": iter_json,
    ".parquet": iter_parquet,
}
_MOST_SHOWN = 100
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
        report = _import(detector_id, request.files.get("file"))
    except RejectedImportError as error:
        report, status = error.report, 422
    except (InvalidInputError, ConflictError) as error:
        form, status = failed_form(request.form, error, conflict_field="file"), 422
    with database().read() as session:
        return _render(session, detector_id, form=form, report=report), status


def _import(detector_id: str, file: FileStorage | None) -> ImportReport:
    if file is None or not file.filename:
        raise InvalidInputError.of("file", "choose a file first")
    reader = READERS.get(PurePath(file.filename).suffix.lower())
    if reader is None:
        raise InvalidInputError.of("file", f"its name must end in {', '.join(READERS)}")
    stream = cast("BinaryIO", file.stream)
    if reader is iter_json and stream.seek(0, SEEK_END) > _LARGEST_DOCUMENT:
        raise InvalidInputError.of(
            "file", "too large for JSON; send JSON Lines instead"
        )
    stream.seek(0)
    digest = hashlib.file_digest(file.stream, "sha256").hexdigest()  # type: ignore[arg-type]

    def work(session: Session) -> ImportReport:
        # It may be tried twice: another request may bring the same new key.
        stream.seek(0)
        detector = get_open_detector(session, detector_id)
        report = import_rows(
            session,
            detector,
            reader(stream),
            digest=digest,
            labeler=account().name,
            created_at=now(),
            skip_bad_rows=request.form.get("on_error") == "skip",
        )
        if report.has_changed:
            audit(session, "imported", detector.name, sha256=digest)
        return report

    return database().run(work)


def _render(
    session: Session,
    detector_id: str,
    *,
    form: Form,
    report: ImportReport | None = None,
) -> str:
    return render_template(
        "imports/import.html",
        detector=get_detector(session, detector_id),
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
        suffixes=",".join(READERS),
        limit_mebibytes=context().settings.max_body_bytes // 2**20,
    )
