"""Estimates: how accurate a detector is, its history, and parts of its queries."""

from collections.abc import Callable, Iterator
from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import parameters, shapes
from tracker.api.parameters import optional
from tracker.api.routes import answers_file, build_routes
from tracker.charts.axes import Axis, Layout
from tracker.charts.render import render_png, render_svg
from tracker.charts.themes import Theme
from tracker.http import (
    answer_idempotently,
    context,
    database,
    name_file,
    now,
    send_rows,
)
from tracker.services.detectors import get_detector
from tracker.services.estimates import (
    cohorts,
    estimate,
    history,
    repeats,
    slices,
    thresholds,
    weeks,
)
from tracker.services.estimates.charts import build_chart
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.intervals import max_snapshots
from tracker.services.estimates.measures import (
    MeasuredEstimate,
    MeasureWord,
    add_measure,
)
from tracker.services.estimates.report import add_sentence
from tracker.services.exports import FILE_TYPES
from tracker.services.labelling.rechecks import find_label_errors
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector

_PAGE_ROWS = 10_000
routes = build_routes("estimates", "Accuracies with their intervals.")


class EstimateChoice(parameters.Window, parameters.Where):
    """Of what the estimate is, and how it is computed."""

    version: parameters.AnyVersion = None
    method: parameters.Method = Field(
        default="exact", description="How intervals are computed."
    )
    confidence_level: parameters.OwnLevel = None
    measure: parameters.Text = Field(
        default="recall",
        description="What to add to the accuracies of the classes, which are their "
        "recall: precision or f1 of all classes, or, as measured, one that can have a "
        "target: balanced, overall, recall:CLASS or precision:CLASS.",
    )
    window: parameters.Text | None = optional(
        "Only the last labels, such as 500, or labels of queries asked "
        "within this time, such as 7d. It takes the method exact, whose interval "
        "holds for the average of a window in which the accuracy changes."
    )
    as_known_at: parameters.When | None = optional(parameters.AS_KNOWN_AT)
    population: Literal["live", "replayed", "unstated"] | None = optional(
        "Whose labels it counts; by default live where the version has a "
        "live label, else replayed, else unstated."
    )
    target: parameters.LevelText | None = optional(
        "Decide about this target, not the detector's own."
    )
    span: estimate.SpanWord | None = optional(
        "now counts queries asked since the last proved change, all those "
        "of the version. By default all, and now with the method anytime, which is "
        "the interval of the decision."
    )
    include_targeted: parameters.Flag = Field(
        default=False,
        description="Score targeted labels too, which biases the estimate.",
    )


# What makes an estimate one of other labels than all of a version.
_PARTS = {"since", "until", "where", "window", "as_known_at", "include_targeted"}


