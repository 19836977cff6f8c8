"""Estimates: how accurate a detector is now, and how sure that is."""

from typing import Any

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import shapes
from tracker.api.dumps import dump_estimate
from tracker.api.once import answer_once
from tracker.api.parameters import DetectorPath, Flag, LevelText, Method, Text, Window
from tracker.api.routes import answers, build_routes
from tracker.http import context, database, now, requires
from tracker.services import estimates as services
from tracker.services.detectors import get_detector
from tracker.storage.base import dump_id

routes = build_routes("estimates", "Accuracies with their intervals.")


class EstimateChoice(Window):
    """Of what the estimate is, and how it is computed."""

    version: Text | None = Field(
        default=None,
        description="The one that queries last arrived with unless given; * pools all.",
    )
    method: Method = Field(default="exact", description="How intervals are computed.")
    confidence_level: LevelText | None = Field(
        default=None, description="The detector's own unless given."
    )
    include_targeted: Flag = Field(
        default=False,
        description="Score targeted labels too, which biases the estimate.",
    )


@routes.get(
    "/detectors/<detector:id>/estimate", responses=answers({200: shapes.Estimate}, 404)
)
@requires("viewer")
def get_estimate(path: DetectorPath, query: EstimateChoice) -> dict[str, Any]:
    """Compute the estimate from the labels committed so far."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        choices: dict[str, Any] = dict(query)
        return dump_estimate(
            services.get_estimate(session, detector, computed_at=now(), **choices)
        )


@routes.post(
    "/detectors/<detector:id>/recompute",
    responses=answers({200: shapes.Estimate}, 404, 409, 422),
)
@requires("editor")
def recompute(path: DetectorPath) -> Response:
    """Run the job for this detector now, and compute the estimate."""
    with database().read() as session:
        detector_id = get_detector(session, path.id).id
    # It opens transactions of its own, and once more it does nothing.
    context().recompute(detector_id)

    def estimate(session: Session) -> tuple[dict[str, Any], int]:
        detector = get_detector(session, dump_id("det", detector_id))
        found = services.get_estimate(session, detector, computed_at=now())
        return dump_estimate(found), 200

    return answer_once(estimate, content="")
