"""Importing a file in the browser."""

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, BinaryIO, cast

from flask import flash, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session
from werkzeug.datastructures import FileStorage

from tracker.errors import ConflictError, InvalidInputError, TooLargeError
from tracker.http import by, context, database
from tracker.services import detectors
from tracker.services.fields import parse_input
from tracker.services.imports import background, reports
from tracker.services.imports.images import gather_images, take_images
from tracker.services.imports.inspecting import inspect, say_counts
from tracker.services.imports.reading import choices, files
from tracker.services.imports.reading.rows import UNKNOWN
from tracker.services.imports.undoing import undo_import as undo
from tracker.services.imports.writing import Order, importing
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.imports import list_imports
from tracker.web.blueprint import lead_to, page, reading
from tracker.web.forms import Form, failed_form
from tracker.words import REJECT, SKIP

_MOST_SHOWN = 100
_MOST_PREVIEWED = 20
_NEWEST = 5
# A larger file takes longer than anybody waits for a page, and is imported in the
# background.
LARGE_BYTES = 5 * 2**20


@page("GET /detectors/<detector_id>/import", "editor")
def show_import(detector_id: str) -> ResponseReturnValue:
    return _render(detector_id, Form({"on_error": "reject"}))


@page("POST /detectors/<detector_id>/import", "editor")
def import_file(detector_id: str) -> ResponseReturnValue:
    """Import the queries and labels in a file, and report on every bad row."""
    try:
        file = _open()
    except InvalidInputError as error:
        return _render(detector_id, failed_form(request.form, error)), 422
    with gather_images(request.files.getlist("images")) as images:
        return _carry_out(detector_id, file, images)


def _carry_out(
    detector_id: str, file: files.RowFile, images: BinaryIO | None
) -> ResponseReturnValue:
    form, report, status = Form(request.form), None, 200
    on_error = SKIP if request.form.get("on_error") == SKIP else REJECT
    saves = bool(request.form.get("save_mapping"))
    order = Order(detector_id, file, by(), on_error, saves)
    try:
        if background.size_of(order, images) > LARGE_BYTES:
            clock = context().clock
            with background.arriving(database(), order, images, clock=clock) as arrived:
                import_id = database().run(
                    lambda session: (
                        background.add_import(
                            session, order, images, arrived=arrived
                        ).id
                    )
                )
            return lead_to("follow_import", import_id=dump_id("imp", import_id))
        order = take_images(database(), order, images, context().images)
        with importing(database(), order) as carry_out:
            # It may be tried twice: another request may bring the same new key.
            report = database().run(carry_out)
    except reports.RejectedImportError as error:
        report, status = error.report, 422
    except (InvalidInputError, ConflictError) as error:
        form = failed_form(request.form, error, conflict_field="file")
        status = 413 if isinstance(error, TooLargeError) else 422
    return _render(detector_id, form, report), status


@page("GET /imports/<import_id>", "editor")
def follow_import(import_id: str) -> ResponseReturnValue:
    """Show how far an import is that a worker carries out, and what came of it."""
    with database().read() as session:
        file_import = background.get_import(session, import_id)
        report = background.unpack_report(file_import)
        return render_template(
            "imports/following.html",
            detector=detectors.get_detector(
                session, dump_id("det", file_import.detector_id)
            ),
            file_import=file_import,
            percent=background.percent_of(file_import),
            can_resume=background.has_file(session, file_import),
            **_shown(report),
        )


def _shown(report: reports.Outcome | None) -> dict[str, Any]:
    return {
        "report": report,
        "errors": report.errors[:_MOST_SHOWN] if report else [],
        "readings": reports.say_readings(report)[:_MOST_SHOWN] if report else [],
    }


@page("POST /imports/<import_id>/resume", "editor")
def resume_import(import_id: str) -> ResponseReturnValue:
    """Resume an import that failed."""
    return _change(import_id, background.resume_import)


def _change(import_id: str, change: Callable[..., Any]) -> ResponseReturnValue:
    try:
        with database().write() as session:
            change(session, background.get_import(session, import_id), by())
    except ConflictError as error:
        flash(f"{error}.")
    return lead_to("follow_import", import_id=import_id)


@page("POST /imports/<import_id>/undo", "editor")
def undo_import(import_id: str) -> ResponseReturnValue:
    """Take back what an import added."""
    return _change(import_id, undo)


@page("POST /detectors/<detector_id>/import/preview", "editor")
def preview_import(detector_id: str) -> ResponseReturnValue:
    """Show the columns of a file, what each is taken for, and its first rows."""
    with reading(detector_id) as (_, detector):
        return _preview(detector)


