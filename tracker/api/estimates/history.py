"""The history of a detector, in pages, as a file, and as a chart."""

from collections.abc import Iterator
from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import parameters, shapes
from tracker.api.routes import answers_file, build_routes
from tracker.charts.axes import Axis, Layout
from tracker.charts.render import render_png, render_svg
from tracker.charts.themes import Theme
from tracker.http import database, name_file, now, requires, send_rows
from tracker.services.detectors import get_detector
from tracker.services.estimates import history
from tracker.services.estimates.charts import build_chart
from tracker.services.estimates.intervals import max_snapshots
from tracker.services.estimates.measures import MeasureWord
from tracker.services.exports import FILE_TYPES
from tracker.storage.detectors import Detector

routes = build_routes("history", "Estimates as they stood at every moment.")
_PAGE_ROWS = 10_000


class HistoryChoice(parameters.Window):
    """Which part of the history, and how."""

    format: Literal["json", "csv", "jsonl", "parquet", "xlsx"] = Field(
        default="json", description="json comes in pages, the others as a file."
    )
    version: parameters.Text | None = Field(
        default=None,
        description="The version; by default the one that is shown; * for every "
        "version.",
    )
    measure: MeasureWord = Field(
        default="recall",
        description="The measure; recall is the accuracy of each class. With any "
        "other measure files have a last column, measure.",
    )
    method: parameters.StoredMethod = Field(
        default="exact",
        description="The method of the intervals; * for every stored method.",
    )
    population: Literal["live", "replayed", "unstated"] | None = Field(
        default=None,
        description="Only the moments at which the estimate was of these labels.",
    )
    by: history.HistoryOrder = Field(
        default="arrival",
        description="arrival: as it stood whenever labels had come. asked_at: a "
        "snapshot for each day on which scored queries were asked, of all those asked "
        "up to its end, by the labels known now; since and until go by it, and files "
        "have a column asked_at.",
    )
    as_known_at: parameters.When | None = Field(
        default=None,
        description="Only what was stored by then; no snapshot is ever changed. By "
        "asked_at: labels as they were known then, by the settings of today.",
    )
    limit: parameters.RowLimit | None = Field(
        default=None,
        description="JSON only: the number of rows, by default 10,000, fewer for a "
        "method that is not stored; the last snapshot is completed.",
    )
    after: parameters.Place | None = Field(
        default=None, description="JSON only: the value from next."
    )


@routes.get(
    "/detectors/<id>/history",
    responses=answers_file(*FILE_TYPES, problems=(404,), page=shapes.HistoryPage),
)
@requires("viewer")
def get_history(path: parameters.IdPath, query: HistoryChoice) -> Response:
    """Get the history, oldest first: a row for each class and for balanced accuracy."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        if query.format == "json":
            usual = max_snapshots(query.method, len(detector.classes), of=_PAGE_ROWS)
            rows = _open_rows(session, detector, query)
            return _send_page(rows, query.limit or usual)
    for name, value in (("limit", query.limit), ("after", query.after)):
        if value is not None:
            message = "only format=json comes in pages"
            raise parameters.wrong_parameter(name, value, message)
    return send_rows(
        query.format,
        history.history_columns(query.measure, query.by),
        lambda session: history.dump_rows(_open_rows(session, detector, query)),
        name_file(detector, "history", query.format),
    )


def _open_rows(
    session: Session, detector: Detector, query: HistoryChoice
) -> Iterator[history.PlacedRow]:
    left = {"format", "population", "as_known_at", "limit"}
    choices = {name: value for name, value in query if name not in left}
    known_at = query.as_known_at
    rows = history.iter_history(session, detector, **choices, known_at=known_at)
    if query.population is None:
        return rows
    return (one for one in rows if one[1].population == query.population)


def _send_page(rows: Iterator[history.PlacedRow], limit: int) -> Response:
    """Answer a page of *limit* rows and what is missing of the last snapshot."""
    items: list[history.HistoryRow] = []
    last: tuple[int, int] | None = None
    following = None
    for place, row in rows:
        if len(items) >= limit and last is not None and place != last:
            following = parameters.next_address(f"{last[0]}-{last[1]}")
            break
        items.append(row)
        last = place
    page = shapes.HistoryPage(items=items, next=following)
    # Written at once, which takes a fifth less time than by way of dicts.
    return Response(page.model_dump_json(), mimetype="application/json")


charts_routes = build_routes("charts", "How the intervals tighten as labels arrive.")


class ChartChoice(parameters.Parameters):
    """What the chart shows, and how."""

    version: parameters.ShownVersion = None
    method: parameters.Method = Field(
        default="exact", description="How intervals are computed."
    )
    x: Axis = Field(default="labels", description="The horizontal axis.")
    theme: Theme = Field(default="light", description="The colour theme.")
    layout: Layout = Field(
        default="wide", description="The layout; narrow fits a phone."
    )
    as_known_at: parameters.When | None = Field(
        default=None,
        description="Only what was stored by then; the target is that of today.",
    )
    window: parameters.Text | None = Field(
        default=None,
        description="Also draw the last labels or days at each moment, such as 500 or "
        "7d, with corrections and verdicts.",
    )


def _build(path: parameters.IdPath, query: ChartChoice) -> dict[str, Any]:
    if query.version == "*":
        raise parameters.wrong_parameter("version", "*", "a chart shows one version")
    if query.window is not None and query.as_known_at is not None:
        message = "it cannot be given together with as_known_at"
        raise parameters.wrong_parameter("window", query.window, message)
    choices: dict[str, Any] = {**dict(query), "computed_at": now()}
    with database().read() as session:
        return build_chart(session, get_detector(session, path.id), **choices)


@charts_routes.get(
    "/detectors/<id>/chart.svg",
    responses=answers_file("image/svg+xml", problems=(404,)),
)
@requires("viewer")
def get_chart_svg(path: parameters.IdPath, query: ChartChoice) -> Response:
    """Draw the tightening chart as an SVG picture."""
    return Response(render_svg(_build(path, query)), content_type="image/svg+xml")


@charts_routes.get(
    "/detectors/<id>/chart.png", responses=answers_file("image/png", problems=(404,))
)
@requires("viewer")
def get_chart_png(path: parameters.IdPath, query: ChartChoice) -> Response:
    """Draw the tightening chart as a PNG picture."""
    return Response(render_png(_build(path, query)), content_type="image/png")


@charts_routes.get(
    "/detectors/<id>/chart.json",
    responses=answers_file("application/json", problems=(404,)),
)
@requires("viewer")
def get_chart_json(path: parameters.IdPath, query: ChartChoice) -> dict[str, Any]:
    """Get the Vega-Lite specification of the tightening chart."""
    return _build(path, query)
