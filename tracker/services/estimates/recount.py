"""The recount: every label is replayed and compared with what is kept."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.estimates.fold import replay
from tracker.services.estimates.projections import (
    Cells,
    Confidences,
    Days,
    Known,
    Place,
    Projection,
)
from tracker.services.estimates.slice_counts import SliceCounts
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.estimates import counts as storage
from tracker.storage.estimates.cells import STEPS, Counts, pool
from tracker.storage.estimates.projections import (
    CELLS,
    DAYS,
    KNOWN,
    Kept,
    list_all_projections,
)
from tracker.storage.estimates.slices import list_counted
from tracker.storage.estimates.thresholds import CONFIDENCES, Bins, count_confidences

_KINDS: tuple[type[Projection], ...] = (Cells, Days, Known, Confidences, SliceCounts)


@dataclass(frozen=True, slots=True)
class Difference:
    """A number that is kept and that a recount contradicts."""

    version: str
    # What was counted.
    what: str
    running: int
    recounted: int


def recount(session: Session, detector: Detector) -> list[Difference]:
    """Replay every label of *detector* and return where the kept counts differ.

    With the labels that wait the replay must also meet the current label of each query.
    """
    versions = list_versions(session, detector.id)
    fold = replay(session, detector, _KINDS, list_counted(detector))
    kept = list_all_projections(session, detector.id)
    waiting = storage.count_pending_labels(session, [detector.id])
    current = storage.count_window(session, detector.id, since=None, until=None)
    logged = storage.count_logged(session, versions)
    queries = storage.recount_queries(session, detector.id)
    found: list[Difference] = []
    for version in versions:
        replayed = fold.of_version(version.id)
        parts = [replayed.of(Cells).counts, waiting.get(version.id, Counts())]
        bins = count_confidences(session, detector.id, [version.id], frozenset())
        known = logged[version.id], sum(one.queries for one in bins)
        names = ("queries", "queries with a confidence")
        counted = queries.get(version.id, (0, 0))
        for running, recounted in (
            (_list_numbers(kept.get(version.id, {})), _list_numbers(replayed.dump())),
            [
                {
                    f"{what}, by the current labels": number
                    for what, number in _name_counts(one).items()
                    if what != "corrections"
                }
                for one in (pool(parts), current.get(version.id, Counts()))
            ],
            (
                dict(zip(names, known, strict=True)),
                dict(zip(names, counted, strict=True)),
            ),
        ):
            for what in sorted(running.keys() | recounted.keys()):
                numbers = running.get(what, 0), recounted.get(what, 0)
                if numbers[0] != numbers[1]:
                    found.append(Difference(version.name, what, *numbers))
    return found


def _list_numbers(rows: Mapping[Place, Kept]) -> dict[str, int]:
    """Return every number that is kept under words for it."""
    numbers: dict[str, int] = {}
    for (name, key), kept in rows.items():
        states: dict[str, Any] = {}
        if name in {CELLS, DAYS}:
            states["" if name == CELLS else f", asked on {key}"] = kept.state
        elif name == KNOWN:
            for day, state in kept.state["days"].items():
                states[f", asked on {day}, known since {key}"] = state
        elif name == CONFIDENCES:
            for step, one in Bins.load(kept.state).items():
                at = f"labels at a confidence of {step / STEPS:g}"
                for standing, (correct, labels) in one.labels.items():
                    numbers[f"{standing} {at}, correct"] = correct
                    numbers[f"{standing} {at}, in all"] = labels
        for which, state in states.items():
            for what, number in _name_counts(Counts.load(state)).items():
                numbers[f"{what}{which}"] = number
        numbers |= SliceCounts.numbers((name, key), kept)
    return numbers


def _name_counts(counts: Counts) -> dict[str, int]:
    numbers = {
        f"{cell.standing} label {cell.label}, predicted {cell.predicted}": number
        for cell, number in counts.cells.items()
    }
    return numbers | {"corrections": counts.corrections}
