"""Importing many queries and labels in one file, at once or in the background."""

import hashlib
import io
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any, BinaryIO, ClassVar, Literal, cast

from flask import Response, jsonify, request, url_for
from pydantic import Field
from sqlalchemy.orm import Session
from werkzeug.datastructures import FileStorage
from werkzeug.http import parse_dict_header

from tracker import http
from tracker.api import shapes
from tracker.api.parameters import Flag, IdPath, Page, Parameters, dump_newest, optional
from tracker.api.routes import (
    BYTES,
    answers_later,
    build_routes,
)
from tracker.errors import InvalidInputError
from tracker.services.by import By
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.fields import load_json, parse_input
from tracker.services.images import CleanImage, clean_image
from tracker.services.imports import background as services
from tracker.services.imports.images import gather_images, take_images
from tracker.services.imports.inspecting import FileReading, describe_file, inspect
from tracker.services.imports.reading import files
from tracker.services.imports.reading.choices import (
    METADATA,
    Choices,
    Extra,
    Mapping,
    read_choices,
)
from tracker.services.imports.reading.files import load_mapping, save_mapping
from tracker.services.imports.reading.kinds import LARGEST_DOCUMENT, guess_format
from tracker.services.imports.reports import ImportReport, describe_outcome
from tracker.services.imports.undoing import undo_import as undo_rows
from tracker.services.imports.writing import CarryOut, Order, importing
from tracker.services.queries.queries import NewQuery
from tracker.shapes import Shape
from tracker.storage.base import Key
from tracker.storage.imports import FileImport
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
    "is. Any other preference is ignored.",
    "schema": {"type": "string"},
    "example": _LATER,
}

_PIECE = 2**16

_NEW_QUERY = {"$ref": "#/components/schemas/NewQuery"}


def _parts(**properties: Any) -> dict[str, Any]:
    """Return a form of these parts, all of which are required."""
    return {
        "schema": {
            "type": "object",
            "required": [*properties],
            "properties": properties,
            "additionalProperties": False,
        }
    }


_PICTURE = BYTES | {"description": "A file: PNG, JPEG or WebP, at most 10 MiB."}
NEW_QUERY_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": _NEW_QUERY},
        "multipart/form-data": _parts(query=_NEW_QUERY, image=_PICTURE)
        | {"encoding": {"query": {"contentType": "application/json"}}},
    },
}
_IMAGES = {
    "type": "array",
    "items": BYTES,
    "description": "One zip file, or up to 900 images, by their names.",
}
IMPORT_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/ImportBody"}},
        "multipart/form-data": _parts(
            file=BYTES | {"description": "The rows; the name says what it is."},
            images=_IMAGES,
        ),
        **{kind: {"schema": BYTES} for kind in files.BY_MEDIA_TYPE},
    },
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
    extra: Extra | None = optional(
        "What to do with other columns: refuse, ignore, or metadata; "
        "refuse, unless something else is saved with the detector."
    )
    time_zone: str | None = optional(
        "The time zone of times that have none, such as Europe/Berlin."
    )
    time_format: str | None = optional("The format of times, such as %d.%m.%Y %H:%M.")
    labeler: str | None = optional("The labeler, if not the caller.")
    version: str | None = optional("The version of every row.")
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
    sheet: str | None = optional("The sheet of a workbook.")
    header_row: int | None = optional("The row that names the columns, counted from 1.")
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
            raise http.BadParametersError(error.errors) from error


class ImportList(Page):
    """Which imports to list."""

    prefix = "imp"


@routes.call(
    "POST /detectors/<id>/import",
    "logger",
    {"200": ImportReport, **answers_later(services.Import)},
    *(409, 413, 415, 422),
    openapi_extensions={"requestBody": IMPORT_BODY},
)
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
        order = Order(path.id, file, http.by(), query.on_error, query.save_mapping)
        preferences = parse_dict_header(",".join(request.headers.getlist("Prefer")))
        if _LATER in {name.partition(";")[0].strip().lower() for name in preferences}:
            return _finish(_import_later(order, images))
        order = take_images(http.database(), order, images, http.context().images)

        def add(session: Session, carry_out: CarryOut) -> tuple[Shape, int]:
            return describe_outcome(carry_out(session)), 200

        content, stored = order.file.sha256, order.file.choices.images
        if stored is not None:
            content += f" {sorted(stored.items())}"
        before = partial(importing, http.database(), order)
        return _finish(http.answer_idempotently(add, content, before=before))


@routes.call(
    "POST /inspect",
    "viewer",
    FileReading,
    413,
    415,
    422,
    openapi_extensions={"requestBody": IMPORT_BODY},
)
def inspect_file(query: ImportChoice) -> dict[str, Any]:
    """Say what a file is and what an import of it would give; nothing is written.

    It needs no detector, and takes the parameters that say how a file is read.
    """
    choices = query.read().model_copy(update={"extra": query.extra or METADATA})
    with receive_rows() as (sent, _):
        file = sent.read_by(choices)
        return describe_file(file, inspect(file)).dump()


def _import_later(order: Order, images: BinaryIO | None) -> Response:
    def add(session: Session, arrived: Key | None = None) -> tuple[Shape, int]:
        services.check_first(session, order, images)
        added = services.add_import(session, order, images, arrived=arrived)
        return services.describe_import(added), 202

    before = partial(
        services.arriving, http.database(), order, images, clock=http.context().clock
    )
    content = order.file.sha256
    if images is not None:
        images.seek(0)
        digest = hashlib.file_digest(images, "sha256")  # type: ignore[arg-type]
        content += f" {digest.hexdigest()}"
    return http.answer_idempotently(add, content, before=before)


