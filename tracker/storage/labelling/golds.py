"""Gold queries, whose answer is known, and what people answered to them.

A gold query has no label: what people answer stands here, and nothing scores it.
While a query is gold it waits in no queue; it is mixed into the random one.
"""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, count_rows, equal
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.queries.queries import (
    AnyQuery,
    Query,
    has,
    is_about,
    is_of_query,
    of_query,
)


class Gold(Base):
    """A query whose answer is known."""

    __tablename__ = "golds"
    __table_args__ = (of_query(),)

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    label: Mapped[str] = mapped_column(Name)
    marked_by: Mapped[str] = mapped_column(Name)
    marked_at: Mapped[datetime]


class GoldAnswer(Base):
    """What one person answered to a gold query; a change is one more row."""

    __tablename__ = "gold_answers"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["detector_id", "query_id"], [Gold.detector_id, Gold.query_id]
        ),
        sa.Index(None, "detector_id", "query_id", "labeler"),
        sa.Index(None, "detector_id", "answered_at"),
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    # Shown to the labeler as the label's id, so that gold queries cannot be told apart.
    # No row in labels has it.
    label_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId)
    labeler: Mapped[str] = mapped_column(Name)
    label: Mapped[str] = mapped_column(Name)
    sampling: Mapped[str] = mapped_column(sa.Text)
    note: Mapped[str | None] = mapped_column(sa.Text)
    labelled_at: Mapped[datetime]
    answered_at: Mapped[datetime]


def count_golds(session: Session, detector_id: int) -> int:
    """Count the queries that are gold, from those that are or were."""
    counted = (
        sa.select(sa.func.count()).select_from(Gold).join(Query, is_of_query(Gold))
    )
    own = Gold.detector_id == detector_id, Query.is_gold
    return session.scalars(counted.where(*own)).one()


def list_golds(
    session: Session, detector_id: int, *, before: int | None, limit: int
) -> Sequence[Any]:
    """Return what is or was gold, with its query, the newest query first."""
    statement = (
        sa.select(Gold, Query.id.label("id"), Query.key, Query.is_gold)
        .join(Query, is_of_query(Gold))
        .where(Gold.detector_id == detector_id)
        .order_by(Gold.query_id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(Gold.query_id < before)
    return session.execute(statement).all()


def list_open(
    session: Session,
    detector_id: int,
    *,
    version_id: int | None,
    names: Collection[str],
    at: datetime,
) -> Sequence[int]:
    """Return the gold queries that a person, who goes by *names*, may be given."""
    statement = sa.select(Query.id).where(
        *equal(Query, detector_id=detector_id, version_id=version_id),
        Query.is_gold,
        has(Gold, Gold.marked_by.not_in(names)),
        ~has(GoldAnswer, GoldAnswer.labeler.in_(names)),
        ~has(Skip, Skip.labeler.in_(names)),
        ~has(Reservation, Reservation.until > at),
    )
    return session.scalars(statement).all()


def count_used(session: Session, detector_id: int, names: Collection[str]) -> int:
    """Count the gold queries that a person answered or set aside."""
    own = {"detector_id": detector_id}
    answered = sa.select(GoldAnswer.query_id).filter_by(**own)
    skipped = sa.select(Skip.query_id).filter_by(**own)
    is_used: Any = Gold.query_id.in_(answered.where(GoldAnswer.labeler.in_(names)))
    is_used |= Gold.query_id.in_(skipped.where(Skip.labeler.in_(names)))
    return count_rows(session, Gold, Gold.detector_id == detector_id, is_used)


def list_answers_of(
    session: Session, query: AnyQuery, labeler: str
) -> Sequence[GoldAnswer]:
    own = is_about(GoldAnswer, query), GoldAnswer.labeler == labeler
    newest_first = GoldAnswer.answered_at.desc(), GoldAnswer.label_id.desc()
    found = sa.select(GoldAnswer).where(*own).order_by(*newest_first)
    return session.scalars(found).all()


def list_answers(session: Session, detector_id: int) -> Sequence[Any]:
    """Return the answers to gold queries in order, without those who marked them."""
    said = GoldAnswer.query_id, GoldAnswer.labeler, GoldAnswer.label
    statement = (
        sa.select(*said, GoldAnswer.answered_at, Gold.label.label("known"))
        .join(Gold, Gold.query_id == GoldAnswer.query_id)
        .where(
            Gold.detector_id == detector_id,
            GoldAnswer.detector_id == detector_id,
            GoldAnswer.labeler != Gold.marked_by,
        )
        .order_by(GoldAnswer.answered_at, GoldAnswer.label_id)
    )
    return session.execute(statement).all()


def count_answers(
    session: Session, detector_id: int, labeler: str | None, *, since: datetime
) -> int:
    """Count the answers to gold queries since then, of one person or of all."""
    theirs = equal(GoldAnswer, detector_id=detector_id, labeler=labeler)
    return count_rows(session, GoldAnswer, *theirs, GoldAnswer.answered_at >= since)
