"""What audits have drawn, and who is to answer it."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import Select, UniqueConstraint, func, select, update
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId, Name, on_postgresql
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling.audits import Audit, AuditItem, is_of, of_audit
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query, of_query


class AuditDraw(Base):
    """A query that was drawn; it stays drawn, whether it is answered or not."""

    __tablename__ = "audit_draws"
    __table_args__ = (
        of_audit(),
        of_query(),
        UniqueConstraint("detector_id", "audit_id", "query_id"),
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    audit_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    number: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId)
    stratum: Mapped[int]
    rank: Mapped[int] = mapped_column(BigId)
    labeler: Mapped[str] = mapped_column(Name)
    drawn_at: Mapped[datetime]
    until: Mapped[datetime]


def add_draws(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    insert_rows(session, AuditDraw, rows)


_ANSWER = (
    AuditDraw.number,
    AuditDraw.query_id,
    AuditDraw.stratum,
    Query.key,
    Query.predicted,
    Query.confidence,
    Query.label,
    Query.label_id,
)


def list_draws(
    session: Session, audit: Audit, *, numbers: Sequence[int] | None = None
) -> Sequence[Any]:
    """Return the draws of an audit in their order, each with its current label.

    All of them, or those *numbers*.

    Rows have what those of ``list_answers`` have, ``rank``, ``drawn_at`` and ``until``,
    and ``labeler``, whose label that is: not the browser that it was reserved for.
    """
    more = (AuditDraw.rank, Label.labeler, AuditDraw.drawn_at, AuditDraw.until)
    given = Label.detector_id == audit.detector_id
    statement = _select_draws(audit, *_ANSWER, *more).outerjoin(
        Label, (Label.id == Query.label_id) & on_postgresql(given)
    )
    if numbers is not None:
        statement = statement.where(AuditDraw.number.in_(numbers))
    return session.execute(statement).all()


def list_answers(session: Session, audit: Audit) -> Sequence[Any]:
    """Return what intervals go by, of all draws in their order.

    Rows have ``number``, ``query_id``, ``stratum``, and of the query ``key``,
    ``predicted``, ``confidence``, ``label`` and ``label_id``.  Instants would take
    longer to read than all of these.
    """
    return session.execute(_select_draws(audit, *_ANSWER)).all()


def _select_draws(audit: Audit, *columns: Any) -> Select[Any]:
    near = on_postgresql(Query.detector_id == audit.detector_id)
    return (
        select(*columns)
        .join(Query, (Query.id == AuditDraw.query_id) & near)
        .where(is_of(AuditDraw, audit))
        .order_by(AuditDraw.number)
    )


def list_offered(
    session: Session, audit: Audit, *, labeler: str, at: datetime, limit: int
) -> Sequence[Any]:
    """Return the first open draws that are *labeler*'s, or whose time was up *at*.

    Rows have ``number`` and ``query_id``.
    """
    statement = _select_draws(audit, AuditDraw.number, AuditDraw.query_id).where(
        AuditDraw.number >= audit.answered,
        Query.label.is_(None),
        (AuditDraw.labeler == labeler) | (AuditDraw.until <= at),
    )
    return session.execute(statement.limit(limit)).all()


def count_drawn(session: Session, audit: Audit) -> Sequence[Any]:
    """Count the draws from each stratum: stratum, how many, the last rank."""
    statement = (
        select(AuditDraw.stratum, func.count(), func.max(AuditDraw.rank))
        .where(is_of(AuditDraw, audit))
        .group_by(AuditDraw.stratum)
    )
    return session.execute(statement).all()


def count_known_items(session: Session, audit: Audit) -> Sequence[Any]:
    """Count what is known without a draw: known_from, stratum, how many."""
    # In the order of the index, or else SQLite reads the whole set by its key.
    keys = (AuditItem.known_from, AuditItem.stratum)
    statement = (
        select(*keys, func.count())
        .where(is_of(AuditItem, audit), AuditItem.known_from >= 0)
        .group_by(*keys)
    )
    return session.execute(statement).all()


def find_next_item(
    session: Session, audit: Audit, stratum: int, *, after: int
) -> tuple[int, int]:
    """Return rank and query of the next in line in a stratum, behind rank *after*."""
    statement = (
        select(AuditItem.rank, AuditItem.query_id)
        .where(
            is_of(AuditItem, audit),
            AuditItem.stratum == stratum,
            AuditItem.rank > after,
            AuditItem.known_from.is_(None),
        )
        .order_by(AuditItem.rank, AuditItem.query_id)
        .limit(1)
    )
    rank, query_id = session.execute(statement).one()
    return rank, query_id


def reserve_draws(
    session: Session,
    audit: Audit,
    numbers: Sequence[int],
    *,
    labeler: str,
    until: datetime,
) -> None:
    """Give these draws to *labeler* until then."""
    statement = update(AuditDraw).where(
        is_of(AuditDraw, audit), AuditDraw.number.in_(numbers)
    )
    session.execute(statement.values(labeler=labeler, until=until))


def release_draws(
    session: Session, query: Query, labeler: str, *, at: datetime
) -> None:
    """Offer what *labeler* was given of a query to others from then on."""
    statement = update(AuditDraw).where(
        AuditDraw.detector_id == query.detector_id,
        AuditDraw.query_id == query.id,
        AuditDraw.labeler == labeler,
    )
    session.execute(statement.values(until=at))


def set_sampling(
    session: Session, detector_id: int, query_id: int, sampling: str
) -> bool:
    """Say how a query was chosen; False if it has a label already."""
    statement = update(Query).where(
        Query.detector_id == detector_id, Query.id == query_id, Query.label.is_(None)
    )
    result: Any = session.execute(statement.values(sampling=sampling))
    return bool(result.rowcount)


def count_draws(session: Session, audits: Sequence[Audit]) -> dict[int, int]:
    """Count the answered draws of each audit."""
    near = on_postgresql(Query.detector_id == AuditDraw.detector_id)
    statement = (
        select(AuditDraw.audit_id, func.count())
        .join(Query, (Query.id == AuditDraw.query_id) & near)
        .where(
            AuditDraw.detector_id.in_({audit.detector_id for audit in audits}),
            AuditDraw.audit_id.in_([audit.id for audit in audits]),
            Query.label.is_not(None),
        )
        .group_by(AuditDraw.audit_id)
    )
    return {row[0]: row[1] for row in session.execute(statement)}


def count_labelers(session: Session, audit: Audit) -> dict[str, int]:
    """Count by whom the current labels of an audit's draws are, the busiest first."""
    newer = aliased(Label)
    is_replaced = select(newer.id).where(
        newer.query_id == Label.query_id,
        on_postgresql(newer.detector_id == audit.detector_id),
        newer.id > Label.id,
    )
    near = on_postgresql(Label.detector_id == audit.detector_id)
    statement = (
        select(Label.labeler, func.count())
        .join(AuditDraw, (AuditDraw.query_id == Label.query_id) & near)
        .where(is_of(AuditDraw, audit), ~is_replaced.exists())
        .group_by(Label.labeler)
        .order_by(func.count().desc(), Label.labeler)
    )
    return {row[0]: row[1] for row in session.execute(statement)}


