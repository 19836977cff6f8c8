"""Files of rows to download."""

from collections.abc import Callable, Iterator, Sequence

from flask import Response
from sqlalchemy.orm import Session

from tracker.errors import NotFoundError
from tracker.http import audit, database
from tracker.services.exports import MEDIA_TYPES, Rows, write_rows


def download(
    reference: str,
    what: str,
    suffix: str,
    columns: Sequence[str],
    rows: Callable[[Session], Rows],
) -> Response:
    """Return *rows* as a file of the format *suffix*; raises NotFoundError.

    The file is named by ids of ours, such as the *reference*: a name from a user has
    no place in a header.
    """
    if suffix not in MEDIA_TYPES:
        raise NotFoundError(
            f"there is no such format; there are: {', '.join(MEDIA_TYPES)}"
        )
    opened = database()
    name = f"tracker-{reference}-{what}.{suffix}"
    with opened.write() as session:
        audit(session, "exported", name)

    def stream() -> Iterator[bytes]:
        with opened.read() as session:
            yield from write_rows(suffix, columns, rows(session))

    return Response(
        stream(),
        content_type=MEDIA_TYPES[suffix],
        headers={"Content-Disposition": f'attachment; filename="{name}"'},
    )
