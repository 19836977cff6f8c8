"""The recount: every label is replayed and compared with what is kept."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from sqlalchemy.orm import Session

from tracker.services.estimates.fold import replay
from tracker.services.estimates.projections import (
    Cells,
    Confidences,
    Days,
    Known,
    Place,
    Projection,
    name_counts,
)
from tracker.services.estimates.slice_counts import SliceCounts
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.estimates import counts as storage
from tracker.storage.estimates.cells import Counts, pool
from tracker.storage.estimates.projections import Kept, list_all_projections
from tracker.storage.estimates.slices import list_counted
from tracker.storage.estimates.thresholds import count_confidences

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
        found += _compare(
            version,
            _list_numbers(kept.get(version.id, {})),
            _list_numbers(replayed.dump()),
        )
        parts = [replayed.of(Cells).counts, waiting.get(version.id, Counts())]
        found += _compare(
            version,
            _without_corrections(pool(parts)),
            _without_corrections(current.get(version.id, Counts())),
        )
        bins = count_confidences(session, detector.id, [version.id], frozenset())
        known = logged[version.id], sum(one.queries for one in bins)
        names = ("queries", "queries with a confidence")
        counted = queries.get(version.id, (0, 0))
        found += _compare(
            version,
            dict(zip(names, known, strict=True)),
            dict(zip(names, counted, strict=True)),
        )
    return found


def _list_numbers(rows: Mapping[Place, Kept]) -> dict[str, int]:
    numbers: dict[str, int] = {}
    for kind in _KINDS:
        for place, kept in rows.items():
            numbers |= kind.numbers(place, kept)
    return numbers


def _without_corrections(counts: Counts) -> dict[str, int]:
    numbers = name_counts(counts)
    del numbers["corrections"]
    return {f"{what}, by the current labels": one for what, one in numbers.items()}


def _compare(
    version: Version, running: Mapping[str, int], recounted: Mapping[str, int]
) -> Iterator[Difference]:
    for what in sorted(running.keys() | recounted.keys()):
        numbers = running.get(what, 0), recounted.get(what, 0)
        if numbers[0] != numbers[1]:
            yield Difference(version.name, what, *numbers)
