"""Bodies that are more than one JSON object: an image, a file of rows."""

import hashlib
import io
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from flask import request
from werkzeug.datastructures import FileStorage

from tracker.api.routes import read_json_object
from tracker.errors import InvalidInputError
from tracker.http import (
    BadRequestError,
    UnsupportedMediaTypeError,
    context,
    read_json_body,
)
from tracker.services.fields import parse_input
from tracker.services.images import clean_image
from tracker.services.import_formats import BY_MEDIA_TYPE, READERS
from tracker.services.queries import NewQuery
from tracker.services.rows import Row, iter_items, load_json

_PIECE = 2**16
# A document is parsed as a whole, which takes many times its size in memory; CSV
# and JSON Lines are read row by row.
_LARGEST_DOCUMENT = 32 * 2**20

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
IMPORT_BODY = {
    "required": True,
    "content": {
        "text/csv": {"schema": {"type": "string"}},
        "application/x-ndjson": {"schema": {"type": "string"}},
        "application/json": {"schema": {"$ref": "#/components/schemas/ImportBody"}},
    },
}


def read_new_query() -> tuple[NewQuery, str | None]:
    """Return the query in the body, and the name under which its image is stored."""
    if request.mimetype != "multipart/form-data":
        return parse_input(NewQuery, read_json_object()), None
    for name in request.form.keys() | request.files.keys():
        if name not in {"query", "image"}:
            raise InvalidInputError.of(
                name, "is not a known part; there are: query, image"
            )
    new = parse_input(NewQuery, _read_query_part())
    image = clean_image(_read_image_part())
    return new, context().images.put(image.content, image.suffix)


def _read_query_part() -> dict[str, Any]:
    part = _only_part("query")
    try:
        value = load_json(part if isinstance(part, str) else part.read())
    except ValueError as error:
        raise BadRequestError(f"the part query is not JSON: {error}") from error
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


@dataclass(frozen=True, slots=True)
class Upload:
    """Rows that have arrived as a whole, and a hash of the bytes they came in."""

    format: str
    digest: str
    file: BinaryIO
    # A JSON document was parsed when it was checked, and is not parsed again.
    document: Any = None

    def open_rows(self) -> Iterable[Row]:
        """Read the rows from the first one on."""
        if self.document is not None:
            return iter_items(self.document)
        self.file.seek(0)
        return READERS[self.format](self.file)


@contextmanager
def receive_rows() -> Iterator[Upload]:
    """Take the body in before any transaction begins, however slow the client is."""
    request.max_content_length = context().settings.max_body_bytes
    if request.mimetype == "application/json":
        yield _receive_document()
    elif request.mimetype in BY_MEDIA_TYPE:
        with tempfile.TemporaryFile() as spool:
            digest = _receive_stream(spool)
            yield Upload(
                BY_MEDIA_TYPE[request.mimetype], digest, cast("BinaryIO", spool)
            )
    else:
        raise UnsupportedMediaTypeError(
            f"the body is {request.mimetype or 'of no media type'}; send "
            f"{', '.join(BY_MEDIA_TYPE)} or application/json"
        )


def _receive_document() -> Upload:
    request.max_content_length = min(request.max_content_length or 0, _LARGEST_DOCUMENT)
    read_json_body()
    raw = request.get_data()
    digest = hashlib.sha256(raw).hexdigest()
    return Upload("json", digest, io.BytesIO(raw), request.get_json())


def _receive_stream(spool: Any) -> str:
    digest = hashlib.sha256()
    while piece := request.stream.read(_PIECE):
        digest.update(piece)
        spool.write(piece)
    return digest.hexdigest()
