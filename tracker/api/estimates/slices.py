"""Parts of a detector's queries: slices, weeks, cohorts, repeats, confidences."""

from collections.abc import Callable
from typing import Any, Literal

from flask import Response
from pydantic import Field

from tracker.api import parameters
from tracker.api.routes import answers, answers_file, build_routes
from tracker.http import database, name_file, now, requires, send_rows
from tracker.services.detectors import get_detector
from tracker.services.estimates import cohorts, repeats, thresholds, weeks
from tracker.services.estimates import slices as services
from tracker.services.exports import FILE_TYPES
from tracker.shapes import Shape

routes = build_routes("slices", "Where a detector is worse than elsewhere.")


def _answer(
    service: Callable[..., Shape], path: parameters.IdPath, query: parameters.Parameters
) -> dict[str, Any]:
    with database().read() as session:
        detector = get_detector(session, path.id)
        return service(session, detector, computed_at=now(), **dict(query)).dump()


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


@routes.get(
    "/detectors/<id>/slices",
    responses=answers_file(*FILE_TYPES, problems=(404,), page=services.Slices),
)
@requires("viewer")
def get_slices(
    path: parameters.IdPath, query: SliceChoice
) -> dict[str, Any] | Response:
    """Cut the queries by a property of each, and compare the parts."""
    choices: dict[str, Any] = dict(query)
    format_name = choices.pop("format")
    with database().read() as session:
        detector = get_detector(session, path.id)
        found = services.get_slices(session, detector, computed_at=now(), **choices)
    if format_name == "json":
        return found.dump()
    return send_rows(
        format_name,
        services.SLICE_COLUMNS,
        lambda _session: services.iter_slice_rows(found),
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


@cohorts_routes.get(
    "/detectors/<id>/cohorts", responses=answers({200: cohorts.Cohorts}, 404)
)
@requires("viewer")
def get_cohorts(path: parameters.IdPath, query: CohortChoice) -> dict[str, Any]:
    """Get how many queries of each day or week have a label, and how late it came."""
    return _answer(cohorts.get_cohorts, path, query)


weeks_routes = build_routes("weeks", "Accuracy by week, day or month.")


class WeekChoice(parameters.Parameters):
    """Which weeks, days or months."""

    by: weeks.Cut = Field(default="week", description="A week begins on Monday.")
    version: parameters.ShownVersion = None
    measure: parameters.Text | None = Field(
        default=None,
        description="balanced, overall, recall:CLASS or precision:CLASS; by default "
        "the measure of the detector.",
    )
    limit: parameters.DrawLimit = Field(
        default=26, description="The number of spans, back from the newest query."
    )


@weeks_routes.get("/detectors/<id>/weeks", responses=answers({200: weeks.Weeks}, 404))
@requires("viewer")
def get_weeks(path: parameters.IdPath, query: WeekChoice) -> dict[str, Any]:
    """Get how many of the queries asked in each week are right, with the interval."""
    return _answer(weeks.get_weeks, path, query)


repeats_routes = build_routes("repeats", "Questions that were asked several times.")


class RepeatChoice(parameters.Parameters):
    """Whose repeats."""

    version: parameters.Text | None = Field(
        default=None,
        description="The version; by default the one that is shown; * takes the "
        "groups of all versions, each version's by itself.",
    )


@repeats_routes.get(
    "/detectors/<id>/repeats", responses=answers({200: repeats.Repeats}, 404)
)
@requires("viewer")
def get_repeats(path: parameters.IdPath, query: RepeatChoice) -> dict[str, Any]:
    """Compute pass@k, pass^k and the share of questions to which answers differ."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        return repeats.get_repeats(session, detector, version=query.version).dump()


confidences_routes = build_routes(
    "confidences", "How useful the confidences of a detector are."
)


class CalibrationChoice(parameters.Parameters):
    """Of what the calibration is."""

    version: parameters.AnyVersion = None
    confidence_level: parameters.OwnLevel = None


class ThresholdChoice(CalibrationChoice):
    """Of what the curve is, and what is wanted."""

    target: parameters.LevelText | None = Field(
        default=None,
        description="The wanted accuracy; by default the detector's target. Another "
        "one may have been chosen after a look at the curve, and needs about twice as "
        "many labels.",
    )


@confidences_routes.get(
    "/detectors/<id>/thresholds", responses=answers({200: thresholds.Thresholds}, 404)
)
@requires("viewer")
def get_thresholds(path: parameters.IdPath, query: ThresholdChoice) -> dict[str, Any]:
    """Compute the accuracy above confidence thresholds, with a simultaneous band."""
    return _answer(thresholds.get_thresholds, path, query)


@confidences_routes.get(
    "/detectors/<id>/calibration", responses=answers({200: thresholds.Calibration}, 404)
)
@requires("viewer")
def get_calibration(
    path: parameters.IdPath, query: CalibrationChoice
) -> dict[str, Any]:
    """Compute the accuracy in bins of confidence, and the calibration error."""
    return _answer(thresholds.get_calibration, path, query)
