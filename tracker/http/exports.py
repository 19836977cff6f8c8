"""Exports as responses: read in one transaction, sent after it has ended."""

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import IO

from flask import Response, current_app
from sqlalchemy.orm import Session

from tracker.errors import NotFoundError
from tracker.http.limits import ConcurrencyLimit
from tracker.http.requests import account, by, context, database
from tracker.services import images
from tracker.services.exports import MEDIA_TYPES, Rows, check_format, write_rows
from tracker.storage.detectors import Detector

_TOTAL = 8
_EACH = 2
# A larger file lies on the disk until it is sent.
_BYTES_IN_MEMORY = 2**20
_PIECE_BYTES = 2**16
# Other threads wanted to run if a piece took this many times its own processor time.
_CONTENTION = 1.25
# The rest after such a piece, as a multiple of its processor time.
_REST = 3
# Parquet and Excel write everything before their first piece; a rest that long would
# help nobody.
_LONGEST_REST_SECONDS = 0.25
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def send_rows(
    format_name: str,
    columns: Sequence[str],
    rows: Callable[[Session], Rows],
    file_name: str,
) -> Response:
    """Return a file of *rows*; raises TooManyError.

    The file is complete before the response begins, so that an error still becomes an
    error response, and a slow client holds a temporary file but no transaction.
    """
    check_format(format_name)
    limit = current_app.extensions.setdefault(
        "tracker-exports", ConcurrencyLimit("exports", total=_TOTAL, each=_EACH)
    )
    with ExitStack() as stack:
        stack.enter_context(limit.hold(account().name))
        file = stack.enter_context(tempfile.SpooledTemporaryFile(_BYTES_IN_MEMORY))
        with (
            (context().replica or database()).read() as session,
            closing(write_rows(format_name, columns, rows(session))) as pieces,
        ):
            for piece in _giving_way(pieces):
                file.write(piece)
        size = file.tell()
        file.seek(0)
        with database().write() as session:
            by().record(session, "exported", file_name)
        held = stack.pop_all()
    response = Response(_read(file, held), content_type=MEDIA_TYPES[format_name])
    response.content_length = size
    response.headers["Content-Disposition"] = f'attachment; filename="{file_name}"'
    # Called even if the client hangs up or sent HEAD.
    response.call_on_close(held.close)
    return response


def send_image(name: str) -> Response:
    """Return an image of the store as a response; raises NotFoundError."""
    try:
        content = context().images.get(name)
    except FileNotFoundError as error:
        raise NotFoundError("the image is missing from the image store") from error
    return Response(content, mimetype=images.MEDIA_TYPES[name.rpartition(".")[2]])


def _giving_way(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield *pieces*, and rest after each one that kept other threads waiting.

    Python runs one thread at a time, and a large file would delay labels.
    """
    begun, worked = time.perf_counter(), time.thread_time()
    for piece in pieces:
        yield piece
        took = time.thread_time() - worked
        if time.perf_counter() - begun > _CONTENTION * took:
            time.sleep(min(_REST * took, _LONGEST_REST_SECONDS))
        begun, worked = time.perf_counter(), time.thread_time()


def _read(file: IO[bytes], held: ExitStack) -> Iterator[bytes]:
    with held:
        while piece := file.read(_PIECE_BYTES):
            yield piece


def name_file(detector: Detector, what: str, suffix: str) -> str:
    name = _UNSAFE.sub("-", detector.name)[:80].strip("-.")
    return f"{name or f'det_{detector.id}'}-{what}.{suffix}"