def _preview(detector: Detector | None) -> str:
    anyone = detector or Detector(id=0, name="", classes=UNKNOWN)
    try:
        preview = _open().rows(anyone).look()
    except InvalidInputError as error:
        return render_template("imports/_preview.html", problem=str(error))
    pairs = (pair.partition("=") for pair in request.form.getlist("map"))
    chosen = {column: field for field, _, column in pairs if field}
    empty = dict.fromkeys(("counts", "wrong", "warnings", "readings"), ())
    shown: dict[str, Any] = empty | {"taken": {}, "found": None}
    try:
        file = _open()
        is_large = detector is not None and file.size > LARGE_BYTES
        found = inspect(file, detector=detector, only_first=is_large)
    except InvalidInputError as error:
        shown["wrong"] = [f"{e.field}: {e.message}" for e in error.errors]
    else:
        wrong = found.report.errors[:_MOST_PREVIEWED]
        shown |= {
            "taken": found.columns,
            "wrong": list(map(reports.say_error, wrong)),
            "warnings": found.report.warnings,
            "readings": reports.say_readings(found.report)[:_MOST_PREVIEWED],
        }
        if not is_large:
            shown |= {"counts": say_counts(found), "found": found}
            # The import reads them only if they are chosen.
            chosen |= {column: field for field, column in found.proposed.items()}
    return render_template(
        "imports/_preview.html",
        problem=None,
        preview=preview,
        fields=choices.MAPPED,
        chosen=chosen,
        is_new=detector is None,
        **shown,
    )


@page("GET /detectors/new/file", "editor")
def new_from_file() -> ResponseReturnValue:
    return _render_new(Form({}))


def _render_new(form: Form) -> str:
    return render_template(
        "imports/new.html", form=form, suffixes=",".join(files.SUFFIXES)
    )


@page("POST /detectors/new/file/preview", "editor")
def inspect_new() -> ResponseReturnValue:
    """Say what a file is, and ask for the rest that a detector needs."""
    return _preview(None)


@page("POST /detectors/new/file", "editor")
def make_from_file() -> ResponseReturnValue:
    """Make a detector with the classes of a file, and import it."""
    try:
        file = _open()
        name = request.form.get("name") or PurePath(_sent().filename or "").stem
        said = {"name": name, "question": request.form.get("question", "")}
        new = parse_input(detectors.NewDetector, {**said, "classes": _lines("names")})

        def make(session: Session) -> str:
            return dump_id("det", detectors.create_detector(session, new, by()).id)

        detector_id = database().run(make)
    except (InvalidInputError, ConflictError) as error:
        form = failed_form(request.form, error, conflict_field="name")
        return _render_new(form), 422
    return _carry_out(detector_id, file, None)


def _open() -> files.RowFile:
    rows = request.form.get("rows")
    names = ("extra", "time_zone", "time_format", "sheet")
    plain: dict[str, Any] = {name: request.form.get(name) for name in names}
    row = request.form.get("header_row", "")
    is_short = row.isdecimal() and len(row) < 10
    plain["header_row"] = int(row) if is_short else row
    plain["percent"] = "percent" in request.form
    sent = _sent()
    file = files.open_named(
        cast("BinaryIO", sent.stream),
        str(sent.filename),
        most_unpacked=context().settings.max_body_bytes,
    )
    return file.read_by(
        choices.read_choices(
            columns=[*_lines("columns"), *filter(None, request.form.getlist("map"))],
            classes=_lines("classes"),
            given=_lines("given"),
            usual_extra=choices.METADATA,
            version=request.form.get("version"),
            same_rows=rows == "same_rows",
            new_rows=rows == "new_rows",
            **plain,
        )
    )


def _lines(name: str) -> list[str]:
    return [line for line in request.form.get(name, "").splitlines() if line.strip()]


def _sent() -> FileStorage:
    sent = request.files.get("file")
    if sent is None or not sent.filename:
        raise InvalidInputError.of("file", "choose a file first")
    return sent


@page("POST /detectors/<detector_id>/import/mapping", "editor")
def remove_mapping(detector_id: str) -> ResponseReturnValue:
    """Forget how the files of a detector are read."""
    with database().write() as session:
        detector = detectors.get_open_detector(session, detector_id)
        files.save_mapping(session, detector, choices.Mapping(), by())
    return lead_to("show_import", says="Removed.", detector_id=detector_id)


def _render(detector_id: str, form: Form, report: reports.Outcome | None = None) -> str:
    with reading(detector_id) as (session, detector):
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
            **_shown(report),
            saved=files.load_mapping(detector),
            suffixes=",".join(files.SUFFIXES),
            newest=list_imports(session, detector.id, limit=_NEWEST),
            percent_of=background.percent_of,
            limit_mebibytes=context().settings.max_body_bytes // 2**20,
        )
