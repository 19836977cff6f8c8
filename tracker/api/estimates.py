"""Estimates: how accurate a detector is now, and how sure that is."""

from typing import Any

from pydantic import Field

from tracker.api import shapes
from tracker.api.dumps import dump_estimate
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
    "/detectors/<detector:id>/recompute", responses=answers({200: shapes.Estimate}, 404)
)
@requires("editor")
def recompute(path: DetectorPath) -> dict[str, Any]:
    """Run the job for this detector now, and compute the estimate."""
    with database().read() as session:
        detector_id = get_detector(session, path.id).id
    context().recompute(detector_id)
    with database().read() as session:
        detector = get_detector(session, dump_id("det", detector_id))
        return dump_estimate(
            services.get_estimate(session, detector, computed_at=now())
        )
