"""Queries reserved or set aside, and inputs drawn where versions disagree."""

from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage import base
from tracker.storage.base import Base, BigId, Name, on_postgresql
from tracker.storage.detectors import Version
from tracker.storage.dialect import upsert
from tracker.storage.labelling.queues import DisagreementQueue, Queue
from tracker.storage.queries.queries import (
    Query,
    find_query_of,
    has,
    has_standing,
    is_about,
    of_query,
)
from tracker.words import RANDOM, TARGETED, UNCLEAR

# One request clears away so many at most, or it would pay for all others.
_MOST_EXPIRED = 100


class Reservation(Base):
    """A query that one labeler was given, and for a while nobody else is."""

    __tablename__ = "reservations"
    __table_args__ = (
        of_query(),
        sa.Index(None, "labeler"),
        sa.Index(None, "detector_id", "until"),
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    # The key decides who got a query, not a SELECT beforehand: two requests may
    # both find it free.
    query_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    labeler: Mapped[str] = mapped_column(Name)
    until: Mapped[datetime]
    # A labeler's queries come in this order.
    place: Mapped[int] = mapped_column(BigId)
    # How the query was found, which decides what its label is marked as.
    queue: Mapped[str] = mapped_column(sa.Text, server_default=sa.text("'random'"))


class Skip(Base):
    """A query that one labeler set aside; others may still be given it."""

    __tablename__ = "skips"
    __table_args__ = (of_query(), sa.Index(None, "labeler"))

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    labeler: Mapped[str] = mapped_column(Name, primary_key=True)
    skipped_at: Mapped[datetime]


def list_reserved(
    session: Session, queue: Queue, labeler: str, *, at: datetime
) -> list[Query]:
    """Return what *labeler* has reserved from *queue*, in the order it was given."""
    # Of a join PostgreSQL might read every query that lies between these few.
    statement = (
        sa.select(Reservation.query_id)
        .where(
            Reservation.labeler == labeler,
            Reservation.detector_id == queue.detector_id,
            Reservation.queue == queue.name,
            Reservation.until > at,
        )
        .order_by(Reservation.place, Reservation.query_id)
    )
    numbers = session.scalars(statement).all()
    found = [find_query_of(session, queue.detector_id, number) for number in numbers]
    return [query for query in found if query is not None and queue.holds(query)]


def _select_skipped(queue: Queue, labeler: str) -> sa.Select[int]:
    # Of a join SQLite would read every waiting query first, to look for each
    # whether it is among these few.
    waits = sa.select(Query.id).where(Query.id == Skip.query_id, *queue.conditions())
    return sa.select(Skip.query_id).where(
        Skip.labeler == labeler, Skip.detector_id == queue.detector_id, waits.exists()
    )


def reserve_query(  # noqa: PLR0913 - what, for whom, when and how long.
    session: Session,
    queue: Queue,
    query_id: int,
    labeler: str,
    *,
    at: datetime,
    until: datetime,
) -> bool:
    """Reserve a query behind the others of *labeler*; False if it is another's."""
    last = sa.select(sa.func.max(Reservation.place)).where(
        Reservation.detector_id == queue.detector_id, Reservation.labeler == labeler
    )
    place = (session.scalar(last) or 0) + 1
    row = {"query_id": query_id, "detector_id": queue.detector_id, "labeler": labeler}
    row |= {"until": until, "place": place, "queue": queue.name}
    return upsert(session, Reservation, [row], where=Reservation.until <= at) == 1


def renew(session: Session, queries: Sequence[Query], *, until: datetime) -> None:
    """Give queries of one detector to their labeler until then."""
    theirs = (
        Reservation.detector_id.in_({one.detector_id for one in queries}),
        Reservation.query_id.in_([one.id for one in queries]),
    )
    base.change_rows(session, Reservation, *theirs, until=until)


def delete_expired(session: Session, detector_id: int, *, at: datetime) -> None:
    """Delete some reservations that ended, leaving out what others delete just now."""
    mine = Reservation.detector_id == detector_id
    ended = (
        sa.select(Reservation.query_id)
        .where(mine, Reservation.until <= at)
        .order_by(Reservation.until)
        .limit(_MOST_EXPIRED)
        .with_for_update(skip_locked=True)
    )
    base.delete_rows(session, Reservation, mine, Reservation.query_id.in_(ended))


def set_aside(
    session: Session, query: Query, labeler: str, *, skipped_at: datetime
) -> None:
    """End the reservation of *labeler*, and offer the query to others first."""
    theirs = is_about(Reservation, query), Reservation.labeler == labeler
    base.delete_rows(session, Reservation, *theirs)
    row = {"query_id": query.id, "detector_id": query.detector_id}
    upsert(session, Skip, [row | {"labeler": labeler, "skipped_at": skipped_at}])


def find_free_query(
    session: Session, queue: Queue, labeler: str, *, at: datetime
) -> Query | None:
    """Return the first of *queue* that nobody reserved and *labeler* did not skip."""
    is_reserved = has(Reservation, Reservation.until > at)
    is_skipped = has(Skip, Skip.labeler == labeler)
    free = sa.select(Query).where(*queue.conditions(), ~is_reserved, ~is_skipped)
    first = free.order_by(*queue.order()).limit(1)
    return session.scalars(first).one_or_none()


def find_skipped_query(
    session: Session, queue: Queue, labeler: str, *, at: datetime
) -> Query | None:
    """Return what *labeler* skipped longest ago and nobody has reserved."""
    is_reserved = sa.exists(Reservation.query_id).where(
        Reservation.detector_id == queue.detector_id,
        Reservation.query_id == Skip.query_id,
        Reservation.until > at,
    )
    statement = (
        _select_skipped(queue, labeler)
        .where(~is_reserved)
        .order_by(Skip.skipped_at, Skip.query_id)
        .limit(1)
    )
    number = session.scalars(statement).one_or_none()
    # It may have been deleted in between, because it had no label.
    return None if number is None else find_query_of(session, queue.detector_id, number)


def list_skipped(session: Session, queue: Queue, labeler: str) -> Sequence[int]:
    return session.scalars(_select_skipped(queue, labeler)).all()


def count_waiting(session: Session, queue: Queue, *, limit: int) -> int:
    # In order, or PostgreSQL would look at all of them before it stops.
    some = sa.select(Query.id).where(*queue.conditions())
    some = some.order_by(*queue.order()).limit(limit)
    return session.scalars(
        sa.select(sa.func.count()).select_from(some.subquery())
    ).one()


def release_others(session: Session, queue: Queue, labeler: str) -> None:
    """End what *labeler* has reserved by other choices from the targeted queue."""
    is_other = Reservation.queue.not_in([RANDOM, queue.name])
    base.delete_rows(session, Reservation, is_other, labeler=labeler)


class Draw(Base):
    """A query of one version whose prediction differs from that of another.

    It was given to a labeler because chance drew it from all such, so its label
    tells which of the two is better, though it is left out of their accuracies.
    """

    __tablename__ = "draws"
    # A query without a label is deleted when its time has come.
    __table_args__ = (
        of_query(ondelete="CASCADE"),
        sa.ForeignKeyConstraint(
            ["detector_id", "other_version_id"], [Version.detector_id, Version.id]
        ),
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    other_version_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    drawn_at: Mapped[datetime]


class Drawn(NamedTuple):
    """How many of the inputs drawn each version alone was right about."""

    won: int
    lost: int


def add_draw(
    session: Session, queue: DisagreementQueue, query_id: int, *, drawn_at: datetime
) -> None:
    """Keep that *queue* gave out a query, and when it last did."""
    row: dict[str, Any] = {"query_id": query_id, "other_version_id": queue.old_id}
    row |= {"detector_id": queue.detector_id, "drawn_at": drawn_at}
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
    is_other = sa.and_(
        other.detector_id == detector_id,
        other.version_id == Draw.other_version_id,
        other.input == own.input,
        ~other.is_repeat,
    )
    is_new = own.version_id == new_id
    is_own_right = own.label == own.predicted
    is_other_right = own.label == other.predicted
    # The query was the new version's and won, or the old one's and lost.
    wins, losses = is_own_right & ~is_other_right, is_other_right & ~is_own_right
    won = sa.case(((is_new & wins) | (~is_new & losses), 1))
    lost = sa.case(((~is_new & wins) | (is_new & losses), 1))
    statement = (
        sa.select(sa.func.count(won), sa.func.count(lost))
        .select_from(Draw)
        .join(own, own.id == Draw.query_id)
        .join(other, is_other)
        .where(
            Draw.detector_id == detector_id,
            on_postgresql(own.detector_id == detector_id),
            sa.or_(
                sa.and_(own.version_id == new_id, Draw.other_version_id == old_id),
                sa.and_(own.version_id == old_id, Draw.other_version_id == new_id),
            ),
            own.label != UNCLEAR,
            own.sampling == TARGETED,
            sa.or_(other.label.is_(None), ~has_standing(other, standings)),
        )
    )
    return Drawn(*session.execute(statement).one())
