"""The history of a detector's estimates."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple
from datetime import datetime
from itertools import chain, islice
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from tracker.services.detectors import choose_versions
from tracker.services.estimates import (
    ALL,
    STORED_METHODS,
    Counts,
    check_method,
    estimate_moments,
    most_moments,
)
from tracker.services.fields import BALANCED, dump_instant
from tracker.storage.detectors import Detector
from tracker.storage.labels import iter_label_rows
from tracker.storage.snapshots import iter_intervals, list_intervals_of

HISTORY_COLUMNS = (
    "computed_at",
    "detector",
    "version",
    "labels",
    "scope",
    "correct",
    "labelled",
    "accuracy",
    "low",
    "high",
    "confidence_level",
    "method",
)
LABEL_COLUMNS = (
    "query",
    "key",
    "version",
    "predicted",
    "confidence",
    "asked_at",
    "label",
    "sampling",
    "note",
    "labeler",
    "labelled_at",
    "is_current",
    "input",
)

PlacedRow = tuple[tuple[int, int], dict[str, Any]]
_SNAPSHOTS_AT_ONCE = 100


class Reading(NamedTuple):
    """One row of a snapshot as a chart or a table shows it."""

    sequence: int
    computed_at: datetime
    labels: int
    position: int
    correct: int
    labelled: int
    accuracy: float | None
    low: float
    high: float


def iter_history(  # noqa: PLR0913 - every filter that the API offers.
    session: Session,
    detector: Detector,
    *,
    version: str | None = None,
    method: str = "exact",
    since: datetime | None = None,
    until: datetime | None = None,
    after: tuple[int, int] | None = None,
) -> Iterator[PlacedRow]:
    """Stream the rows of the history in order, each after its place in it.

    A place is (version, sequence); *after* one, the history goes on behind it.
    Version ``*`` gives the history of every version, one after the other; they
    are not pooled.  Method ``*`` gives every one that was stored, and one that was
    not is computed from the stored counts.
    """
    check_method(method, or_all=True)
    is_stored = method in (*STORED_METHODS, ALL)
    rows = _iter_stored(
        session,
        detector,
        version=version,
        method=None if method == ALL else method if is_stored else "exact",
        since=since,
        until=until,
        after=after,
    )
    return rows if is_stored else _recomputed(rows, detector, method)


def _iter_stored(  # noqa: PLR0913 - every filter that the API offers.
    session: Session,
    detector: Detector,
    *,
    version: str | None,
    method: str | None,
    since: datetime | None,
    until: datetime | None,
    after: tuple[int, int] | None,
) -> Iterator[PlacedRow]:
    versions = choose_versions(session, detector, version)
    names = {chosen.id: chosen.name for chosen in versions}
    scopes = [BALANCED, *detector.classes]
    rows = iter_intervals(
        session, list(names), method=method, since=since, until=until, after=after
    )
    for row in rows:
        yield (
            (row.version_id, row.sequence),
            {
                "computed_at": dump_instant(row.computed_at),
                "detector": detector.name,
                "version": names[row.version_id],
                "labels": row.labels,
                "scope": scopes[row.position],
                "correct": row.correct,
                "labelled": row.labelled,
                "accuracy": row.accuracy,
                "low": row.low,
                "high": row.high,
                "confidence_level": row.confidence_level,
                "method": row.method,
            },
        )


def _recomputed(
    rows: Iterator[PlacedRow], detector: Detector, method: str
) -> Iterator[PlacedRow]:
    """Yield *rows* of the exact method with the bounds of another *method*."""
    size = 1 + len(detector.classes)
    at_once = most_moments(method, len(detector.classes), of=_SNAPSHOTS_AT_ONCE)
    while chunk := list(islice(rows, at_once * size)):
        counts = [
            _counts_of([row for _, row in chunk[i : i + size]])
            for i in range(0, len(chunk), size)
        ]
        scopes = chain.from_iterable(estimate_moments(detector, counts, method))
        for (place, row), scope in zip(chunk, scopes, strict=True):
            bounds = {"low": scope.low, "high": scope.high, "method": method}
            yield place, row | bounds


def _counts_of(rows: Sequence[Mapping[str, Any]]) -> Counts:
    return Counts(
        rows[0]["confidence_level"],
        [row["correct"] for row in rows[1:]],
        [row["labelled"] for row in rows[1:]],
    )


def list_readings(
    session: Session,
    detector: Detector,
    snapshot_ids: Sequence[int],
    *,
    method: str,
    positions: Sequence[int],
) -> list[Reading]:
    """Return what *method* says of these snapshots, in order.

    The *positions* are 0 for the balanced accuracy, then the classes from 1.
    Snapshots for which a method was not stored, because it is costly, are left out.
    """
    is_stored = method in STORED_METHODS
    rows = list_intervals_of(
        session,
        snapshot_ids,
        method=method if is_stored else "exact",
        positions=positions if is_stored else None,
    )
    if is_stored:
        return [
            Reading(*(getattr(row, name) for name in Reading._fields)) for row in rows
        ]
    size = 1 + len(detector.classes)
    groups = [rows[i : i + size] for i in range(0, len(rows), size)]
    counts = [_counts_of([row._mapping for row in group]) for group in groups]
    estimates = estimate_moments(detector, counts, method)
    return [
        Reading(
            row.sequence, row.computed_at, row.labels, row.position, *astuple(scope)[1:]
        )
        for group, scopes in zip(groups, estimates, strict=True)
        for row, scope in zip(group, scopes, strict=True)
        if row.position in positions
    ]


def iter_labels(session: Session, detector: Detector) -> Iterator[dict[str, Any]]:
    """Stream every label ever given to a query of *detector*, in order."""
    for row in iter_label_rows(session, detector.id):
        yield {
            "query": f"iq_{row.query_id}",
            "key": row.key,
            "version": row.version,
            "predicted": row.predicted,
            "confidence": row.confidence,
            "asked_at": dump_instant(row.asked_at),
            "label": row.label,
            "sampling": row.sampling,
            "note": row.note,
            "labeler": row.labeler,
            "labelled_at": dump_instant(row.labelled_at),
            "is_current": bool(row.is_current),
            "input": row.input,
        }
