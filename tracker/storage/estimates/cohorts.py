"""When queries were asked, and how long their labels took."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import bindparam, func, select
from sqlalchemy.orm import Session

from tracker.storage.base import on_postgresql, stream
from tracker.storage.dialect import day_of
from tracker.storage.labels import Label, is_of_query
from tracker.storage.queries.queries import Query

# A label that a query took over by its input did not come: it was there.
_OWN = ~Query.is_replayed & ~Query.is_repeat


def count_days(
    session: Session, detector_id: int, version_ids: Sequence[int], *, since: datetime
) -> list[tuple[str, str, int, int]]:
    """Return day, predicted class, queries asked, and how many of them have a label."""
    day = day_of(session, Query.asked_at).label("day")
    statement = (
        select(day, Query.predicted, func.count(), func.count(Query.label_id))
        .where(Query.detector_id == detector_id, Query.version_id.in_(version_ids))
        .where(Query.asked_at >= since, _OWN)
        .group_by(day, Query.predicted)
    )
    rows = session.execute(statement)
    return [(found, name, asked, labelled) for found, name, asked, labelled in rows]


# Built once: each page of a history asks for this.
_DELAYS = (
    select(Query.asked_at, Query.predicted, Label.labelled_at)
    .select_from(Label)
    .join(Query, is_of_query())
    .where(
        Query.detector_id == bindparam("detector_id"),
        Query.version_id.in_(bindparam("ids", expanding=True)),
        on_postgresql(Label.detector_id == bindparam("detector_id")),
        Query.asked_at >= bindparam("since"),
        Label.replaces_id.is_(None),
        _OWN,
    )
)


def iter_delays(
    session: Session, detector_id: int, version_ids: Sequence[int], *, since: datetime
) -> Iterator[Any]:
    chosen = {"detector_id": detector_id, "ids": tuple(version_ids), "since": since}
    return stream(session, _DELAYS, chosen)