def _finish(response: Response) -> Response:
    """Add what stands in no body, and so in no answer that was stored under a key."""
    if response.status_code == 202:
        answer: Any = response.json
        address = url_for("imports.get_import", id=answer["id"])
        response.headers["Location"] = address
        response.headers["Preference-Applied"] = _LATER
        response.headers["Retry-After"] = _RETRY_SECONDS
    return response


@routes.call("GET /detectors/<id>/import/mapping", "viewer", Mapping)
def get_mapping(path: IdPath) -> dict[str, Any]:
    """Get how files of a detector are read unless an import says otherwise."""
    with http.database().read() as session:
        return load_mapping(get_detector(session, path.id)).dump()


@routes.call("PUT /detectors/<id>/import/mapping", "editor", Mapping, 409)
def put_mapping(path: IdPath, body: Mapping) -> dict[str, Any]:
    """Save how the files of a detector are read; {} removes what was saved."""
    with http.database().write() as session:
        detector = get_open_detector(session, path.id)
        return save_mapping(session, detector, body, http.by()).dump()


@routes.call("GET /detectors/<id>/imports", "editor", shapes.ImportPage)
def list_imports(path: IdPath, query: ImportList) -> dict[str, Any]:
    """List the imports of a detector, newest first."""
    return dump_newest(
        path.id,
        list_stored_imports,
        lambda _session, row: services.describe_import(row),
        "imp",
        **dict(query),
    )


@routes.call("POST /imports/<id>/resume", "editor", services.Import, 409, 422)
def resume_import(path: IdPath) -> Response:
    """Resume an import that failed, after the last row it wrote.

    Its file is kept for seven days.
    """
    return _change(path.id, services.resume_import)


def _change(
    reference: str, change: Callable[[Session, FileImport, By], FileImport]
) -> Response:
    def work(session: Session) -> tuple[services.Import, int]:
        found = services.get_import(session, reference)
        return services.describe_import(change(session, found, http.by())), 200

    return http.answer_idempotently(work)


@routes.call("POST /imports/<id>/undo", "editor", services.Import, 409, 422)
def undo_import(path: IdPath) -> Response:
    """Undo an import: what it added is taken back, and counts are made again.

    History stays.  A query that was labelled by others since, or that an audit needs,
    stays as it is, and `kept` in the report counts it.
    """
    return _change(path.id, undo_rows)


@routes.call("GET /imports/<id>", "editor", services.Import)
def get_import(path: IdPath) -> Response:
    """Get the progress and the result of a background import.

    Until it has ended, Retry-After says in how many seconds to ask again.
    """
    with http.database().read() as session:
        found = services.describe_import(services.get_import(session, path.id)).dump()
    response = jsonify(found)
    if found["finished_at"] is None:
        response.headers["Retry-After"] = _RETRY_SECONDS
    return response


def read_query_and_image() -> tuple[NewQuery, CleanImage]:
    """Return the query in a form, and its image, which is not stored yet."""
    _check_parts("query", "image")
    part = _only_part("query")
    try:
        value = load_json(part if isinstance(part, str) else part.read())
    except ValueError as error:
        raise http.BadRequestError(f"the part query is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInputError.of("query", "must be a JSON object")
    new, image = parse_input(NewQuery, value), _only_part("image")
    if isinstance(image, str):
        raise InvalidInputError.of("image", "must come as a file, with a file name")
    return new, clean_image(image.read())


def _check_parts(*known: str) -> None:
    for name in request.form.keys() | request.files.keys():
        if name not in known:
            raise InvalidInputError.of(
                name, f"is not a known part; there are: {', '.join(known)}"
            )


def _only_part(name: str) -> str | FileStorage:
    parts: list[str | FileStorage] = [
        *request.form.getlist(name),
        *request.files.getlist(name),
    ]
    if not parts:
        raise InvalidInputError.of(name, "is required")
    if len(parts) > 1:
        raise InvalidInputError.of(name, "is given more than once")
    return parts[0]


@contextmanager
def receive_rows() -> Iterator[tuple[files.RowFile, BinaryIO | None]]:
    """Take the body in before any transaction begins, however slow the client is.

    Beside the rows come the images that were sent with them.
    """
    request.max_content_length = most = http.context().settings.max_body_bytes
    if request.mimetype == "multipart/form-data":
        # What lies in temporary files by now, however much it is.
        _check_parts("file", "images")
        rows = _only_part("file")
        if isinstance(rows, str) or not rows.filename:
            raise InvalidInputError.of("file", "must come as a file, with a file name")
        stream = cast("BinaryIO", rows.stream)
        file = files.open_named(stream, rows.filename, most_unpacked=most)
        with gather_images(request.files.getlist("images")) as images:
            yield file, images
    elif request.mimetype == "application/json":
        most = min(most, LARGEST_DOCUMENT)
        request.max_content_length = most
        raw, document = request.get_data(), None
        if len(raw) <= files.SMALL:
            document = http.read_json_body()
        sha256 = hashlib.sha256(raw).hexdigest()
        yield files.RowFile("json", sha256, io.BytesIO(raw), document), None
    elif request.mimetype in files.BY_MEDIA_TYPE:
        digest = hashlib.sha256()
        with tempfile.TemporaryFile() as spool:
            while piece := request.stream.read(_PIECE):
                digest.update(piece)
                spool.write(piece)
            stream = cast("BinaryIO", spool)
            # What the media type does not say, the bytes do.
            kind = files.BY_MEDIA_TYPE[request.mimetype] or guess_format(stream)
            sha256 = digest.hexdigest()
            yield files.RowFile(kind, sha256, stream, most_unpacked=most), None
    else:
        raise http.UnsupportedMediaTypeError(
            f"the body is {request.mimetype or 'of no media type'}; send "
            f"{', '.join(files.BY_MEDIA_TYPE)}, application/json or multipart/form-data"
        )
