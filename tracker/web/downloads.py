"""Files of rows to download."""

from collections.abc import Callable, Sequence

from flask import Response
from sqlalchemy.orm import Session

from tracker.errors import NotFoundError
from tracker.http import send_rows
from tracker.services.exports import MEDIA_TYPES, Rows


def download(
    reference: str,
    what: str,
    suffix: str,
    columns: Sequence[str],
    rows: Callable[[Session], Rows],
) -> Response:
    """Return *rows* as a file of the format *suffix*; raises NotFoundError.

    The file is named by an id, such as the *reference*: a name from a user has no
    place in a header.
    """
    if suffix not in MEDIA_TYPES:
        raise NotFoundError(
            f"there is no such format; there are: {', '.join(MEDIA_TYPES)}"
        )
    return send_rows(suffix, columns, rows, f"tracker-{reference}-{what}.{suffix}")
