"""The parts of a detector's queries with their counts, as they are cut."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta

from sqlalchemy.orm import Session

from tracker.services.estimates.counts import current_counts
from tracker.services.estimates.slices.slice_counts import as_evidence
from tracker.services.estimates.slices.slice_values import OTHER
from tracker.services.evidence.populations import LIVE, standings_of
from tracker.stats import SliceEvidence
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts
from tracker.storage.estimates.slices import (
    CutCounts,
    count_cut,
    list_counted,
    list_slices,
)

METADATA = "metadata."
_CUTS = {"version": "version_id", "predicted": "predicted", "week": "asked_at"}
BUILT_IN = tuple(_CUTS)


@dataclass(frozen=True, slots=True)
class Part:
    """A slice as it was counted."""

    value: str
    queries: int
    # By class: right, labelled.
    counts: Mapping[str, Sequence[int]]
    where: str | None
    evidence: SliceEvidence | None = None


def read_parts(
    session: Session, detector: Detector, versions: Sequence[Version], by: str
) -> list[Part]:
    """Return the slices of *versions* as they were counted, in order."""
    if not versions:
        return []
    live = standings_of(LIVE, detector.label_sampling)
    if by.startswith(METADATA):
        name = by.removeprefix(METADATA)
        if name not in list_counted(detector):
            return []
        return [
            Part(
                row.key,
                row.state["queries"],
                _by_class(Counts.load(row.state["counts"]).select(live).confusion),
                None if row.key in ("", OTHER) else f"{by}:{row.key}",
                as_evidence(row.state, live),
            )
            for row in list_slices(session, versions[0], name)
        ]
    if by == "version":
        return _cut_by_version(session, detector, versions)
    found = count_cut(session, detector.id, [versions[0].id], _CUTS[by], live)
    if by == "week":
        found = _join_weeks(found)
        return [
            Part(value, one.queries, _by_class(one.cells), _week_condition(value))
            for value, one in sorted(found.items())
        ]
    return [
        Part(value, one.queries, _by_class(one.cells), f"predicted:{value}")
        for value, one in sorted(found.items())
    ]


def _cut_by_version(
    session: Session, detector: Detector, versions: Sequence[Version]
) -> list[Part]:
    counts = current_counts(session, versions)
    live = standings_of(LIVE, detector.label_sampling)
    return [
        Part(
            version.name,
            version.queries,
            _by_class(counts[version.id].select(live).confusion),
            f"version:{version.name}",
        )
        for version in versions
    ]


def _by_class(cells: Mapping[tuple[str, str], int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for (label, predicted), number in cells.items():
        pair = found.setdefault(label, [0, 0])
        pair[0] += number * (label == predicted)
        pair[1] += number
    return found


def _join_weeks(days: Mapping[str, CutCounts]) -> dict[str, CutCounts]:
    weeks: dict[str, CutCounts] = {}
    for text, one in days.items():
        day = date.fromisoformat(text)
        monday = (day - timedelta(days=day.weekday())).isoformat()
        queries, cells = weeks.get(monday, CutCounts(0, {}))
        for cell, number in one.cells.items():
            cells[cell] = cells.get(cell, 0) + number
        weeks[monday] = CutCounts(queries + one.queries, cells)
    return weeks


def _week_condition(monday: str) -> str:
    sunday = date.fromisoformat(monday) + timedelta(days=6)
    return f"asked_at:{monday}..{sunday.isoformat()}"
