"""Bodies that are more than one JSON object: an image, a file of rows."""

import hashlib
import io
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO, cast

from flask import request
from werkzeug.datastructures import FileStorage

from tracker import http
from tracker.api.routes import BYTES, read_json_object
from tracker.errors import InvalidInputError
from tracker.services.fields import load_json, parse_input
from tracker.services.images import CleanImage, clean_image
from tracker.services.imports.images import ImageFiles, gather_images
from tracker.services.imports.reading import files
from tracker.services.imports.reading.kinds import LARGEST_DOCUMENT, guess_format
from tracker.services.queries.queries import NewQuery

_PIECE = 2**16

_NEW_QUERY = {"$ref": "#/components/schemas/NewQuery"}
NEW_QUERY_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": _NEW_QUERY},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["query", "image"],
                "properties": {
                    "query": _NEW_QUERY,
                    "image": {
                        "type": "string",
                        "format": "binary",
                        "description": "A file: PNG, JPEG or WebP, at most 10 MiB.",
                    },
                },
                "additionalProperties": False,
            },
            "encoding": {"query": {"contentType": "application/json"}},
        },
    },
}
_FILE = {"type": "string", "format": "binary"}
_ROWS_AND_IMAGES = {
    "schema": {
        "type": "object",
        "required": ["file", "images"],
        "properties": {
            "file": _FILE | {"description": "The rows; the name says what it is."},
            "images": {
                "type": "array",
                "items": _FILE,
                "description": "One zip file, or up to 900 images, by their names.",
            },
        },
        "additionalProperties": False,
    }
}
IMPORT_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": {"$ref": "#/components/schemas/ImportBody"}},
        "multipart/form-data": _ROWS_AND_IMAGES,
        **{kind: {"schema": BYTES} for kind in files.BY_MEDIA_TYPE},
    },
}


def read_new_query() -> tuple[NewQuery, CleanImage | None]:
    """Return the query in the body, and its image, which is not stored yet."""
    if request.mimetype != "multipart/form-data":
        return parse_input(NewQuery, read_json_object()), None
    for name in request.form.keys() | request.files.keys():
        if name not in {"query", "image"}:
            raise InvalidInputError.of(
                name, "is not a known part; there are: query, image"
            )
    new = parse_input(NewQuery, _read_query_part())
    return new, clean_image(_read_image_part())


def _read_query_part() -> dict[str, Any]:
    part = _only_part("query")
    try:
        value = load_json(part if isinstance(part, str) else part.read())
    except ValueError as error:
        raise http.BadRequestError(f"the part query is not JSON: {error}") from error
    if not isinstance(value, dict):
        raise InvalidInputError.of("query", "must be a JSON object")
    return value


def _read_image_part() -> bytes:
    part = _only_part("image")
    if isinstance(part, str):
        raise InvalidInputError.of("image", "must come as a file, with a file name")
    return bytes(part.read())


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
def receive_rows() -> Iterator[tuple[files.RowFile, ImageFiles | None]]:
    """Take the body in before any transaction begins, however slow the client is.

    Beside the rows come the images that were sent with them.
    """
    request.max_content_length = most = http.context().settings.max_body_bytes
    if request.mimetype == "multipart/form-data":
        yield _receive_parts()
    elif request.mimetype == "application/json":
        yield _receive_document(), None
    elif request.mimetype in files.BY_MEDIA_TYPE:
        with tempfile.TemporaryFile() as spool:
            digest = _receive_stream(spool)
            stream = cast("BinaryIO", spool)
            # What the media type does not say, the bytes do.
            kind = files.BY_MEDIA_TYPE[request.mimetype] or guess_format(stream)
            yield files.RowFile(kind, digest, stream, most_unpacked=most), None
    else:
        raise http.UnsupportedMediaTypeError(
            f"the body is {request.mimetype or 'of no media type'}; send "
            f"{', '.join(files.BY_MEDIA_TYPE)}, application/json or multipart/form-data"
        )


def _receive_parts() -> tuple[files.RowFile, ImageFiles | None]:
    """Return what lies in temporary files by now, however much it is."""
    for name in request.form.keys() | request.files.keys():
        if name not in {"file", "images"}:
            raise InvalidInputError.of(
                name, "is not a known part; there are: file, images"
            )
    rows = _only_part("file")
    if isinstance(rows, str) or not rows.filename:
        raise InvalidInputError.of("file", "must come as a file, with a file name")
    file = files.open_named(
        cast("BinaryIO", rows.stream),
        rows.filename,
        most_unpacked=http.context().settings.max_body_bytes,
    )
    return file, read_images("images")


def read_images(name: str) -> ImageFiles | None:
    """Return the images in the part *name*; None if there are none."""
    sent = request.files.getlist(name)
    return gather_images(
        (one.filename or "", cast("BinaryIO", one.stream)) for one in sent
    )


def _receive_document() -> files.RowFile:
    request.max_content_length = min(request.max_content_length or 0, LARGEST_DOCUMENT)
    raw = request.get_data()
    digest = hashlib.sha256(raw).hexdigest()
    if len(raw) > files.SMALL:
        return files.RowFile("json", digest, io.BytesIO(raw))
    http.read_json_body()
    return files.RowFile("json", digest, io.BytesIO(raw), request.get_json())


def _receive_stream(spool: Any) -> str:
    digest = hashlib.sha256()
    while piece := request.stream.read(_PIECE):
        digest.update(piece)
        spool.write(piece)
    return digest.hexdigest()
