"""Comparison of versions, gates, attribution, and label plans."""

from typing import Any, Literal

from flask import Response
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.api import parameters
from tracker.api.parameters import optional
from tracker.api.routes import build_routes
from tracker.http import answer_idempotently, by, database, now
from tracker.services.deciding import attribution, planning
from tracker.services.deciding.attribution import Attribution, NewInvestigation
from tracker.services.deciding.comparison import Comparison, get_comparison
from tracker.services.deciding.gates import Gate, GateChoice, ask_gate
from tracker.services.detectors import get_detector, get_open_detector
from tracker.services.estimates import replays
from tracker.services.estimates.estimate import get_estimate
from tracker.services.estimates.replays import ReplayList
from tracker.shapes import Shape

comparison_routes = build_routes(
    "comparison", "Two versions of a detector, side by side."
)


class ComparisonChoice(parameters.Parameters):
    """The versions to compare, and the confidence level."""

    old: parameters.Text | None = optional(
        "The old version; by default the one that arrived before new."
    )
    new: parameters.Text | None = optional(
        "The new version; by default the one of the newest queries."
    )
    confidence_level: parameters.OwnLevel = None
    population: Literal["live", "replayed", "unstated"] | None = optional(
        "Which labels of both versions count; by default live and replayed ones."
    )


class ReplayChoice(parameters.Parameters):
    """The inputs to put a new version to."""

    version: parameters.Text | None = optional(
        "The version of the labelled inputs; by default the shown one."
    )
    n: parameters.RowLimit = Field(default=300, description="The number of inputs.")


@comparison_routes.call("GET /detectors/<id>/replay", "viewer", ReplayList)
def list_replay(path: parameters.IdPath, query: ReplayChoice) -> parameters.Answer:
    """List inputs to put a new version to: a random sample of the labelled ones.

    They come in the order of their ranks, which do not depend on predictions or labels.
    A version that answers the first of them, without a gap, gets a verdict by their
    labels if it was made without these.
    """
    return parameters.read_detector(path, replays.list_replay, **dict(query))


@comparison_routes.call("GET /detectors/<id>/comparison", "viewer", Comparison, 409)
def compare_versions(
    path: parameters.IdPath, query: ComparisonChoice
) -> parameters.Answer:
    """Compare two versions, by the labels committed so far.

    Queries of the two with the same input are compared as pairs, which is most precise.
    The verdict holds after every label; the intervals are for one look.
    """
    choices = {**dict(query), "computed_at": now()}
    return parameters.read_detector(path, get_comparison, **choices)


gates_routes = build_routes("gates", "Whether a version is good enough.")


@gates_routes.call("POST /detectors/<id>/gate", "viewer", Gate, 409)
def ask(path: parameters.IdPath, body: GateChoice) -> parameters.Answer:
    """Check whether a version meets the given conditions.

    Uses intervals that hold at every look, so that you can check after each commit.
    With family the verdicts hold together for all versions that are gated with family;
    the versions are counted.  409 if the labels decide nothing.
    """
    is_written = body.unseen or body.family
    opened = database().write if is_written else database().read
    with opened() as session:
        return ask_gate(session, get_detector(session, path.id), body, by()).dump()


attribution_routes = build_routes("attribution", "What moved a judged rate.")


class InvestigationChoice(parameters.Parameters):
    """The number of an investigation."""

    number: parameters.Whole | None = optional("The number; by default the newest.")


@attribution_routes.call(
    "POST /detectors/<id>/attribution", "editor", Attribution, 409, status=201
)
def begin_investigation(path: parameters.IdPath, body: NewInvestigation) -> Response:
    """Start to find out what moved between two weeks, by anchors of the first week.

    Start once system and judge are in their current state, and put the anchors to both.
    Every investigation makes the intervals of later ones wider.
    """

    def begin(session: Session) -> tuple[Shape, int]:
        detector = get_open_detector(session, path.id)
        return attribution.begin_investigation(session, detector, body, by()), 201

    return answer_idempotently(begin, body)


@attribution_routes.call("GET /detectors/<id>/attribution", "viewer", Attribution)
def get_attribution(
    path: parameters.IdPath, query: InvestigationChoice
) -> parameters.Answer:
    """Say whether the system, the judge or the mix moved, as far as is known."""
    read = attribution.get_attribution
    return parameters.read_detector(path, read, query.number)


@attribution_routes.call(
    "GET /detectors/<id>/attribution/anchors", "viewer", attribution.AnchorList
)
def list_anchors(
    path: parameters.IdPath, query: InvestigationChoice
) -> parameters.Answer:
    """List the anchors of an investigation, and what each still needs."""
    return parameters.read_detector(path, attribution.list_anchors, query.number)


plans_routes = build_routes("plans", "The number of further labels that are enough.")


class PlanChoice(parameters.Parameters):
    """The goal of a plan, and its assumptions."""

    width: parameters.LevelText = Field(
        default=planning.USUAL_WIDTH, description="The wanted width, high minus low."
    )
    target: parameters.LevelText | None = optional(
        "The target to certify; by default the detector's own."
    )
    accuracy: parameters.ShareText | None = optional(
        "The accuracy of the further labels; by default the current estimate."
    )
    power: parameters.LevelText = Field(
        default=planning.USUAL_POWER,
        description="The chance that the target is certified.",
    )
    more: parameters.Whole | None = optional("The number of further labels.")
    version: parameters.Text | None = optional(
        "The version; by default the shown one; * pools all versions."
    )
    confidence_level: parameters.OwnLevel = None


@plans_routes.call("GET /detectors/<id>/plan", "viewer", planning.LabelPlan)
def get_plan(path: parameters.IdPath, query: PlanChoice) -> parameters.Answer:
    """Compute how many more labels each class needs."""
    choices: dict[str, Any] = dict(query)
    of = {name: choices.pop(name) for name in ("version", "confidence_level")}
    with database().read() as session:
        detector = get_detector(session, path.id)
        estimate = get_estimate(session, detector, computed_at=now(), **of)
        estimate = planning.price_audit(session, detector, estimate)
    return planning.build_plan(
        estimate, planning.Goal(**choices), detector.measure
    ).dump()
