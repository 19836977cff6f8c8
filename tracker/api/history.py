"""The history of a detector, in pages or as a file."""

import re
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.api.files import FILE_TYPES, send_rows
from tracker.api.pages import next_address
from tracker.api.parameters import (
    DetectorPath,
    Place,
    RowLimit,
    StoredMethod,
    Text,
    Window,
    wrong_parameter,
)
from tracker.api.routes import answers_file, build_routes
from tracker.http import database, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates import most_moments
from tracker.services.history import HISTORY_COLUMNS, iter_history
from tracker.storage.detectors import Detector

routes = build_routes("history", "Estimates as they stood at every moment.")
_PAGE_ROWS = 10_000
_UNSAFE = re.compile(r"[^A-Za-z0-9._-]+")


class HistoryChoice(Window):
    """Which part of the history, and how."""

    format: Literal["json", "csv", "jsonl", "parquet"] = Field(
        default="json", description="json comes in pages, the others as a file."
    )
    version: Text | None = Field(
        default=None,
        description="The one that queries last arrived with unless given; * for each.",
    )
    method: StoredMethod = Field(
        default="exact", description="How intervals were computed; * for each stored."
    )
    limit: RowLimit | None = Field(
        default=None,
        description="Of json: 10,000 unless given, fewer of a method that is not "
        "stored; the last snapshot is completed.",
    )
    after: Place | None = Field(
        default=None, description="Of json: as it stands in next."
    )


@routes.get(
    "/detectors/<detector:id>/history",
    responses=answers_file(*FILE_TYPES, problems=(404,), page=shapes.HistoryPage),
)
@requires("viewer")
def get_history(path: DetectorPath, query: HistoryChoice) -> dict[str, Any] | Response:
    """Get the history, oldest first: a row for each class and for balanced accuracy."""
    if query.format != "json":
        return _export(path.id, query)
    with database().read() as session:
        detector = get_detector(session, path.id)
        usual = most_moments(query.method, len(detector.classes), of=_PAGE_ROWS)
        return _dump_page(_open_rows(session, detector, query), query.limit or usual)


def _open_rows(session: Session, detector: Detector, query: HistoryChoice) -> Any:
    return iter_history(
        session,
        detector,
        version=query.version,
        method=query.method,
        since=query.since,
        until=query.until,
        after=query.after,
    )


def _dump_page(
    rows: Iterator[tuple[tuple[int, int], dict[str, Any]]], limit: int
) -> dict[str, Any]:
    """Return a page of *limit* rows and what is missing of the last snapshot."""
    items: list[dict[str, Any]] = []
    last: tuple[int, int] | None = None
    for place, row in rows:
        if len(items) >= limit and last is not None and place != last:
            return {"items": items, "next": next_address(f"{last[0]}-{last[1]}")}
        items.append(row)
        last = place
    return {"items": items, "next": None}


def _export(id_or_name: str, query: HistoryChoice) -> Response:
    for name, value in (("limit", query.limit), ("after", query.after)):
        if value is not None:
            raise wrong_parameter(name, value, "only format=json comes in pages")
    with ExitStack() as stack:
        session = stack.enter_context(database().read())
        detector = get_detector(session, id_or_name)
        rows = (row for _, row in _open_rows(session, detector, query))
        response = send_rows(
            query.format, HISTORY_COLUMNS, rows, _file_name(detector, query.format)
        )
        # The read stays open while the answer goes out, and no longer.
        response.call_on_close(stack.pop_all().close)
    return response


def _file_name(detector: Detector, suffix: str) -> str:
    name = _UNSAFE.sub("-", detector.name)[:80].strip("-.")
    return f"{name or f'det_{detector.id}'}-history.{suffix}"