def count_known(session: Session, audit: Audit) -> Sequence[Any]:
    """Count labels known without a draw.

    Rows are known_from, stratum, label, how many, and the id of the newest of them.
    """
    near = on_postgresql(Query.detector_id == audit.detector_id)
    keys = (AuditItem.known_from, AuditItem.stratum, Query.label)
    statement = (
        select(*keys, func.count(), func.max(Query.label_id))
        .join(Query, (Query.id == AuditItem.query_id) & near)
        .where(is_of(AuditItem, audit), AuditItem.known_from >= 0)
        .group_by(*keys)
    )
    return session.execute(statement).all()


def mark_known(session: Session, audit: Audit, round_number: int) -> None:
    """Let labels that are there without a draw count from this round on."""
    drawn = select(AuditDraw.query_id).where(is_of(AuditDraw, audit))
    # From the few labels to the items: the other way reads the whole set, and SQLite
    # would go it unless it is told that the key does not help.
    labelled = select(Query.id).where(
        Query.detector_id == audit.detector_id, Query.label > ""
    )
    statement = update(AuditItem).where(
        on_postgresql(AuditItem.detector_id == audit.detector_id),
        AuditItem.query_id.in_(labelled),
        AuditItem.audit_id + 0 == audit.id,
        AuditItem.known_from.is_(None),
        AuditItem.query_id.not_in(drawn),
    )
    session.execute(statement.values(known_from=round_number))
