"""Plans: how many more labels would be enough."""

from typing import Any

from pydantic import Field

from tracker.api.parameters import (
    ConfidenceText,
    IdPath,
    LevelText,
    Parameters,
    ShareText,
    Text,
    Whole,
)
from tracker.api.routes import answers, build_routes
from tracker.http import database, now, requires
from tracker.services.deciding.planning import (
    USUAL_POWER,
    USUAL_WIDTH,
    Goal,
    LabelPlan,
    build_plan,
    price_audit,
)
from tracker.services.detectors import get_detector
from tracker.services.estimates.estimate import get_estimate

routes = build_routes("plans", "The number of further labels that would be enough.")


class PlanChoice(Parameters):
    """What is wanted, and what is supposed."""

    width: LevelText = Field(
        default=USUAL_WIDTH, description="The wanted width, high minus low."
    )
    target: LevelText | None = Field(
        default=None,
        description="The target to certify; by default the detector's own.",
    )
    accuracy: ShareText | None = Field(
        default=None,
        description="The accuracy of the further labels; by default the current "
        "estimate.",
    )
    power: LevelText = Field(
        default=USUAL_POWER, description="The chance that the target is certified."
    )
    more: Whole | None = Field(
        default=None, description="The number of further labels."
    )
    version: Text | None = Field(
        default=None,
        description="The version; by default the one that is shown; * pools all "
        "versions.",
    )
    confidence_level: ConfidenceText | None = Field(
        default=None, description="The confidence level; by default the detector's own."
    )


@routes.get("/detectors/<id>/plan", responses=answers({200: LabelPlan}, 404))
@requires("viewer")
def get_plan(path: IdPath, query: PlanChoice) -> dict[str, Any]:
    """Compute how many more labels each class needs."""
    choices: dict[str, Any] = dict(query)
    of = {name: choices.pop(name) for name in ("version", "confidence_level")}
    with database().read() as session:
        detector = get_detector(session, path.id)
        estimate = get_estimate(session, detector, computed_at=now(), **of)
        estimate = price_audit(session, detector, estimate)
    return build_plan(estimate, Goal(**choices)).dump()
