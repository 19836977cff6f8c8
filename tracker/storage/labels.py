"""Labels: append-only, the newest of a query is its current one."""

from collections.abc import Generator, Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Index, Text, func, select
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId, Name, insert_rows, stream
from tracker.storage.detectors import Version
from tracker.storage.pending import PendingBatch, batch_of, belongs_to, lies_among
from tracker.storage.queries import Query

_LONGEST_REQUEST = timedelta(hours=1)


class Label(Base):
    """The class that a trusted person or source gave to a query."""

    __tablename__ = "labels"
    __table_args__ = (
        Index(None, "query_id"),
        CheckConstraint(
            "sampling IN ('random', 'targeted', 'unstated')", name="sampling"
        ),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    query_id: Mapped[int] = mapped_column(ForeignKey(Query.id))
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


def list_labels(session: Session, query_id: int) -> Sequence[Label]:
    """Return every label ever given to a query, the newest first."""
    statement = (
        select(Label).where(Label.query_id == query_id).order_by(Label.id.desc())
    )
    return session.scalars(statement).all()


def count_since(
    session: Session, detector_id: int, labeler: str, *, since: datetime
) -> tuple[int, int]:
    """Return how many labels a detector was given, by *labeler* and by all."""
    # Ids are given out in the order of time, or nearly so: a request notes when it
    # came before it draws its ids.  So only labels since then are looked at.
    long_before = Label.created_at < since - _LONGEST_REQUEST
    last_before = select(Label.id).where(long_before).order_by(Label.id.desc()).limit(1)
    newest = select(func.max(Label.id))
    batches = (
        select(
            func.min(Label.query_id).label("query_id"),
            func.count().filter(Label.labeler == labeler).label("by_labeler"),
            func.count().label("by_all"),
        )
        # With one end alone PostgreSQL guesses a third of the table.
        .where(
            Label.id.between(
                (session.scalar(last_before) or 0) + 1, session.scalar(newest) or 0
            )
        )
        .where(Label.created_at >= since)
        .group_by(batch_of(Label.id))
        .subquery()
    )
    # A batch is of one detector.  Not a join: both databases would begin it with
    # all the queries of the detector.
    detector = select(Query.detector_id).where(Query.id == batches.c.query_id)
    statement = select(
        func.sum(batches.c.by_labeler), func.sum(batches.c.by_all)
    ).where(detector.scalar_subquery() == detector_id)
    by_labeler, by_all = session.execute(statement).one()
    return int(by_labeler or 0), int(by_all or 0)


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
        .join(Query, Query.id == Label.query_id)
        .outerjoin(old, old.id == Label.replaces_id)
        .where(PendingBatch.detector_id == detector_id)
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
        .join(Query, Query.id == Label.query_id)
        .join(Version, Version.id == Query.version_id)
        .where(Query.detector_id == detector_id)
        .order_by(Label.id)
    )
    return stream(session, statement)
