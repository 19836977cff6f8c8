"""Labels: append-only, the newest of a query is its current one."""

from collections.abc import Generator, Iterator, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    ForeignKeyConstraint,
    Index,
    Text,
    and_,
    func,
    select,
)
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId, Name, for_partitions, insert_rows, stream
from tracker.storage.detectors import Version
from tracker.storage.pending import PendingBatch, belongs_to, lies_among
from tracker.storage.queries import Query

# They are read within some milliseconds, each time that a labeler's page asks.
MOST_LOOKED_AT = 10_000


class Label(Base):
    """The class that a trusted person or source gave to a query."""

    __tablename__ = "labels"
    __table_args__ = (
        ForeignKeyConstraint(
            ["query_id", "detector_id"], [Query.id, Query.detector_id]
        ),
        Index(None, "query_id"),
        CheckConstraint(
            "sampling IN ('random', 'targeted', 'unstated')", name="sampling"
        ),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    query_id: Mapped[int] = mapped_column(BigId)
    # That of the query: it says in which partition the label lies on PostgreSQL.
    detector_id: Mapped[int] = mapped_column(BigId)
    # The label that was current before this one.
    replaces_id: Mapped[int | None] = mapped_column(BigId)
    label: Mapped[str] = mapped_column(Name)
    sampling: Mapped[str] = mapped_column(Text)
    note: Mapped[str | None] = mapped_column(Text)
    labeler: Mapped[str] = mapped_column(Text)
    labelled_at: Mapped[datetime]
    created_at: Mapped[datetime]


def add_labels(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Insert labels from mappings of every column."""
    insert_rows(session, Label, rows)


def list_labels(session: Session, query: Query) -> Sequence[Label]:
    """Return every label ever given to *query*, the newest first."""
    statement = (
        select(Label)
        .where(Label.query_id == query.id, Label.detector_id == query.detector_id)
        .order_by(Label.id.desc())
    )
    return session.scalars(statement).all()


def is_of_query() -> ColumnElement[bool]:
    """Return the condition that a label was given to the query beside it."""
    is_near = for_partitions(Label.detector_id == Query.detector_id)
    return and_(Label.query_id == Query.id, is_near)


def is_replaced(old: Any) -> ColumnElement[bool]:
    """Return the condition that a label replaces the *old* one beside it."""
    is_near = for_partitions(old.detector_id == Label.detector_id)
    return and_(old.id == Label.replaces_id, is_near)


def count_since(
    session: Session, detector_id: int, labeler: str, *, since: datetime
) -> tuple[int, int, bool]:
    """Return how many labels a detector was given, by *labeler* and by all.

    Only the newest of all detectors are looked at, for an import may bring millions
    on one day; the third value says whether they reach back so far.
    """
    newest = (
        select(Label.detector_id, Label.labeler, Label.created_at)
        .order_by(Label.id.desc())
        .limit(MOST_LOOKED_AT)
        .subquery()
    )
    is_ours = newest.c.detector_id == detector_id
    # Ids are given out nearly in the order of time: a request notes when it came
    # before it draws them.
    is_since = newest.c.created_at >= since
    statement = select(
        func.count().filter(is_ours, is_since, newest.c.labeler == labeler),
        func.count().filter(is_ours, is_since),
        func.count().filter(is_since),
    ).select_from(newest)
    by_labeler, by_all, seen = session.execute(statement).one()
    return by_labeler, by_all, seen < MOST_LOOKED_AT


def iter_pending_labels(
    session: Session, detector_id: int, batches: Sequence[int]
) -> Generator[Any]:
    """Stream the labels of pending *batches*, all up to the last one, in order.

    Each row has ``id``, ``replaces_id``, ``label``, ``sampling`` and
    ``created_at``, of its query ``version_id`` and ``predicted``, and of the label
    that it replaces ``old_label`` and ``old_sampling`` (None if it is the first).
    """
    old = aliased(Label)
    statement = (
        select(
            Label.id,
            Label.replaces_id,
            Label.label,
            Label.sampling,
            Label.created_at,
            Query.version_id,
            Query.predicted,
            old.label.label("old_label"),
            old.sampling.label("old_sampling"),
        )
        .select_from(PendingBatch)
        .join(Label, belongs_to(Label.id))
        .join(Query, is_of_query())
        .outerjoin(old, is_replaced(old))
        .where(PendingBatch.detector_id == detector_id)
        .where(for_partitions(Label.detector_id == detector_id))
        .where(PendingBatch.id <= batches[-1], lies_among(Label.id, batches))
        .order_by(Label.id)
    )
    return stream(session, statement)


def iter_label_rows(session: Session, detector_id: int) -> Iterator[Any]:
    """Stream every label of a detector with its query, in the order given."""
    statement = (
        select(
            Query.id.label("query_id"),
            Query.key,
            Version.name.label("version"),
            Query.predicted,
            Query.confidence,
            Query.asked_at,
            Label.id,
            Label.label,
            Label.sampling,
            Label.note,
            Label.labeler,
            Label.labelled_at,
            (Query.label_id == Label.id).label("is_current"),
            Query.input,
        )
        .join(Query, is_of_query())
        .join(Version, Version.id == Query.version_id)
        .where(Query.detector_id == detector_id)
        .order_by(Label.id)
    )
    return stream(session, statement)
