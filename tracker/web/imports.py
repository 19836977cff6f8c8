"""Importing a file in the browser."""

from collections.abc import Callable
from pathlib import PurePath
from typing import Any, BinaryIO, cast

from flask import flash, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session
from werkzeug.datastructures import FileStorage

from tracker.errors import ConflictError, InvalidInputError, TooLargeError
from tracker.http import by, context, database, requires
from tracker.services import detectors
from tracker.services.fields import parse_input
from tracker.services.imports import background, reports
from tracker.services.imports.images import ImageFiles, gather_images, take_images
from tracker.services.imports.inspecting import inspect, say_counts
from tracker.services.imports.reading import choices, files
from tracker.services.imports.reading.rows import UNKNOWN
from tracker.services.imports.undoing import undo_import as undo
from tracker.services.imports.writing import importing
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.imports.files import list_imports
from tracker.web.blueprint import lead_to, pages
from tracker.web.forms import Form, failed_form
from tracker.words import REJECT, SKIP

_MOST_SHOWN = 100
_MOST_PREVIEWED = 20
_NEWEST = 5
# A larger file takes longer than anybody waits for a page, and is imported in the
# background.
LARGE_BYTES = 5 * 2**20
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
    (
        "group",
        "event-0042",
        "what it belongs to, such as an event; of a group one query counts",
    ),
    ("confidence", "0.97", "how confident the detector was, from 0 to 1"),
    ("version", "v3", "which state of the detector answered"),
    ("asked_at", "2026-01-31T12:00:00Z", "when it was asked, with its time zone"),
    ("label", "NO", "the ground truth: a class, or UNCLEAR"),
    ("sampling", "random", "why it was labelled: random, targeted or unstated"),
    ("note", "hinge is hidden", "why the label is what it is, in words"),
    ("labeler", "ann@example.org", "who gave the label, if not you"),
    ("labelled_at", "2026-02-01T08:30:00Z", "when the label was given"),
    ("image_url", "https://…", "an image, shown if the server is set up to"),
    ("metadata", '{"camera": 4}', "anything else, as a JSON object"),
)


@pages.get("/detectors/<detector_id>/import")
@requires("editor")
def show_import(detector_id: str) -> ResponseReturnValue:
    with database().read() as session:
        return _render(session, detector_id, form=Form({"on_error": "reject"}))


@pages.post("/detectors/<detector_id>/import")
@requires("editor")
def import_file(detector_id: str) -> ResponseReturnValue:
    """Import the queries and labels in a file, and report on every bad row."""
    try:
        file, images = _open(), _open_images()
    except InvalidInputError as error:
        return _answer(detector_id, failed_form(request.form, error), status=422)
    return _carry_out(detector_id, file, images)


def _carry_out(
    detector_id: str, file: files.RowFile, images: ImageFiles | None
) -> ResponseReturnValue:
    form, report, status = Form(request.form), None, 200
    try:
        if file.size + (images.size if images else 0) > LARGE_BYTES:
            import_id = dump_id("imp", _import_later(detector_id, file, images))
            return lead_to("follow_import", import_id=import_id)
        file = take_images(database(), detector_id, file, images, context().images)
        report = _import(detector_id, file)
    except reports.RejectedImportError as error:
        report, status = error.report, 422
    except (InvalidInputError, ConflictError) as error:
        form = failed_form(request.form, error, conflict_field="file")
        status = 413 if isinstance(error, TooLargeError) else 422
    return _answer(detector_id, form, report, status=status)


def _answer(
    detector_id: str, form: Form, report: reports.Outcome | None = None, *, status: int
) -> ResponseReturnValue:
    with database().read() as session:
        return _render(session, detector_id, form=form, report=report), status


@pages.get("/imports/<import_id>")
@requires("editor")
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


@pages.post("/imports/<import_id>/resume")
@requires("editor")
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


@pages.post("/imports/<import_id>/undo")
@requires("editor")
def undo_import(import_id: str) -> ResponseReturnValue:
    """Take back what an import added."""
    return _change(import_id, undo)


@pages.post("/detectors/<detector_id>/import/preview")
@requires("editor")
def preview_import(detector_id: str) -> ResponseReturnValue:
    """Show the columns of a file, what each is taken for, and its first rows."""
    with database().read() as session:
        return _preview(detectors.get_detector(session, detector_id))


def _preview(detector: Detector | None) -> str:
    """Show the columns of the file that was sent, for a *detector* or a new one."""
    anyone = detector or Detector(id=0, name="", classes=UNKNOWN)
    try:
        preview = _open().rows(anyone).look()
    except InvalidInputError as error:
        return render_template("imports/_preview.html", problem=str(error))
    pairs = (pair.partition("=") for pair in request.form.getlist("map"))
    chosen = {column: field for field, _, column in pairs if field}
    look = _look_at(detector)
    if look["found"]:
        # The import reads them only if they are chosen.
        proposed = look["found"].proposed
        chosen |= {column: field for field, column in proposed.items()}
    return render_template(
        "imports/_preview.html",
        problem=None,
        preview=preview,
        fields=choices.MAPPED,
        chosen=chosen,
        is_new=detector is None,
        **look,
    )


