"""Which version answers the queries that are new to a detector, hour by hour."""

from collections.abc import Collection, Mapping
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import and_, bindparam, case, func, select, update
from sqlalchemy.orm import Session, aliased

from tracker.storage.detectors import Detector, Version
from tracker.storage.dialect import hour_of
from tracker.storage.estimates.counts import of_pending
from tracker.storage.estimates.pending import END, Pending
from tracker.storage.queries.queries import Query


class HourCount(NamedTuple):
    """Queries of a version that were asked in an hour, and how many were new."""

    detector_id: int
    version_id: int
    hour: str
    queries: int
    new: int


class Stored(NamedTuple):
    """What is kept of the traffic of a detector."""

    version_id: int | None
    since: datetime | None
    # By hour and version the new queries: [["2026-01-31 09", {"7": 120}], …].
    hours: list[Any]


def count_hours(
    session: Session, batches: Pending, *, until: int | None = None
) -> list[HourCount]:
    """Count the queries of pending *batches* by version and hour.

    Or those whose ids are below *until*.  A query is new to its detector unless
    another version was put to its input before.  A query that says it is from the
    future counts in the hour in which it arrived.
    """
    other = aliased(Query)
    was_put_before = (
        select(other.id)
        .where(
            other.detector_id == Query.detector_id,
            other.input == Query.input,
            other.version_id != Query.version_id,
            other.id < Query.id,
        )
        .exists()
    )
    # Of a detector with one version nothing has to be looked up.
    has_others = Query.detector_id.in_(_list_versioned(session, batches))
    is_new = case((and_(has_others, was_put_before), 0), else_=1)
    each = select(
        Query.detector_id,
        Query.version_id,
        hour_of(session, Query.asked_at, Query.created_at).label("hour"),
        is_new.label("is_new"),
    )
    rows = of_pending(each, Query, batches)
    found = rows.where(Query.id + 0 < (END if until is None else until)).subquery()
    place = (found.c.detector_id, found.c.version_id, found.c.hour)
    statement = select(*place, func.count(), func.sum(found.c.is_new)).group_by(*place)
    return [HourCount(*row) for row in session.execute(statement)]


def _list_versioned(session: Session, detector_ids: Collection[int]) -> list[int]:
    """Return the detectors that have more than one version."""
    statement = (
        select(Version.detector_id)
        .where(Version.detector_id.in_(detector_ids))
        .group_by(Version.detector_id)
        .having(func.count() > 1)
    )
    return [*session.scalars(statement)]


def load_traffic(session: Session, detector_ids: Collection[int]) -> dict[int, Stored]:
    statement = select(
        Detector.id, Detector.shown_version_id, Detector.shown_since, Detector.traffic
    ).where(Detector.id.in_(detector_ids))
    return {row[0]: Stored(*row[1:]) for row in session.execute(statement)}


def store_traffic(session: Session, found: Mapping[int, Stored | None]) -> None:
    """Keep the traffic of detectors, of those where there was any."""
    table: Any = Detector.__table__
    statement = update(table).where(table.c.id == bindparam("detector_id"))
    values = [
        {
            "detector_id": detector_id,
            "shown_version_id": one.version_id,
            "shown_since": one.since,
            "traffic": one.hours,
        }
        for detector_id, one in found.items()
        if one is not None
    ]
    if values:
        session.connection().execute(statement, values)
