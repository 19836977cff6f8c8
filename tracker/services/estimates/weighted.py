"""Labels that say how many queries each stands for: a ratio, and nothing more."""

import math
from collections.abc import Sequence
from typing import Any, Literal

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.shapes import Shape
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.weighted import count_weights

_SAYS = (
    "a ratio of weights that nobody has checked: it has no interval, nothing is "
    "guaranteed of it, and no verdict rests on it"
)


class Weighted(Shape):
    """What labels come to that were given with a weight."""

    method: Literal["weighted"] = "weighted"
    labels: int = Field(description="The number of labels that have a weight.")
    balanced: float | None = Field(
        description="The mean of the ratios of the classes; null while a class has "
        "none."
    )
    overall: float = Field(
        description="The weight of the labels that were predicted, of that of all."
    )
    classes: dict[str, float] = Field(description="The same by the class of the label.")
    says: str = Field(default=_SAYS, description="What it is worth, in plain words.")


def get_weighted(
    session: Session, detector: Detector, versions: Sequence[Version]
) -> Weighted | None:
    """Return the ratio of the weights of *versions*, None if no label has a weight."""
    rows = count_weights(session, detector.id, [one.id for one in versions])
    if not rows:
        return None
    names = [name for name in detector.classes if any(x.label == name for x in rows)]
    classes = {
        name: _ratio([row for row in rows if row.label == name]) for name in names
    }
    is_whole = len(classes) == len(detector.classes)
    return Weighted(
        labels=sum(row.labels for row in rows),
        balanced=math.fsum(classes.values()) / len(classes) if is_whole else None,
        overall=_ratio(rows),
        classes=classes,
    )


def _ratio(rows: Sequence[Any]) -> float:
    # Sums that are rounded once have the same bits in any order.
    weight = math.fsum(row.weight * row.labels for row in rows)
    right = math.fsum(row.weight * row.labels for row in rows if row.is_right)
    return right / weight