# What a preview shows of a file that cannot be read.
_NOTHING: dict[str, Any] = {
    "taken": {},
    "counts": [],
    "found": None,
    "wrong": [],
    "warnings": [],
    "readings": [],
}


def _look_at(detector: Detector | None) -> dict[str, Any]:
    """Return what the file that was sent is, as far as it is read for a preview."""
    try:
        file = _open()
        is_large = detector is not None and file.size > LARGE_BYTES
        found = inspect(file, detector=detector, only_first=is_large)
    except InvalidInputError as error:
        return _NOTHING | {"wrong": [f"{e.field}: {e.message}" for e in error.errors]}
    return {
        "taken": found.columns,
        "counts": [] if is_large else say_counts(found),
        "found": None if is_large else found,
        "wrong": list(map(reports.say_error, found.report.errors[:_MOST_PREVIEWED])),
        "warnings": found.report.warnings,
        "readings": reports.say_readings(found.report)[:_MOST_PREVIEWED],
    }


@pages.get("/detectors/new/file")
@requires("editor")
def new_from_file() -> ResponseReturnValue:
    return _render_new(Form({}))


def _render_new(form: Form) -> str:
    return render_template(
        "imports/new.html", form=form, suffixes=",".join(files.SUFFIXES)
    )


@pages.post("/detectors/new/file/preview")
@requires("editor")
def inspect_new() -> ResponseReturnValue:
    """Say what a file is, and ask for the rest that a detector needs."""
    return _preview(None)


@pages.post("/detectors/new/file")
@requires("editor")
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
    """Return the file that was sent, to be read as the form says."""
    rows = request.form.get("rows")
    names = ("extra", "time_zone", "time_format", "sheet")
    plain: dict[str, Any] = {name: request.form.get(name) for name in names}
    row = request.form.get("header_row", "")
    is_short = row.isdecimal() and len(row) < 10
    plain["header_row"] = int(row) if is_short else row
    plain["percent"] = "percent" in request.form
    return _open_file().read_by(
        choices.read_choices(
            columns=[*_lines("columns"), *filter(None, request.form.getlist("map"))],
            classes=_lines("classes"),
            usual_extra=choices.METADATA,
            version=request.form.get("version"),
            same_rows=rows == "same_rows",
            new_rows=rows == "new_rows",
            **plain,
        )
    )


def _open_images() -> ImageFiles | None:
    return gather_images(
        (one.filename or "", cast("BinaryIO", one.stream))
        for one in request.files.getlist("images")
    )


def _lines(name: str) -> list[str]:
    return [line for line in request.form.get(name, "").splitlines() if line.strip()]


def _sent() -> FileStorage:
    sent = request.files.get("file")
    if sent is None or not sent.filename:
        raise InvalidInputError.of("file", "choose a file first")
    return sent


def _open_file() -> files.RowFile:
    sent = _sent()
    return files.open_named(
        cast("BinaryIO", sent.stream),
        str(sent.filename),
        most_unpacked=context().settings.max_body_bytes,
    )


def _on_error() -> str:
    return SKIP if request.form.get("on_error") == SKIP else REJECT


def _import(detector_id: str, file: files.RowFile) -> reports.Outcome:
    with importing(
        database(), detector_id, file, by(), on_error=_on_error()
    ) as carry_out:

        def work(session: Session) -> reports.Outcome:
            report = carry_out(session)
            if request.form.get("save_mapping"):
                files.save_reading(
                    session, detectors.get_detector(session, detector_id), file, by()
                )
            return report

        # It may be tried twice: another request may bring the same new key.
        return database().run(work)


def _import_later(
    detector_id: str, file: files.RowFile, images: ImageFiles | None
) -> int:
    """Import the file in the background, and return the number of the import."""

    def work(session: Session) -> int:
        detector = detectors.get_open_detector(session, detector_id)
        if request.form.get("save_mapping"):
            files.save_reading(session, detector, file, by())
        return background.add_import(
            session,
            detector,
            file,
            by(),
            images=images,
            on_error=_on_error(),
            arrived=arrived,
        ).id

    with background.arriving(
        database(), detector_id, file, by(), images=images, clock=context().clock
    ) as arrived:
        return database().run(work)


@pages.post("/detectors/<detector_id>/import/mapping")
@requires("editor")
def remove_mapping(detector_id: str) -> ResponseReturnValue:
    """Forget how the files of a detector are read."""
    with database().write() as session:
        detector = detectors.get_open_detector(session, detector_id)
        files.save_mapping(session, detector, choices.Mapping(), by())
    flash("Removed.")
    return lead_to("show_import", detector_id=detector_id)


def _render(
    session: Session,
    detector_id: str,
    *,
    form: Form,
    report: reports.Outcome | None = None,
) -> str:
    detector = detectors.get_detector(session, detector_id)
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
        columns=COLUMNS,
        saved=files.load_mapping(detector),
        suffixes=",".join(files.SUFFIXES),
        newest=list_imports(session, detector.id, limit=_NEWEST),
        percent_of=background.percent_of,
        limit_mebibytes=context().settings.max_body_bytes // 2**20,
    )
