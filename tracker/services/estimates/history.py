"""The history of a detector's estimates."""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from itertools import islice
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.estimates.intervals import (
    ALL,
    STORED_METHODS,
    ClassCounts,
    check_method,
    max_snapshots,
    score_moments,
)
from tracker.services.fields import Instant
from tracker.services.versions import choose_versions
from tracker.services.wording import dump_instant
from tracker.shapes import Moment, Shape
from tracker.storage.detectors import Detector
from tracker.storage.estimates.snapshots import iter_intervals, list_intervals_of
from tracker.storage.labelling.labels import iter_label_rows
from tracker.storage.labelling.tags import load_tags
from tracker.storage.where import Condition
from tracker.words import BALANCED, MethodWord, SamplingWord


class _Place(Shape):
    computed_at: Instant
    detector: str = Field(description="The name of the detector.")
    version: str
    labels: int
    scope: str = Field(description="A class, or balanced.")


class HistoryRow(Moment, _Place):
    """One row of a snapshot: a class, or the balanced accuracy."""

    computed_at: Instant
    confidence_level: float
    method: MethodWord
    formula: int = Field(
        description="By which formula of the method it was computed; anytime has had "
        "a second one since it was made narrower for unequal classes."
    )


# The columns of files are fixed; the formula is told in JSON alone.
HISTORY_COLUMNS = tuple(one for one in HistoryRow.model_fields if one != "formula")


class LabelRow(Shape):
    """One label with its query, as an export has it."""

    query: str = Field(description="The id of the query.")
    key: str | None
    version: str
    predicted: str
    confidence: float | None
    asked_at: Instant
    metadata: dict[str, Any] | None
    label: str = Field(description="A class of the detector, or UNCLEAR.")
    sampling: SamplingWord
    note: str | None
    labeler: str
    labelled_at: Instant
    is_current: bool = Field(description="False once another label has replaced it.")
    input: str | None
    is_repeat: bool = Field(
        description="Whether its version was put to the same input before; it is "
        "counted nowhere."
    )
    tags: list[str] = Field(description="What people marked its query with.")


LABEL_COLUMNS = tuple(LabelRow.model_fields)

# After its place in the history: the id of the version, and the snapshot's number.
PlacedRow = tuple[tuple[int, int], HistoryRow]
_SNAPSHOTS_AT_ONCE = 100


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
    rows = iter_intervals(
        session, list(names), method=method, since=since, until=until, after=after
    )
    return (_place(row, detector, names[row.version_id]) for row in rows)


def _place(row: Any, detector: Detector, version: str) -> PlacedRow:
    found = HistoryRow(
        computed_at=row.computed_at,
        detector=detector.name,
        version=version,
        labels=row.labels,
        scope=detector.classes[row.position - 1] if row.position else BALANCED,
        correct=row.correct,
        labelled=row.labelled,
        accuracy=row.accuracy,
        low=row.low,
        high=row.high,
        confidence_level=row.confidence_level,
        method=row.method,
        formula=row.formula,
    )
    return (row.version_id, row.sequence), found


def _recomputed(
    rows: Iterator[PlacedRow], detector: Detector, method: str
) -> Iterator[PlacedRow]:
    """Yield *rows* of the exact method with the bounds of another *method*."""
    size = 1 + len(detector.classes)
    at_once = max_snapshots(method, len(detector.classes), of=_SNAPSHOTS_AT_ONCE)
    while chunk := list(islice(rows, at_once * size)):
        counts = [
            _counts_of([row for _, row in chunk[i : i + size]])
            for i in range(0, len(chunk), size)
        ]
        scores = (one for row in score_moments(counts, method) for one in row)
        for (place, row), one in zip(chunk, scores, strict=True):
            bounds = {"low": one.low, "high": one.high, "method": method, "formula": 1}
            yield place, row.model_copy(update=bounds)


def _counts_of(rows: Sequence[HistoryRow]) -> ClassCounts:
    return ClassCounts(
        rows[0].confidence_level,
        [row.correct for row in rows[1:]],
        [row.labelled for row in rows[1:]],
    )


def list_rows(  # noqa: PLR0913 - what to read, and how.
    session: Session,
    detector: Detector,
    version: str,
    snapshot_ids: Sequence[int],
    *,
    method: str,
    scopes: Sequence[str],
) -> list[PlacedRow]:
    """Return what *method* says of *scopes* in these snapshots of *version*, in order.

    Snapshots for which a method was not stored, because it is costly, are left out.
    """
    is_stored = method in STORED_METHODS
    names = [BALANCED, *detector.classes]
    found = list_intervals_of(
        session,
        snapshot_ids,
        method=method if is_stored else "exact",
        positions=[names.index(scope) for scope in scopes] if is_stored else None,
    )
    placed = [_place(row, detector, version) for row in found]
    if is_stored:
        return placed
    rows = _recomputed(iter(placed), detector, method)
    return [(place, row) for place, row in rows if row.scope in scopes]


def iter_labels(
    session: Session, detector: Detector, conditions: Sequence[Condition] = ()
) -> Iterator[dict[str, Any]]:
    """Stream every label ever given to a query of *detector*, in order.

    Or to those queries that meet all *conditions*.
    """
    tests = [one.test(session) for one in conditions]
    for row in iter_label_rows(session, detector.id, tests):
        yield {
            "query": f"iq_{row.query_id}",
            "key": row.key,
            "version": row.version,
            "predicted": row.predicted,
            "confidence": row.confidence,
            "asked_at": dump_instant(row.asked_at),
            "metadata": None if row.metadata is None else json.loads(row.metadata),
            "label": row.label,
            "sampling": row.sampling,
            "note": row.note,
            "labeler": row.labeler,
            "labelled_at": dump_instant(row.labelled_at),
            "is_current": bool(row.is_current),
            "input": row.input,
            "is_repeat": bool(row.is_repeat),
            "tags": load_tags(row.tags),
        }
