"""The history of a detector's estimates."""

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.detectors import choose_versions
from tracker.services.estimates import check_method
from tracker.services.fields import BALANCED, dump_instant
from tracker.storage.detectors import Detector
from tracker.storage.labels import iter_label_rows
from tracker.storage.snapshots import iter_intervals

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
)


def iter_history(  # noqa: PLR0913 - every filter that the API offers.
    session: Session,
    detector: Detector,
    *,
    version: str | None = None,
    method: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: tuple[int, int] | None = None,
) -> Iterator[tuple[tuple[int, int], dict[str, Any]]]:
    """Stream the rows of the history in order, each after its place in it.

    A place is (version, sequence); *after* one, the history goes on behind it.
    Version ``*`` gives the history of every version, one after the other; they
    are not pooled.
    """
    if method is not None:
        check_method(method)
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
        }
