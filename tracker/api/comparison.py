"""Whether a new version of a detector is better than an old one."""

from typing import Any

from pydantic import Field

from tracker.api.parameters import DetectorPath, LevelText, Parameters, Text
from tracker.api.routes import answers, build_routes
from tracker.api.shapes import Shape
from tracker.http import database, now, requires
from tracker.services import comparison as services
from tracker.services.detectors import get_detector
from tracker.services.estimates import ScopeEstimate
from tracker.services.fields import Instant
from tracker.storage.base import dump_id

routes = build_routes("comparison", "Two versions of a detector, side by side.")


class Change(Shape):
    """How much higher the accuracy of the new version is."""

    difference: float | None = Field(description="null where it is not known.")
    low: float
    high: float


class PairedChange(Change):
    """The change of one class, counted on the inputs that both versions were given."""

    name: str = Field(serialization_alias="class")
    pairs: int = Field(description="Inputs with this label.")
    gained: int = Field(description="Only the new version was right.")
    lost: int = Field(description="Only the old version was right.")
    p_value: float = Field(description="McNemar's exact test of no difference.")


class Paired(Shape):
    """What the inputs say that both versions were given."""

    method: str = Field(description="exact, or box where that would take too long.")
    pairs: int
    disagreeing: int = Field(
        description="Inputs left out because the labels of their queries differ."
    )
    classes: list[PairedChange]
    balanced: Change


class ClassCount(Shape):
    """The accuracy of one class: correct / labelled."""

    correct: int
    labelled: int
    accuracy: float | None = Field(description="null without a label of this class.")


class UnpairedChange(Change):
    """The change of one class, from the labels of each version by itself."""

    name: str = Field(serialization_alias="class")
    old: ClassCount
    new: ClassCount


class Unpaired(Shape):
    """What the labels say if the queries of the versions are taken as different."""

    method: str
    classes: list[UnpairedChange]
    balanced: Change


class Comparison(Shape):
    """Whether a new version is better than an old one, and how sure that is."""

    detector: str = Field(description="The id of the detector.")
    name: str = Field(description="The name of the detector.")
    old: str
    new: str
    computed_at: Instant
    confidence_level: float
    paired: Paired | None = Field(description="null without a pair.")
    unpaired: Unpaired
    verdict: str = Field(description="better, worse or undecided.")
    verdict_from: str = Field(
        description="paired where each class has a pair, otherwise unpaired."
    )


class ComparisonChoice(Parameters):
    """Which versions are compared, and how sure it shall be."""

    old: Text | None = Field(
        default=None, description="The one that arrived before new unless given."
    )
    new: Text | None = Field(
        default=None,
        description="The one that queries last arrived with unless given.",
    )
    confidence_level: LevelText | None = Field(
        default=None, description="The detector's own unless given."
    )


@routes.get(
    "/detectors/<detector:id>/comparison",
    responses=answers({200: Comparison}, 404, 409),
)
@requires("viewer")
def compare_versions(path: DetectorPath, query: ComparisonChoice) -> dict[str, Any]:
    """Compare two versions, by the labels committed so far.

    Queries of the two with the same input are compared as pairs, which tells most.
    The intervals are to be looked at once.
    """
    choices: dict[str, Any] = dict(query)
    with database().read() as session:
        detector = get_detector(session, path.id)
        return dump_comparison(
            services.get_comparison(session, detector, computed_at=now(), **choices)
        )


def dump_comparison(comparison: services.Comparison) -> dict[str, Any]:
    """Return two versions side by side as JSON."""
    paired = comparison.paired
    shape = Comparison(
        detector=dump_id("det", comparison.detector.id),
        name=comparison.detector.name,
        old=comparison.old,
        new=comparison.new,
        computed_at=comparison.computed_at,
        confidence_level=comparison.confidence_level,
        paired=None if paired is None else _shape_paired(paired),
        unpaired=_shape_unpaired(comparison.unpaired),
        verdict=comparison.verdict,
        verdict_from=comparison.verdict_from,
    )
    return shape.model_dump(mode="json", by_alias=True)


def _shape_paired(paired: services.Paired) -> Paired:
    return Paired(
        method=paired.method,
        pairs=paired.pairs,
        disagreeing=paired.disagreeing,
        classes=[
            PairedChange(
                name=one.scope,
                pairs=one.pairs,
                gained=one.gained,
                lost=one.lost,
                difference=one.difference,
                low=one.low,
                high=one.high,
                p_value=one.p_value,
            )
            for one in paired.classes
        ],
        balanced=_shape_change(paired.balanced),
    )


def _shape_unpaired(unpaired: services.Unpaired) -> Unpaired:
    scopes = zip(
        unpaired.classes, unpaired.old.classes, unpaired.new.classes, strict=True
    )
    return Unpaired(
        method=unpaired.method,
        classes=[
            UnpairedChange(
                name=one.scope,
                old=_shape_count(old),
                new=_shape_count(new),
                difference=one.difference,
                low=one.low,
                high=one.high,
            )
            for one, old, new in scopes
        ],
        balanced=_shape_change(unpaired.balanced),
    )


def _shape_change(change: services.Change) -> Change:
    return Change(difference=change.difference, low=change.low, high=change.high)


def _shape_count(scope: ScopeEstimate) -> ClassCount:
    return ClassCount(
        correct=scope.correct, labelled=scope.labelled, accuracy=scope.accuracy
    )
