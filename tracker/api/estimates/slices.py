"""Slices: how accurate a detector is on each part of its queries."""

from collections.abc import Iterator
from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api.parameters import ConfidenceText, IdPath, Parameters, Text
from tracker.api.routes import answers_file, build_routes
from tracker.http import database, name_file, now, requires, send_rows
from tracker.services.detectors import get_detector
from tracker.services.estimates.slices import slices as services
from tracker.services.exports import FILE_TYPES

routes = build_routes("slices", "Where a detector is worse than elsewhere.")


class SliceChoice(Parameters):
    """What the queries are cut by."""

    by: Text = Field(
        description="metadata.NAME for a key that the detector declares in slices; "
        "version, predicted or week. The last two read every query of the version."
    )
    version: Text | None = Field(
        default=None, description="The version; by default the one that is shown."
    )
    confidence_level: ConfidenceText | None = Field(
        default=None, description="The confidence level; by default the detector's own."
    )
    format: Literal["json", "csv", "jsonl", "parquet"] = Field(
        default="json", description="All but json are files with a row for each class."
    )


@routes.get(
    "/detectors/<id>/slices",
    responses=answers_file(*FILE_TYPES, problems=(404,), page=services.Slices),
)
@requires("viewer")
def get_slices(path: IdPath, query: SliceChoice) -> dict[str, Any] | Response:
    """Cut the queries by a property of each, and compare the parts."""
    choices: dict[str, Any] = dict(query)
    format_name = choices.pop("format")
    with database().read() as session:
        detector = get_detector(session, path.id)
        found = services.get_slices(session, detector, computed_at=now(), **choices)
    if format_name == "json":
        return found.dump()

    def rows(_session: Session) -> Iterator[dict[str, Any]]:
        return services.iter_slice_rows(found)

    file_name = name_file(detector, "slices", format_name)
    return send_rows(format_name, services.SLICE_COLUMNS, rows, file_name)
