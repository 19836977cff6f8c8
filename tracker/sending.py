"""Files that are made in one read of the database and sent without one."""

import re
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack, closing
from typing import IO

from flask import Response, current_app
from sqlalchemy.orm import Session

from tracker.http import account, by, database
from tracker.places import Places
from tracker.services.exports import MEDIA_TYPES, Rows, check_format, write_rows
from tracker.storage.detectors import Detector

_MOST = 8
_MOST_OF_ONE = 2
# A larger file lies on the disk until it is sent.
_BYTES_IN_MEMORY = 2**20
_PIECE_BYTES = 2**16
# A piece that took so much longer than this thread worked on it kept others waiting.
_CONTENTION = 1.25
# Then it rests so many times as long as the piece took.
_REST = 3
# Parquet and Excel are worked on as a whole before their first piece; a rest as long as
# that would help nobody any more.
_LONGEST_REST_SECONDS = 0.25
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


def send_rows(
    format_name: str,
    columns: Sequence[str],
    rows: Callable[[Session], Rows],
    file_name: str,
) -> Response:
    """Return what *rows* gives as a file; raises TooManyError.

    The whole file is written before the answer begins: what is wrong comes up in time,
    and a client that reads slowly holds a temporary file and no transaction.
    """
    check_format(format_name)
    places = current_app.extensions.setdefault(
        "tracker-exports", Places("exports", most=_MOST, most_of_one=_MOST_OF_ONE)
    )
    with ExitStack() as stack:
        stack.enter_context(places.take(account().name))
        file = stack.enter_context(tempfile.SpooledTemporaryFile(_BYTES_IN_MEMORY))
        with (
            database().read() as session,
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
    # Also where the answer breaks off, or nothing but its head was asked for.
    response.call_on_close(held.close)
    return response


def _giving_way(pieces: Iterable[bytes]) -> Iterator[bytes]:
    """Yield *pieces*, and rest after each where others wanted to work too.

    One thread of Python works at a time: a large file would else keep labels waiting.
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
    """Return the name of a file of *detector*, safe in a header."""
    name = _UNSAFE.sub("-", detector.name)[:80].strip("-.")
    return f"{name or f'det_{detector.id}'}-{what}.{suffix}"
