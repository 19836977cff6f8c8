"""Importing many queries and labels in one file, at once or in the background."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, ClassVar, Literal

from flask import Response, jsonify, request, url_for
from pydantic import Field
from sqlalchemy.orm import Session
from werkzeug.http import parse_dict_header

from tracker.api import shapes
from tracker.api.imports.uploads import IMPORT_BODY, receive_rows
from tracker.api.parameters import Flag, IdPath, Page, Parameters, dump_newest
from tracker.api.routes import answers, answers_later, build_routes
from tracker.errors import InvalidInputError
from tracker.http import (
    BadParametersError,
    answer_idempotently,
    by,
    context,
    database,
    requires,
)
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.imports import background as services
from tracker.services.imports.images import ImageFiles, take_images
from tracker.services.imports.inspecting import FileReading, describe_file, inspect
from tracker.services.imports.reading.choices import (
    METADATA,
    Choices,
    Extra,
    Mapping,
    read_choices,
)
from tracker.services.imports.reading.files import (
    RowFile,
    load_mapping,
    save_mapping,
    save_reading,
)
from tracker.services.imports.reports import ImportReport, describe_outcome
from tracker.services.imports.undoing import undo_import as undo_rows
from tracker.services.imports.writing import CarryOut, importing
from tracker.shapes import Shape
from tracker.storage.base import Key, dump_id
from tracker.storage.imports.files import list_imports as list_stored_imports

routes = build_routes("imports", "Many queries and labels at once.")

_LATER = "respond-async"
_RETRY_SECONDS = "1"
PREFER = {
    "name": "Prefer",
    "in": "header",
    "required": False,
    "description": "With respond-async (RFC 7240) the answer is a 202 as soon as the "
    "file has arrived, and a worker imports it; Location says where to ask how far it "
    "is. Any other preference is ignored.",
    "schema": {"type": "string"},
    "example": _LATER,
}


class ImportChoice(Parameters):
    """How the file is read, and what happens to bad rows."""

    repeated: ClassVar[frozenset[str]] = frozenset({"map", "class", "set", "no_answer"})
    # What says how the call goes on, and not how the file is read.
    _OF_CALL: ClassVar[set[str]] = {"on_error", "save_mapping"}

    on_error: Literal["reject", "skip"] = Field(
        default="reject",
        description="reject: one bad row means that nothing is written; skip: all "
        "other rows are written.",
    )
    columns: list[str] = Field(
        default=[],
        alias="map",
        description="FIELD=COLUMN, repeatable: the column that holds a field. "
        "Well-known names are understood without it.",
    )
    classes: list[str] = Field(
        default=[],
        alias="class",
        description="VALUE=CLASS, repeatable: the class that a value means.",
    )
    extra: Extra | None = Field(
        default=None,
        description="What to do with other columns: refuse, ignore, or metadata; "
        "refuse, unless something else is saved with the detector.",
    )
    time_zone: str | None = Field(
        default=None,
        description="The time zone of times that have none, such as Europe/Berlin.",
    )
    time_format: str | None = Field(
        default=None, description="The format of times, such as %d.%m.%Y %H:%M."
    )
    labeler: str | None = Field(
        default=None, description="The labeler, if not the caller."
    )
    version: str | None = Field(default=None, description="The version of every row.")
    given: list[str] = Field(
        default=[],
        alias="set",
        description="FIELD=VALUE, repeatable: a field with the same value in every "
        "row.",
    )
    no_answer: list[str] = Field(
        default=[],
        description="Repeatable: a prediction that is none, such as a refusal.",
    )
    percent: Flag = Field(
        default=False,
        description="Whether confidences are percentages, written without the sign.",
    )
    sheet: str | None = Field(default=None, description="The sheet of a workbook.")
    header_row: int | None = Field(
        default=None, description="The row that names the columns, counted from 1."
    )
    same_rows: Flag = Field(
        default=False,
        description="Whether rows without a key are those of an earlier file, "
        "corrected.",
    )
    new_rows: Flag = Field(
        default=False,
        description="Whether rows without a key are all new, however like those of an "
        "earlier file.",
    )
    uses_saved: Flag = Field(
        default=True,
        alias="saved_mapping",
        description="false: ignore the mapping that is saved with the detector.",
    )
    save_mapping: Flag = Field(
        default=False,
        description="Whether to save with the detector how this file was read.",
    )

    def read(self) -> Choices:
        """Return how the file is to be read; raises BadParametersError."""
        try:
            return read_choices(**self.model_dump(exclude=self._OF_CALL))
        except InvalidInputError as error:
            raise BadParametersError(error.errors) from error


class ImportList(Page):
    """Which imports to list."""

    prefix = "imp"


@routes.post(
    "/detectors/<id>/import",
    responses={
        **answers({200: ImportReport}, 404, 409, 413, 415, 422),
        **answers_later(services.Import),
    },
    openapi_extensions={"requestBody": IMPORT_BODY},
)
@requires("logger")
def import_file(path: IdPath, query: ImportChoice) -> Response:
    """Import queries with or without labels, or labels for known keys.

    Sending a file again adds nothing.  A known key with another label is a
    correction, with another prediction an error.  Usual names of columns and values
    are understood; the answer says what was read as what.  With images beside the
    rows, a column says which image belongs to which row.
    """
    choices = query.read()
    with receive_rows() as (sent, images):
        file = sent.read_by(choices)
        if _is_for_later():
            return _import_later(path, query, file, images)
        file = take_images(database(), path.id, file, images, context().images)
        carry_out: list[CarryOut] = []

        def add(session: Session) -> tuple[Shape, int]:
            report = carry_out[0](session)
            if query.save_mapping:
                save_reading(session, get_detector(session, path.id), file, by())
            number = report.import_id
            id_ = None if number is None else dump_id("imp", number)
            return describe_outcome(report, id_), 200

        @contextmanager
        def before() -> Iterator[None]:
            with importing(
                database(), path.id, file, by(), on_error=query.on_error
            ) as found:
                carry_out.append(found)
                yield

        return _finish(answer_idempotently(add, _content_of(file), before=before))


@routes.post(
    "/inspect",
    responses=answers({200: FileReading}, 413, 415, 422),
    openapi_extensions={"requestBody": IMPORT_BODY},
)
@requires("viewer")
def inspect_file(query: ImportChoice) -> dict[str, Any]:
    """Say what a file is and what an import of it would give; nothing is written.

    It needs no detector, and takes the parameters that say how a file is read.
    """
    choices = query.read().model_copy(update={"extra": query.extra or METADATA})
    with receive_rows() as (sent, _):
        file = sent.read_by(choices)
        return describe_file(file, inspect(file)).dump()


def _content_of(file: RowFile) -> str:
    """Return what tells one import from another."""
    images = file.choices.images
    return file.sha256 if images is None else f"{file.sha256} {sorted(images.items())}"


def _is_for_later() -> bool:
    preferences = parse_dict_header(",".join(request.headers.getlist("Prefer")))
    names = (name.partition(";")[0].strip().lower() for name in preferences)
    return _LATER in names


def _import_later(
    path: IdPath, query: ImportChoice, file: RowFile, images: ImageFiles | None
) -> Response:
    def add(session: Session) -> tuple[Shape, int]:
        detector = get_open_detector(session, path.id)
        services.check_first(
            detector, file, has_images=images is not None, on_error=query.on_error
        )
        added = services.add_import(
            session,
            detector,
            file,
            by(),
            images=images,
            on_error=query.on_error,
            arrived=arrived[0],
        )
        if query.save_mapping:
            save_reading(session, detector, file, by())
        return services.describe_import(added), 202

    arrived: list[Key | None] = []

    @contextmanager
    def before() -> Iterator[None]:
        with services.arriving(
            database(), path.id, file, by(), images=images, clock=context().clock
        ) as found:
            arrived.append(found)
            yield

    content = file.sha256 if images is None else f"{file.sha256} {images.sha256}"
    return _finish(answer_idempotently(add, content, before=before))


@routes.get("/detectors/<id>/import/mapping", responses=answers({200: Mapping}, 404))
@requires("viewer")
def get_mapping(path: IdPath) -> dict[str, Any]:
    """Get how files of a detector are read unless an import says otherwise."""
    with database().read() as session:
        return load_mapping(get_detector(session, path.id)).dump()


@routes.put(
    "/detectors/<id>/import/mapping",
    responses=answers({200: Mapping}, 404, 409, 413, 415, 422),
)
@requires("editor")
def put_mapping(path: IdPath, body: Mapping) -> dict[str, Any]:
    """Save how the files of a detector are read; {} removes what was saved."""
    with database().write() as session:
        detector = get_open_detector(session, path.id)
        return save_mapping(session, detector, body, by()).dump()


def _finish(response: Response) -> Response:
    """Add what stands in no body, and so in no answer that was stored under a key."""
    if response.status_code == 202:
        answer: Any = response.json
        address = url_for("imports.get_import", id=answer["id"])
        response.headers["Location"] = address
        response.headers["Preference-Applied"] = _LATER
        response.headers["Retry-After"] = _RETRY_SECONDS
    return response


@routes.get("/detectors/<id>/imports", responses=answers({200: shapes.ImportPage}, 404))
@requires("editor")
def list_imports(path: IdPath, query: ImportList) -> dict[str, Any]:
    """List the imports of a detector, newest first."""
    return dump_newest(
        path.id,
        list_stored_imports,
        lambda _session, row: services.describe_import(row),
        "imp",
        **dict(query),
    )


@routes.post(
    "/imports/<id>/resume", responses=answers({200: services.Import}, 404, 409, 422)
)
@requires("editor")
def resume_import(path: IdPath) -> Response:
    """Resume an import that failed, after the last row it wrote.

    Its file is kept for seven days.
    """

    def resume(session: Session) -> tuple[services.Import, int]:
        found = services.get_import(session, path.id)
        found = services.resume_import(session, found, by())
        return services.describe_import(found), 200

    return answer_idempotently(resume)


@routes.post(
    "/imports/<id>/undo", responses=answers({200: services.Import}, 404, 409, 422)
)
@requires("editor")
def undo_import(path: IdPath) -> Response:
    """Undo an import: what it added is taken back, and counts are made again.

    History stays.  A query that was labelled by others since, or that an audit needs,
    stays as it is, and `kept` in the report counts it.
    """

    def undo(session: Session) -> tuple[services.Import, int]:
        found = services.get_import(session, path.id)
        return services.describe_import(undo_rows(session, found, by())), 200

    return answer_idempotently(undo)


@routes.get("/imports/<id>", responses=answers({200: services.Import}, 404))
@requires("editor")
def get_import(path: IdPath) -> Response:
    """Get the progress and the result of a background import.

    Until it has ended, Retry-After says in how many seconds to ask again.
    """
    with database().read() as session:
        found = services.describe_import(services.get_import(session, path.id)).dump()
    response = jsonify(found)
    if found["finished_at"] is None:
        response.headers["Retry-After"] = _RETRY_SECONDS
    return response
