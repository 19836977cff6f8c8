"""What judges said of queries: a model, a program, or a person without authority.

A judgement is never the truth of a query.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, stream
from tracker.storage.dialect import upsert
from tracker.storage.queries.lookup import look_up
from tracker.storage.queries.queries import Query, has_standing, is_about, of_query
from tracker.words import JUDGE_KINDS, MODEL


class Judgement(Base):
    """The last word of one judge on one query."""

    __tablename__ = "judgements"
    __table_args__ = (
        of_query(),
        sa.Index(None, "detector_id", "judge"),
        sa.CheckConstraint(f"kind IN {JUDGE_KINDS}", name="kind"),
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    judge: Mapped[str] = mapped_column(Name, primary_key=True)
    kind: Mapped[str] = mapped_column(sa.Text)
    judged: Mapped[str] = mapped_column(Name)
    score: Mapped[float | None] = mapped_column(sa.Float)
    explanation: Mapped[str | None] = mapped_column(sa.Text)
    judged_at: Mapped[datetime]
    received_at: Mapped[datetime]
    # Of the import that brought it.
    batch: Mapped[int | None] = mapped_column(BigId)


def store_judgement(session: Session, row: dict[str, Any], *, is_dated: bool) -> None:
    """Write a judgement; of two by one judge on one query the later one stays.

    The same one again changes nothing; unless *is_dated*, it would always be later.
    """
    is_wanted = Judgement.judged_at < row["judged_at"]
    if not is_dated:
        said = (
            Judgement.kind,
            Judgement.judged,
            Judgement.score,
            Judgement.explanation,
        )
        is_wanted &= sa.or_(*(one.is_distinct_from(row[one.key]) for one in said))
    upsert(session, Judgement, [row], where=is_wanted)


def store_judgements(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    upsert(session, Judgement, rows)


def find_judgements(
    session: Session, detector_id: int, query_ids: Sequence[int]
) -> Sequence[Any]:
    """Return query_id, judge, kind, judged and judged_at of what is said of queries."""
    columns = ("query_id", "judge", "kind", "judged", "judged_at")
    statement = sa.select(*(getattr(Judgement, name) for name in columns)).where(
        Judgement.detector_id == detector_id
    )
    return look_up(session, statement, Judgement.query_id, query_ids)


def list_judges(session: Session, detector_id: int) -> Sequence[str]:
    statement = sa.select(Judgement.judge).where(Judgement.detector_id == detector_id)
    return session.scalars(statement.distinct().order_by(Judgement.judge)).all()


def iter_verdicts(
    session: Session, detector_id: int, judges: Sequence[str]
) -> Iterator[Any]:
    """Stream what these judges said: query_id, judge and judged."""
    columns = Judgement.query_id, Judgement.judge, Judgement.judged
    statement = sa.select(*columns).where(
        Judgement.detector_id == detector_id, Judgement.judge.in_(judges)
    )
    return stream(session, statement, rows=20_000)


def list_judgements(session: Session, query: Query) -> Sequence[Judgement]:
    statement = sa.select(Judgement).where(is_about(Judgement, query))
    return session.scalars(statement.order_by(Judgement.judge)).all()


def count_judgements(
    session: Session,
    detector_id: int,
    version_ids: Sequence[int],
    standings: Collection[str],
    *,
    are_pooled: bool = False,
) -> Sequence[Any]:
    """Return judge, kind, label, judged class and how many queries, of these versions.

    Of versions that *are pooled*, an input counts by one of them.

    The label is None where the query has none that is scored with one of *standings*.
    An input that a version was given twice counts once, by its first query.
    """
    truth = sa.case((has_standing(Query, standings), Query.label), else_=None)
    each = (
        sa.select(
            Judgement.judge, Judgement.kind, Judgement.judged, truth.label("label")
        )
        .join(Query, Query.id == Judgement.query_id)
        .where(
            Judgement.detector_id == detector_id,
            Query.detector_id == detector_id,
            Query.version_id.in_(version_ids),
            ~Query.is_repeat,
            *([Query.is_pooled] if are_pooled else []),
        )
        .subquery()
    )
    columns = (each.c.judge, each.c.kind, each.c.label, each.c.judged)
    statement = sa.select(*columns, sa.func.count().label("queries"))
    return session.execute(
        statement.group_by(*columns).order_by(each.c.judge, each.c.judged)
    ).all()


def add_verdicts(
    session: Session,
    detector_id: int,
    found: Mapping[tuple[int, str], str],
    *,
    at: datetime,
    batch: int,
) -> list[tuple[int, str]]:
    """Store verdicts, by query and judge, and return which of them are new.

    They are classes of the detector, and as old as the import that brings them.
    """
    ids = sorted({query_id for query_id, _ in found})
    said = find_judgements(session, detector_id, ids)
    known = {(row.query_id, row.judge): row for row in said}
    new = [
        which
        for which, verdict in found.items()
        if (one := known.get(which)) is None
        or (one.judged != verdict and one.judged_at < at)
    ]
    rows = [
        {
            "query_id": which[0],
            "judge": which[1],
            "detector_id": detector_id,
            "kind": known[which].kind if which in known else MODEL,
            "judged": found[which],
            "score": None,
            "explanation": None,
            "judged_at": at,
            "received_at": at,
            "batch": batch,
        }
        for which in new
    ]
    store_judgements(session, rows)
    return new


def delete_judgements(session: Session, query: Query) -> None:
    session.execute(sa.delete(Judgement).where(is_about(Judgement, query)))
