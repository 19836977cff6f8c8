"""Queries that wait for their prediction, of which no accuracy knows yet."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    ColumnElement,
    Text,
    UniqueConstraint,
    bindparam,
    cast,
    func,
    select,
    union_all,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage import base
from tracker.storage.detectors import Detector
from tracker.storage.queries.finding import has_key
from tracker.storage.queries.lookup import listed
from tracker.storage.queries.queries import Query
from tracker.storage.tasks import PREDICTION, withdraw


class WaitingQuery(base.Base):
    """An input of which nobody has said yet what the detector makes of it.

    Its id is the one that the query keeps once it has a prediction; until then its
    batch is not pending, so that the job has nothing to count.
    """

    __tablename__ = "waiting_queries"
    __table_args__ = (UniqueConstraint("detector_id", "key"),)

    detector_id: Mapped[int] = base.owner("detectors")
    id: Mapped[int] = mapped_column(base.BigId, primary_key=True)
    key: Mapped[str | None] = mapped_column(base.Name)
    input: Mapped[str | None] = mapped_column(base.Name)
    group: Mapped[str | None] = mapped_column(base.Name)
    version: Mapped[str] = mapped_column(base.Name)
    asked_at: Mapped[datetime]
    created_at: Mapped[datetime]
    details: Mapped[str | None] = mapped_column("metadata", Text)
    image: Mapped[str | None] = mapped_column(Text)
    image_url: Mapped[str | None] = mapped_column(Text)
    # Each an object of label, labeler and labelled_at, the oldest first.
    labels: Mapped[list[dict[str, Any]]] = mapped_column(JSON)
    # What was wrong when its predictor was asked the last time.
    problem: Mapped[str | None] = mapped_column(Text)


_KINDS: tuple[type[Query | WaitingQuery], ...] = (Query, WaitingQuery)


def find_waiting(session: Session, query_id: int) -> WaitingQuery | None:
    return base.find_by_id(session, WaitingQuery, query_id)


def find_waiting_by_keys(
    session: Session, detector_id: int, keys: Sequence[str], *, lock: bool = False
) -> dict[str, WaitingQuery]:
    """Return the waiting queries with these keys, in the order of their ids."""
    if not count_waiting(session, detector_id):
        return {}
    statement = select(WaitingQuery).where(
        WaitingQuery.detector_id == detector_id,
        WaitingQuery.key.in_(listed(session, keys)),
    )
    if lock:
        statement = statement.with_for_update()
    found = session.scalars(statement.order_by(WaitingQuery.id))
    return {one.key: one for one in found if one.key is not None}


# Built once: every list of queries asks this.
_NUMBER = select(func.count()).where(
    WaitingQuery.detector_id == bindparam("detector_id")
)


def count_waiting(session: Session, detector_id: int, key: str | None = None) -> int:
    statement = _NUMBER if key is None else _NUMBER.where(*_named(key))
    return session.scalar(statement, {"detector_id": detector_id}) or 0


def list_asked_detectors(session: Session) -> Sequence[int]:
    statement = select(Detector.id).where(
        Detector.predictor.is_not(None), Detector.archived_at.is_(None)
    )
    return session.scalars(statement.order_by(Detector.id)).all()


_HAS_NO_LABEL = cast(WaitingQuery.labels, Text) == "[]"


def list_unlabelled(
    session: Session, *, before: datetime, limit: int
) -> Sequence[tuple[int, int]]:
    """Return detector and id of some queries from before an instant without a label."""
    statement = select(WaitingQuery.detector_id, WaitingQuery.id).where(
        WaitingQuery.created_at < before, _HAS_NO_LABEL
    )
    return [(*row,) for row in session.execute(statement.limit(limit))]


def delete_old_waiting(
    session: Session, detector_id: int, query_ids: Collection[int]
) -> int:
    """Delete the unlabelled and unlocked of these queries, and count them."""
    own = WaitingQuery.detector_id == detector_id
    old = select(WaitingQuery.id).where(
        own, WaitingQuery.id.in_(query_ids), _HAS_NO_LABEL
    )
    found = session.scalars(old.with_for_update(skip_locked=True)).all()
    base.delete_rows(session, WaitingQuery, own, WaitingQuery.id.in_(found))
    withdraw(session, PREDICTION, *map(str, found))
    return len(found)


def list_waiting(
    session: Session,
    detector_id: int,
    *,
    before: int | None,
    limit: int,
    key: str | None = None,
) -> Sequence[WaitingQuery]:
    own = [WaitingQuery.detector_id == detector_id, *_named(key)]
    return base.list_newest(session, WaitingQuery, *own, before=before, limit=limit)


def _named(key: str | None) -> list[ColumnElement[bool]]:
    return [] if key is None else has_key(key, WaitingQuery.key)


def list_page(
    session: Session, detector_ids: Sequence[int], *, offset: int, limit: int
) -> tuple[int, list[Query | WaitingQuery]]:
    """Return how many queries some detectors have, also waiting, and the newest."""
    theirs = [(kind, kind.detector_id.in_(detector_ids)) for kind in _KINDS]
    count = sum(base.count_rows(session, kind, are) for kind, are in theirs)
    every = union_all(*(select(kind.id).where(are) for kind, are in theirs)).subquery()
    chosen = select(every.c.id).order_by(every.c.id.desc()).offset(offset).limit(limit)
    ids = session.scalars(chosen).all()
    found: list[Query | WaitingQuery] = []
    for kind, are in theirs:
        found += base.list_rows(session, kind, are, kind.id.in_(ids))
    return count, sorted(found, key=lambda row: row.id, reverse=True)


def has_image(session: Session, name: str) -> bool:
    some = (select(kind.id).where(kind.image == name).limit(1) for kind in _KINDS)
    return any(session.scalar(one) is not None for one in some)
