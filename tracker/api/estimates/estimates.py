"""Estimates: how accurate a detector is now, and how sure that is."""

from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import parameters
from tracker.api.routes import answers, build_routes
from tracker.http import answer_idempotently, context, database, now, requires
from tracker.services.detectors import get_detector
from tracker.services.estimates import estimate as services
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.measures import MeasuredEstimate, add_measure
from tracker.services.estimates.report import add_sentence
from tracker.services.estimates.weeks import AverageWord
from tracker.services.labelling.rechecks import find_label_errors
from tracker.storage.base import dump_id

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
    window: parameters.Text | None = Field(
        default=None,
        description="Only the last labels, such as 500, or labels of queries asked "
        "within this time, such as 7d. It takes the method exact, whose interval "
        "holds for the average of a window in which the accuracy changes.",
    )
    as_known_at: parameters.When | None = Field(
        default=None, description=parameters.AS_KNOWN_AT
    )
    population: Literal["live", "replayed", "unstated"] | None = Field(
        default=None,
        description="Whose labels it counts; by default live where the version has a "
        "live label, else replayed, else unstated.",
    )
    target: parameters.LevelText | None = Field(
        default=None, description="Decide about this target, not the detector's own."
    )
    span: services.SpanWord | None = Field(
        default=None,
        description="now counts queries asked since the last proved change, all those "
        "of the version. By default all, and now with the method anytime, which is "
        "the interval of the decision.",
    )
    average_of: AverageWord = Field(
        default="labels",
        description="span: count only the labels of the queries that rank below the "
        "first one without an answer, which are a random sample of all that were "
        "asked from since to until.",
    )
    include_targeted: parameters.Flag = Field(
        default=False,
        description="Score targeted labels too, which biases the estimate.",
    )


# What makes an estimate one of other labels than all of a version.
_PARTS = {"since", "until", "where", "window", "as_known_at", "include_targeted"}


@routes.get("/detectors/<id>/estimate", responses=answers({200: MeasuredEstimate}, 404))
@requires("viewer")
def get_estimate(path: parameters.IdPath, query: EstimateChoice) -> dict[str, Any]:
    """Compute the estimate from the labels committed so far."""
    with database().read() as session:
        detector = get_detector(session, path.id)
        choices: dict[str, Any] = dict(query)
        measure = choices.pop("measure")
        found = services.get_estimate(session, detector, computed_at=now(), **choices)
        is_of_some = any(value for name, value in choices.items() if name in _PARTS)
        errors = None if is_of_some else find_label_errors(session, detector, found)
        return add_sentence(detector, add_measure(found, measure, errors)).dump()


@routes.post(
    "/detectors/<id>/recompute", responses=answers({200: Estimate}, 404, 409, 422)
)
@requires("editor")
def recompute(path: parameters.IdPath) -> Response:
    """Run the job for this detector now, and compute the estimate."""
    with database().read() as session:
        detector_id = get_detector(session, path.id).id
    # It opens transactions of its own, and once more it does nothing.
    context().recompute(detector_id)

    def estimate(session: Session) -> tuple[Estimate, int]:
        detector = get_detector(session, dump_id("det", detector_id))
        found = services.get_estimate(session, detector, computed_at=now())
        return found, 200

    return answer_idempotently(estimate)
