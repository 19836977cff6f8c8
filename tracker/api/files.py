"""Files of rows as an answer."""

from collections.abc import Sequence
from itertools import chain

from flask import Response

from tracker.http import audit, database
from tracker.services.exports import MEDIA_TYPES, Rows, write_rows

# As the document of the API names them, without their encoding.
FILE_TYPES = tuple(name.partition(";")[0] for name in MEDIA_TYPES.values())


def send_rows(
    format_name: str, columns: Sequence[str], rows: Rows, file_name: str
) -> Response:
    """Return *rows* as a file, which is made while the answer goes out."""
    pieces = write_rows(format_name, columns, rows)
    # What is wrong must come up before the answer has begun.
    first = next(pieces, b"")
    with database().write() as session:
        audit(session, "exported", file_name)
    response = Response(chain([first], pieces), content_type=MEDIA_TYPES[format_name])
    response.headers["Content-Disposition"] = f'attachment; filename="{file_name}"'
    return response
