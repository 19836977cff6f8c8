"""Which inputs were drawn by chance from those on which two versions disagree."""

from collections.abc import Collection
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    and_,
    case,
    func,
    or_,
    select,
)
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId, on_postgresql
from tracker.storage.detectors import Version
from tracker.storage.dialect import upsert
from tracker.storage.labelling.queues import DisagreementQueue
from tracker.storage.queries.queries import Query, has_standing
from tracker.words import TARGETED, UNCLEAR


class Draw(Base):
    """A query of one version whose prediction differs from that of another.

    It was given to a labeler because chance drew it from all such, so its label
    tells which of the two is better, though it is left out of their accuracies.
    """

    __tablename__ = "draws"
    # A query without a label is deleted when its time has come.
    __table_args__ = (
        ForeignKeyConstraint(
            ["query_id", "detector_id"],
            [Query.id, Query.detector_id],
            ondelete="CASCADE",
        ),
        Index(None, "detector_id"),
    )

    query_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    other_version_id: Mapped[int] = mapped_column(
        ForeignKey(Version.id), primary_key=True
    )
    detector_id: Mapped[int] = mapped_column(BigId)
    drawn_at: Mapped[datetime]


class Drawn(NamedTuple):
    """How many of the inputs drawn each version alone was right about."""

    won: int
    lost: int


def add_draw(
    session: Session, queue: DisagreementQueue, query_id: int, *, drawn_at: datetime
) -> None:
    """Keep that *queue* gave out a query, and when it last did."""
    row = {
        "query_id": query_id,
        "other_version_id": queue.old_id,
        "detector_id": queue.detector_id,
        "drawn_at": drawn_at,
    }
    upsert(session, Draw, [row])


def count_drawn(
    session: Session,
    detector_id: int,
    *,
    old_id: int,
    new_id: int,
    standings: Collection[str],
) -> Drawn:
    """Count what was drawn and has a label that no accuracy counts.

    An input whose other query has a label with one of *standings* is counted as a pair.
    """
    own, other = aliased(Query), aliased(Query)
    newest = (
        select(func.max(Query.id))
        .where(
            Query.detector_id == detector_id,
            Query.version_id == Draw.other_version_id,
            Query.input == own.input,
            ~Query.is_repeat,
        )
        .scalar_subquery()
    )
    is_new = own.version_id == new_id
    is_own_right, is_other_right = (
        own.label == own.predicted,
        own.label == other.predicted,
    )
    statement = (
        select(_count(is_new, is_own_right, is_other_right))
        .add_columns(_count(~is_new, is_own_right, is_other_right))
        .select_from(Draw)
        .join(own, own.id == Draw.query_id)
        .join(other, other.id == newest)
        .where(
            Draw.detector_id == detector_id,
            on_postgresql(own.detector_id == detector_id),
            on_postgresql(other.detector_id == detector_id),
            or_(
                and_(own.version_id == new_id, Draw.other_version_id == old_id),
                and_(own.version_id == old_id, Draw.other_version_id == new_id),
            ),
            own.label != UNCLEAR,
            own.sampling == TARGETED,
            or_(other.label.is_(None), ~has_standing(other, standings)),
        )
    )
    return Drawn(*session.execute(statement).one())


def _count(is_new: Any, is_own_right: Any, is_other_right: Any) -> Any:
    """Count what the new version won, or with *is_new* negated what it lost."""
    wins = and_(is_new, is_own_right, ~is_other_right)
    losses = and_(~is_new, is_other_right, ~is_own_right)
    return func.count(case((or_(wins, losses), 1)))
