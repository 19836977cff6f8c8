"""Bodies that are more than one JSON object: an image, a file of rows."""

import hashlib
import tempfile
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

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
from tracker.services.csv_rows import CsvRows
from tracker.services.fields import parse_input
from tracker.services.images import clean_image
from tracker.services.queries import NewQuery
from tracker.services.rows import Row, iter_items, iter_jsonl, load_json

_PIECE = 2**16
# A document is parsed as a whole, which takes many times its size in memory; CSV
# and JSON Lines are read row by row.
_LARGEST_DOCUMENT = 32 * 2**20
_ROW_READERS: dict[str, Callable[[BinaryIO], Iterable[Row]]] = {
    "text/csv": CsvRows,
    "application/x-ndjson": iter_jsonl,
}

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

    digest: str
    open_rows: Callable[[], Iterable[Row]]


@contextmanager
def receive_rows() -> Iterator[Upload]:
    """Take the body in before any transaction begins, however slow the client is."""
    request.max_content_length = context().settings.max_body_bytes
    if request.mimetype == "application/json":
        yield _receive_document()
    elif request.mimetype in _ROW_READERS:
        with tempfile.TemporaryFile() as spool:
            yield _receive_stream(spool, _ROW_READERS[request.mimetype])
    else:
        raise UnsupportedMediaTypeError(
            f"the body is {request.mimetype or 'of no media type'}; send "
            f"{', '.join(_ROW_READERS)} or application/json"
        )


def _receive_document() -> Upload:
    request.max_content_length = min(request.max_content_length or 0, _LARGEST_DOCUMENT)
    read_json_body()
    body = request.get_json()
    digest = hashlib.sha256(request.get_data()).hexdigest()
    return Upload(digest, lambda: iter_items(body))


def _receive_stream(
    spool: Any, read_rows: Callable[[BinaryIO], Iterable[Row]]
) -> Upload:
    digest = hashlib.sha256()
    while piece := request.stream.read(_PIECE):
        digest.update(piece)
        spool.write(piece)

    def open_rows() -> Iterable[Row]:
        spool.seek(0)
        return read_rows(spool)

    return Upload(digest.hexdigest(), open_rows)
