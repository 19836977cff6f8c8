"""A page of a list, and the address of the one after it."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar
from urllib.parse import urlencode

from flask import request, url_for
from sqlalchemy.orm import Session

from tracker.http import database
from tracker.services.detectors import get_detector
from tracker.shapes import Shape
from tracker.storage.base import dump_id

Item = TypeVar("Item")


def dump_page(
    found: Sequence[Item],
    limit: int,
    describe: Callable[[Item], Shape],
    place: Callable[[Item], str],
) -> dict[str, Any]:
    """Return the page of the first *limit* of *found* as JSON.

    The caller looked for one more than *limit*, which tells whether there is
    another page; *place* says where an item stands in the list.
    """
    items = found[:limit]
    after = place(items[-1]) if len(found) > limit else None
    return {
        "items": [describe(item).dump() for item in items],
        "next": next_address(after),
    }


def dump_newest(  # noqa: PLR0913 - what a list is, and its page.
    detector: str,
    list_rows: Callable[..., Sequence[Any]],
    describe: Callable[[Session, Any], Shape],
    prefix: str,
    *,
    after: int | None,
    limit: int,
) -> dict[str, Any]:
    """Return a page of what *detector* has as JSON, the newest first.

    *list_rows* takes the session, the detector's id, `before` and `limit`; *prefix* is
    that of the ids of its rows.
    """
    with database().read() as session:
        detector_id = get_detector(session, detector).id
        rows = list_rows(session, detector_id, before=after, limit=limit + 1)
        return dump_page(
            rows,
            limit,
            lambda row: describe(session, row),
            lambda row: dump_id(prefix, row.id),
        )


def next_address(after: str | None) -> str | None:
    """Return this address with *after* in it, None for None."""
    if after is None:
        return None
    # Flask's own address of a request leaves a % in a name as it is.
    address = url_for(
        str(request.endpoint), _external=True, **(request.view_args or {})
    )
    asked = {**request.args.to_dict(flat=False), "after": after}
    return f"{address}?{urlencode(asked, doseq=True)}"