@routes.call("GET /detectors/<id>/estimate", "viewer", MeasuredEstimate)
def get_estimate(path: parameters.IdPath, query: EstimateChoice) -> dict[str, Any]:
    """Compute the estimate from the labels committed so far."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        choices: dict[str, Any] = dict(query)
        measure = choices.pop("measure")
        found = estimate.get_estimate(session, detector, computed_at=now(), **choices)
        is_of_some = any(value for name, value in choices.items() if name in _PARTS)
        errors = None if is_of_some else find_label_errors(session, detector, found)
        return add_sentence(detector, add_measure(found, measure, errors)).dump()


@routes.call("POST /detectors/<id>/recompute", "editor", Estimate, 409, 422)
def recompute(path: parameters.IdPath) -> Response:
    """Run the job for this detector now, and compute the estimate."""
    with database().read() as session:
        detector_id = get_detector(session, path.id).id
    # It opens transactions of its own, and once more it does nothing.
    context().recompute(detector_id)

    def measure(session: Session) -> tuple[Estimate, int]:
        detector = get_detector(session, dump_id("det", detector_id))
        found = estimate.get_estimate(session, detector, computed_at=now())
        return found, 200

    return answer_idempotently(measure)


history_routes = build_routes("history", "Estimates as they stood at every moment.")


class HistoryChoice(parameters.Window):
    """Which part of the history, and how."""

    format: Literal["json", "csv", "jsonl", "parquet", "xlsx"] = Field(
        default="json", description="json comes in pages, the others as a file."
    )
    version: parameters.Text | None = optional(
        "The version; by default the one that is shown; * for every version."
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
    population: Literal["live", "replayed", "unstated"] | None = optional(
        "Only the moments at which the estimate was of these labels."
    )
    by: history.HistoryOrder = Field(
        default="arrival",
        description="arrival: as it stood whenever labels had come. asked_at: a "
        "snapshot for each day on which scored queries were asked, of all those asked "
        "up to its end, by the labels known now; since and until go by it, and files "
        "have a column asked_at.",
    )
    as_known_at: parameters.When | None = optional(
        "Only what was stored by then; no snapshot is ever changed. By "
        "asked_at: labels as they were known then, by the settings of today."
    )
    limit: parameters.RowLimit | None = optional(
        "JSON only: the number of rows, by default 10,000, fewer for a "
        "method that is not stored; the last snapshot is completed."
    )
    after: parameters.Place | None = optional("JSON only: the value from next.")


@history_routes.call(
    "GET /detectors/<id>/history",
    "viewer",
    answers_file(*FILE_TYPES, page=shapes.HistoryPage),
)
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
    as_known_at: parameters.When | None = optional(
        "Only what was stored by then; the target is that of today."
    )
    window: parameters.Text | None = optional(
        "Also draw the last labels or days at each moment, such as 500 or "
        "7d, with corrections and verdicts."
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


@charts_routes.call(
    "GET /detectors/<id>/chart.svg", "viewer", answers_file("image/svg+xml")
)
def get_chart_svg(path: parameters.IdPath, query: ChartChoice) -> Response:
    """Draw the tightening chart as an SVG picture."""
    return Response(render_svg(_build(path, query)), content_type="image/svg+xml")


@charts_routes.call(
    "GET /detectors/<id>/chart.png", "viewer", answers_file("image/png")
)
def get_chart_png(path: parameters.IdPath, query: ChartChoice) -> Response:
    """Draw the tightening chart as a PNG picture."""
    return Response(render_png(_build(path, query)), content_type="image/png")


@charts_routes.call(
    "GET /detectors/<id>/chart.json", "viewer", answers_file("application/json")
)
def get_chart_json(path: parameters.IdPath, query: ChartChoice) -> dict[str, Any]:
    """Get the Vega-Lite specification of the tightening chart."""
    return _build(path, query)


slices_routes = build_routes("slices", "Where a detector is worse than elsewhere.")


def _answer(
    service: Callable[..., Shape], path: parameters.IdPath, query: parameters.Parameters
) -> parameters.Answer:
    return parameters.read_detector(path, service, computed_at=now(), **dict(query))


class SliceChoice(parameters.Parameters):
    """What the queries are cut by."""

    by: parameters.Text = Field(
        description="metadata.NAME for a key that the detector declares in slices; "
        "version, predicted or week. The last two read every query of the version."
    )
    version: parameters.ShownVersion = None
    confidence_level: parameters.OwnLevel = None
    format: Literal["json", "csv", "jsonl", "parquet"] = Field(
        default="json", description="All but json are files with a row for each class."
    )


@slices_routes.call(
    "GET /detectors/<id>/slices",
    "viewer",
    answers_file(*FILE_TYPES, page=slices.Slices),
)
def get_slices(
    path: parameters.IdPath, query: SliceChoice
) -> dict[str, Any] | Response:
    """Cut the queries by a property of each, and compare the parts."""
    choices: dict[str, Any] = dict(query)
    format_name = choices.pop("format")
    with database().read() as session:
        detector = get_detector(session, path.id)
        found = slices.get_slices(session, detector, computed_at=now(), **choices)
    if format_name == "json":
        return found.dump()
    return send_rows(
        format_name,
        slices.SLICE_COLUMNS,
        lambda _session: slices.iter_slice_rows(found),
        name_file(detector, "slices", format_name),
    )


cohorts_routes = build_routes("cohorts", "How late labels come.")


class CohortChoice(parameters.Parameters):
    """Which cohorts."""

    by: cohorts.Cut = Field(default="day", description="A week begins on Monday, UTC.")
    version: parameters.AnyVersion = None
    limit: parameters.DrawLimit = Field(
        default=30, description="The number of days or weeks, the newest ones."
    )


@cohorts_routes.call("GET /detectors/<id>/cohorts", "viewer", cohorts.Cohorts)
def get_cohorts(path: parameters.IdPath, query: CohortChoice) -> dict[str, Any]:
    """Get how many queries of each day or week have a label, and how late it came."""
    return _answer(cohorts.get_cohorts, path, query)


weeks_routes = build_routes("weeks", "Accuracy by week, day or month.")


class WeekChoice(parameters.Parameters):
    """Which weeks, days or months."""

    by: weeks.Cut = Field(default="week", description="A week begins on Monday.")
    version: parameters.ShownVersion = None
    measure: parameters.Text | None = optional(
        "balanced, overall, recall:CLASS or precision:CLASS; by default "
        "the measure of the detector."
    )
    limit: parameters.DrawLimit = Field(
        default=26, description="The number of spans, back from the newest query."
    )


@weeks_routes.call("GET /detectors/<id>/weeks", "viewer", weeks.Weeks)
def get_weeks(path: parameters.IdPath, query: WeekChoice) -> dict[str, Any]:
    """Get how many of the queries asked in each week are right, with the interval."""
    return _answer(weeks.get_weeks, path, query)


repeats_routes = build_routes("repeats", "Questions that were asked several times.")


class RepeatChoice(parameters.Parameters):
    """Whose repeats."""

    version: parameters.Text | None = optional(
        "The version; by default the one that is shown; * takes the "
        "groups of all versions, each version's by itself."
    )


@repeats_routes.call("GET /detectors/<id>/repeats", "viewer", repeats.Repeats)
def get_repeats(path: parameters.IdPath, query: RepeatChoice) -> dict[str, Any]:
    """Compute pass@k, pass^k and the share of questions to which answers differ."""
    return parameters.read_detector(path, repeats.get_repeats, version=query.version)


confidences_routes = build_routes(
    "confidences", "How useful the confidences of a detector are."
)


class CalibrationChoice(parameters.Parameters):
    """Of what the calibration is."""

    version: parameters.AnyVersion = None
    confidence_level: parameters.OwnLevel = None


class ThresholdChoice(CalibrationChoice):
    """Of what the curve is, and what is wanted."""

    target: parameters.LevelText | None = optional(
        "The wanted accuracy; by default the detector's target. Another "
        "one may have been chosen after a look at the curve, and needs about twice as "
        "many labels."
    )


@confidences_routes.call(
    "GET /detectors/<id>/thresholds", "viewer", thresholds.Thresholds
)
def get_thresholds(path: parameters.IdPath, query: ThresholdChoice) -> dict[str, Any]:
    """Compute the accuracy above confidence thresholds, with a simultaneous band."""
    return _answer(thresholds.get_thresholds, path, query)


@confidences_routes.call(
    "GET /detectors/<id>/calibration", "viewer", thresholds.Calibration
)
def get_calibration(
    path: parameters.IdPath, query: CalibrationChoice
) -> dict[str, Any]:
    """Compute the accuracy in bins of confidence, and the calibration error."""
    return _answer(thresholds.get_calibration, path, query)
