"""The people who label and the judges: what each is asked for, and what each said.

A judge is a model, a program, or a person without authority.  A judgement is never the
truth of a query.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage import base
from tracker.storage.base import Base, BigId, Name, on_postgresql, owner, stream
from tracker.storage.detectors import Detector
from tracker.storage.dialect import upsert
from tracker.storage.labelling.rechecks import Recheck, RecheckSet
from tracker.storage.labels import Label
from tracker.storage.queries.lookup import look_up
from tracker.storage.queries.queries import (
    Query,
    has_standing,
    is_about,
    is_of_query,
    of_query,
)
from tracker.words import GROUPED, JUDGE_KINDS, MODEL, REPEAT, TARGETED


class Assignment(Base):
    """So many labels of a detector that a person is asked for."""

    __tablename__ = "assignments"

    detector_id: Mapped[int] = owner("detectors")
    labeler: Mapped[str] = mapped_column(Name, primary_key=True)
    labels: Mapped[int] = mapped_column(BigId)
    # Counted with each label: to count the labels of one person takes reading all.
    done: Mapped[int] = mapped_column(BigId, default=0)
    made_by: Mapped[str] = mapped_column(Name)
    made_at: Mapped[datetime]


def list_assignments(session: Session, detector_id: int) -> Sequence[Assignment]:
    own = Assignment.detector_id == detector_id
    return base.list_rows(session, Assignment, own, order=Assignment.labeler)


def list_asked(session: Session, labeler: str) -> Sequence[tuple[Assignment, str]]:
    """Return what a person is asked for and has not done, with each detector's name."""
    statement = (
        sa.select(Assignment, Detector.name)
        .join(Detector, Detector.id == Assignment.detector_id)
        .where(
            Assignment.labeler == labeler,
            Assignment.done < Assignment.labels,
            Detector.archived_at.is_(None),
        )
        .order_by(Detector.name)
    )
    return [(asked, name) for asked, name in session.execute(statement)]


def count_assigned_label(session: Session, row: Mapping[str, Any]) -> None:
    """Count the label *row* for its labeler, unless it replaces their own."""
    of = {name: row[name] for name in ("detector_id", "labeler")}
    own = sa.select(Label.id).filter_by(**of, id=row["replaces_id"])
    theirs = base.equal(Assignment, **of)
    theirs += [] if row["replaces_id"] is None else [~own.exists()]
    base.change_rows(session, Assignment, *theirs, done=Assignment.done + 1)


def list_rechecked(session: Session, detector_id: int) -> Sequence[Any]:
    """Return the labels that were given a second time, as they were answered.

    Those of one input in several versions stand in it once.  What was drawn because its
    label differs from the prediction is left out: they are a random part of the labels.
    """
    near = on_postgresql(Label.detector_id == Recheck.detector_id)
    first = Label.id, Label.source_label_id.label("source_id"), Label.labeler
    said = Recheck.label, Recheck.labeler.label("second"), Recheck.answer
    statement = (
        sa.select(*first, *said, Recheck.is_trusted)
        .join(Label, (Label.id == Recheck.label_id) & near)
        .join(RecheckSet, RecheckSet.version_id == Recheck.version_id)
        .where(
            RecheckSet.detector_id == detector_id,
            Recheck.detector_id == detector_id,
            Recheck.clock <= RecheckSet.reached,
            Recheck.answered_at.is_not(None),
        )
        .order_by(Recheck.answered_at, Recheck.query_id)
    )
    once = {row.source_id or row.id: row for row in session.execute(statement)}
    return list(once.values())


def list_words(session: Session, detector_id: int, *, limit: int) -> Sequence[Any]:
    """Return the labels of the newest *limit* queries that several people labelled."""
    newest = (
        sa.select(Query.id)
        .where(
            Query.detector_id == detector_id,
            Query.agreement.is_not(None),
            # Each input and each group once.
            Query.standing.not_in((REPEAT, GROUPED)),
        )
        .order_by(Query.id.desc())
        .limit(limit)
    )
    is_current = (Query.label_id == Label.id).label("is_current")
    statement = (
        sa.select(Label.query_id, Query.agreement, is_current)
        .add_columns(Label.labeler, Label.label)
        .join(Query, is_of_query(Label))
        .where(
            Query.detector_id == detector_id,
            Query.id.in_(newest),
            Label.sampling != TARGETED,
            Label.source_label_id.is_(None),
        )
        .order_by(Label.query_id, Label.id)
    )
    return session.execute(statement).all()


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
        columns = Judgement.__table__.c
        said = ("kind", "judged", "score", "explanation")
        is_wanted &= sa.or_(*(columns[one].is_distinct_from(row[one]) for one in said))
    upsert(session, Judgement, [row], where=is_wanted)


def find_judgements(
    session: Session, detector_id: int, query_ids: Sequence[int]
) -> Sequence[Any]:
    """Return query_id, judge, kind, judged and judged_at of what is said of queries."""
    names = ("query_id", "judge", "kind", "judged", "judged_at")
    statement = sa.select(*base.columns_of(Judgement, *names))
    return look_up(session, detector_id, statement, Judgement.query_id, query_ids)


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
    own = is_about(Judgement, query)
    return base.list_rows(session, Judgement, own, order=Judgement.judge)


def count_judgements(
    session: Session,
    detector_id: int,
    version_ids: Sequence[int],
    standings: Collection[str],
    *,
    are_pooled: bool = False,
) -> Sequence[Any]:
    """Return judge, kind, label, judged class and how many queries, of these versions.

    The label is None where none is scored with one of *standings*.  An input counts
    once, by its first query, and of versions that *are pooled* by one of them.
    """
    truth = sa.case((has_standing(Query, standings), Query.label), else_=None)
    said = Judgement.judge, Judgement.kind, Judgement.judged
    each = (
        sa.select(*said, truth.label("label"))
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
    common: dict[str, Any] = {
        "detector_id": detector_id,
        "score": None,
        "explanation": None,
    }
    common |= {"judged_at": at, "received_at": at, "batch": batch}
    rows = [
        {
            "query_id": which[0],
            "judge": which[1],
            "kind": known[which].kind if which in known else MODEL,
            "judged": found[which],
        }
        for which in new
    ]
    upsert(session, Judgement, [row | common for row in rows])
    return new
