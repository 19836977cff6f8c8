"""Whether a new version of a detector is better than an old one."""

from typing import Any, Literal

from pydantic import Field

from tracker.api.parameters import ConfidenceText, IdPath, Parameters, RowLimit, Text
from tracker.api.routes import answers, build_routes
from tracker.http import database, now, requires
from tracker.services.deciding.comparison import Comparison, get_comparison
from tracker.services.detectors import get_detector
from tracker.services.estimates import replays
from tracker.services.estimates.replays import ReplayList

routes = build_routes("comparison", "Two versions of a detector, side by side.")


class ComparisonChoice(Parameters):
    """Which versions to compare, and at which confidence level."""

    old: Text | None = Field(
        default=None,
        description="The old version; by default the one that arrived before new.",
    )
    new: Text | None = Field(
        default=None,
        description="The new version; by default the one of the newest queries.",
    )
    confidence_level: ConfidenceText | None = Field(
        default=None, description="The confidence level; by default the detector's own."
    )
    population: Literal["live", "replayed", "unstated"] | None = Field(
        default=None,
        description="Whose labels count, of either version; by default live and "
        "replayed ones.",
    )


class ReplayChoice(Parameters):
    """Which inputs a new version is to be put to."""

    version: Text | None = Field(
        default=None,
        description="Whose labelled inputs; by default those of the version that is "
        "shown.",
    )
    n: RowLimit = Field(default=300, description="How many of them.")


@routes.get("/detectors/<id>/replay", responses=answers({200: ReplayList}, 404))
@requires("viewer")
def list_replay(path: IdPath, query: ReplayChoice) -> dict[str, Any]:
    """List the inputs to put a new version to: a random part of those labelled.

    They come in the order of their ranks, which know nothing of what was said of them.
    A version that is put to the first of them, without a gap, has a verdict by their
    labels if it was made without these.
    """
    with database().read() as session:
        detector = get_detector(session, path.id)
        found = replays.list_replay(session, detector, version=query.version, n=query.n)
        return found.dump()


@routes.get(
    "/detectors/<id>/comparison",
    responses=answers({200: Comparison}, 404, 409),
)
@requires("viewer")
def compare_versions(path: IdPath, query: ComparisonChoice) -> dict[str, Any]:
    """Compare two versions, by the labels committed so far.

    Queries of the two with the same input are compared as pairs, which tells most.
    The verdict may be looked at after every label; the intervals are for one look.
    """
    choices: dict[str, Any] = dict(query)
    with database().read() as session:
        detector = get_detector(session, path.id)
        return get_comparison(session, detector, computed_at=now(), **choices).dump()
