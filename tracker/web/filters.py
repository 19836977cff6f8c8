"""Finding queries by their labels and predictions without looking at the others."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.detectors import choose_versions
from tracker.services.estimates import current_counts
from tracker.services.fields import UNCLEAR
from tracker.storage.detectors import Detector, Version
from tracker.storage.queries import Query, list_queries

STATES = ("unlabelled", "labelled", "wrong", "right", "disputed")
# Beyond so many combinations their queries are so common that a walk from the
# newest one meets them soon.
_MOST_SEEKS = 64


@dataclass(frozen=True, slots=True)
class Filter:
    """What a visitor wants to see; "" stands for anything."""

    show: str = ""
    predicted: str = ""
    label: str = ""
    version: str = ""

    @classmethod
    def parse(cls, asked: Mapping[str, str]) -> "Filter":
        """Return what an address asks for."""
        show = asked.get("show", "")
        return cls(
            show if show in STATES else "",
            asked.get("predicted", ""),
            asked.get("label", ""),
            asked.get("version", ""),
        )

    @property
    def takes_unlabelled(self) -> bool:
        """Whether queries without a label pass."""
        return self.show in ("", "unlabelled") and not self.label

    def takes(self, label: str, predicted: str) -> bool:
        """Return whether queries with that label and prediction pass."""
        if self.show == "unlabelled":
            return False
        if self.label not in ("", label) or self.predicted not in ("", predicted):
            return False
        if self.show in ("wrong", "right"):
            is_right = label == predicted
            return label != UNCLEAR and is_right == (self.show == "right")
        return True


def find_queries(
    session: Session,
    detector: Detector,
    wanted: Filter,
    *,
    before: int | None,
    limit: int,
) -> Sequence[Query]:
    """Return the queries that pass the filter, the newest first.

    The running counts tell which combinations of label and prediction there are,
    and an index leads to the queries of each: a walk from the newest query might
    meet nothing for a million queries.
    """
    versions = choose_versions(session, detector, wanted.version or "*")
    more: dict[str, Any] = {"before": before, "limit": limit}
    if wanted.version not in ("", "*"):
        more["version_id"] = versions[0].id
    found = [
        list_queries(session, detector.id, **seek, **more)
        for seek in _choose_seeks(session, detector, wanted, versions)
    ]
    return sorted(chain(*found), key=lambda query: -query.id)[:limit]


def _choose_seeks(
    session: Session, detector: Detector, wanted: Filter, versions: Sequence[Version]
) -> list[dict[str, Any]]:
    """Return the arguments of lists that together hold what passes, nothing twice."""
    walk = _walk(wanted)
    is_disputed = wanted.show == "disputed"
    if (
        not walk
        or is_disputed
        or wanted == Filter(show="unlabelled", version=wanted.version)
    ):
        return [walk]
    counts = current_counts(session, detector, [version.id for version in versions])
    combinations = {
        (cell.label, cell.predicted)
        for cells in counts.values()
        for cell, number in cells.items()
        if number and wanted.takes(cell.label, cell.predicted)
    }
    if len(combinations) > _MOST_SEEKS:
        return [walk]
    seeks: list[dict[str, Any]] = [
        {"label": label, "predicted": predicted} for label, predicted in combinations
    ]
    if wanted.takes_unlabelled:
        seeks.append({"labelled": False, "predicted": wanted.predicted or None})
    return seeks


def _walk(wanted: Filter) -> dict[str, Any]:
    states: dict[str, dict[str, Any]] = {
        "labelled": {"labelled": True},
        "unlabelled": {"labelled": False},
        "wrong": {"is_wrong": True},
        "right": {"is_wrong": False},
        "disputed": {"agreement": "disputed"},
    }
    named = {"predicted": wanted.predicted, "label": wanted.label}
    return states.get(wanted.show, {}) | {k: v for k, v in named.items() if v}
