"""The tightening chart of a detector, as a picture or as its specification."""

from typing import Any

from flask import Response
from pydantic import Field

from tracker.api.parameters import (
    IdPath,
    Method,
    Parameters,
    Text,
    When,
    wrong_parameter,
)
from tracker.api.routes import answers_file, build_routes
from tracker.charts.axes import Axis, Layout
from tracker.charts.render import render_png, render_svg
from tracker.charts.themes import Theme
from tracker.http import database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates.charts import build_chart

routes = build_routes("charts", "How the intervals tighten as labels arrive.")


class ChartChoice(Parameters):
    """What the chart shows, and how."""

    version: Text | None = Field(
        default=None,
        description="The version; by default the one that is shown.",
    )
    method: Method = Field(default="exact", description="How intervals are computed.")
    x: Axis = Field(default="labels", description="The horizontal axis.")
    theme: Theme = Field(default="light", description="The colour theme.")
    layout: Layout = Field(
        default="wide", description="The layout; narrow fits a phone."
    )
    as_known_at: When | None = Field(
        default=None, description="Only what was stored by then."
    )
    window: Text | None = Field(
        default=None,
        description="Also draw the last labels or days at each moment, such as 500 or "
        "7d, with corrections and verdicts.",
    )


def _build(path: IdPath, query: ChartChoice) -> dict[str, Any]:
    if query.version == "*":
        raise wrong_parameter("version", "*", "a chart shows one version")
    if query.window is not None and query.as_known_at is not None:
        message = "it cannot be given together with as_known_at"
        raise wrong_parameter("window", query.window, message)
    choices: dict[str, Any] = {**dict(query), "computed_at": now()}
    with database().read() as session:
        return build_chart(session, get_detector(session, path.id), **choices)


@routes.get(
    "/detectors/<id>/chart.svg",
    responses=answers_file("image/svg+xml", problems=(404,)),
)
@requires("viewer")
def get_chart_svg(path: IdPath, query: ChartChoice) -> Response:
    """Draw the tightening chart as an SVG picture."""
    return Response(render_svg(_build(path, query)), content_type="image/svg+xml")


@routes.get(
    "/detectors/<id>/chart.png",
    responses=answers_file("image/png", problems=(404,)),
)
@requires("viewer")
def get_chart_png(path: IdPath, query: ChartChoice) -> Response:
    """Draw the tightening chart as a PNG picture."""
    return Response(render_png(_build(path, query)), content_type="image/png")


@routes.get(
    "/detectors/<id>/chart.json",
    responses=answers_file("application/json", problems=(404,)),
)
@requires("viewer")
def get_chart_json(path: IdPath, query: ChartChoice) -> dict[str, Any]:
    """Get the Vega-Lite specification of the tightening chart."""
    return _build(path, query)
