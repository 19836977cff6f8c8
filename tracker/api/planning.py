"""Plans: how many more labels would be enough."""

from typing import Any

from pydantic import Field

from tracker.api.parameters import (
    DetectorPath,
    LevelText,
    Parameters,
    ShareText,
    Text,
    Whole,
)
from tracker.api.routes import answers, build_routes
from tracker.api.shapes import Shape
from tracker.http import database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates import Estimate, get_estimate
from tracker.services.fields import Instant
from tracker.services.planning import (
    USUAL_POWER,
    USUAL_WIDTH,
    ClassPlan,
    Goal,
    Plan,
    build_plan,
)
from tracker.storage.base import dump_id

routes = build_routes("plans", "How many more labels would be enough.")


class PlannedClass(Shape):
    """How many more labels of one class are needed; null where that is hopeless."""

    name: str = Field(serialization_alias="class")
    correct: int
    labelled: int
    for_width: int | None = Field(
        description="To bring the interval of this class to the width."
    )
    for_balanced_width: int | None = Field(
        description="The part of this class in bringing the balanced one to the width."
    )
    to_certify: int | None = Field(
        description="To have the low end of its interval above the target with the "
        "power from then on; null also without a target."
    )
    chance_to_certify: float | None = Field(
        description="The chance of that after so many more labels as more says; null "
        "where it says none."
    )


class NextClass(Shape):
    """The class whose next label is worth most."""

    name: str = Field(serialization_alias="class")
    reason: str = Field(
        description="unlabelled, or narrows_most: of the balanced accuracy."
    )


class LabelPlan(Shape):
    """What it takes to know the accuracies well enough."""

    detector: str = Field(description="The id of the detector.")
    name: str = Field(description="The name of the detector.")
    version: str | None = Field(
        description="* for all versions pooled; null before the first query."
    )
    computed_at: Instant
    confidence_level: float
    width: float
    target: float | None
    accuracy: float | None = Field(
        description="Supposed of each class; null for what is estimated now."
    )
    power: float
    more: int | None
    classes: list[PlannedClass]
    for_balanced_width: int | None = Field(
        description="In all, to bring the balanced interval to the width."
    )
    next: NextClass


class PlanChoice(Parameters):
    """What is wanted, and what is supposed."""

    width: LevelText = Field(
        default=USUAL_WIDTH, description="The wanted one, high less low."
    )
    target: LevelText | None = Field(
        default=None, description="To certify; the detector's own unless given."
    )
    accuracy: ShareText | None = Field(
        default=None,
        description="Of each class's further labels; as estimated now unless given.",
    )
    power: LevelText = Field(
        default=USUAL_POWER, description="With what chance the target is certified."
    )
    more: Whole | None = Field(
        default=None, description="How many more labels of a class may be given."
    )
    version: Text | None = Field(
        default=None,
        description="The one that queries last arrived with unless given; * pools all.",
    )
    confidence_level: LevelText | None = Field(
        default=None, description="The detector's own unless given."
    )


@routes.get("/detectors/<detector:id>/plan", responses=answers({200: LabelPlan}, 404))
@requires("viewer")
def get_plan(path: DetectorPath, query: PlanChoice) -> dict[str, Any]:
    """Compute how many more labels are needed, of which class."""
    choices: dict[str, Any] = dict(query)
    of = {name: choices.pop(name) for name in ("version", "confidence_level")}
    with database().read() as session:
        detector = get_detector(session, path.id)
        estimate = get_estimate(session, detector, computed_at=now(), **of)
    return dump_plan(estimate, build_plan(estimate, Goal(**choices)))


def dump_plan(estimate: Estimate, plan: Plan) -> dict[str, Any]:
    """Return a plan as JSON."""
    goal = plan.goal
    shape = LabelPlan(
        detector=dump_id("det", estimate.detector.id),
        name=estimate.detector.name,
        version=estimate.version,
        computed_at=estimate.computed_at,
        confidence_level=estimate.confidence_level,
        width=goal.width,
        target=goal.target,
        accuracy=goal.accuracy,
        power=goal.power,
        more=goal.more,
        classes=[_shape_class(one) for one in plan.classes],
        for_balanced_width=plan.for_balanced_width,
        next=NextClass(name=plan.next.scope.scope, reason=plan.next.reason),
    )
    return shape.model_dump(mode="json", by_alias=True)


def _shape_class(one: ClassPlan) -> PlannedClass:
    return PlannedClass(
        name=one.scope.scope,
        correct=one.scope.correct,
        labelled=one.scope.labelled,
        for_width=one.for_width,
        for_balanced_width=one.for_balanced_width,
        to_certify=one.to_certify,
        chance_to_certify=one.chance,
    )
