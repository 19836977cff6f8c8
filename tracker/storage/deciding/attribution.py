"""Investigations of what moved a judged rate, and what is known of their anchors."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, ForeignKeyConstraint, and_, case, func, select
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId, Name, equal, on_postgresql, owner
from tracker.storage.detectors import Version
from tracker.storage.labelling.labelers import Judgement
from tracker.storage.queries.queries import Query, is_of_query

_IS_RIGHT = case((Judgement.judged == Query.predicted, 1), else_=0)


class Investigation(Base):
    """The weeks that are compared, by whom, and the anchors that were drawn for it.

    *anchors* are [query, 1 if it was right, times]; *right_then* of *judged_then* and
    *right_now* of *judged_now* were right by the judges when it began.
    """

    __tablename__ = "investigations"
    __table_args__ = (
        ForeignKeyConstraint(
            ["detector_id", "old_version_id"], [Version.detector_id, Version.id]
        ),
        ForeignKeyConstraint(
            ["detector_id", "new_version_id"], [Version.detector_id, Version.id]
        ),
        {"sqlite_with_rowid": False},
    )

    detector_id: Mapped[int] = owner("detectors")
    number: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    begun_at: Mapped[datetime]
    begun_by: Mapped[str] = mapped_column(Name)
    old_version_id: Mapped[int] = mapped_column(BigId)
    new_version_id: Mapped[int] = mapped_column(BigId)
    old_judge: Mapped[str] = mapped_column(Name)
    new_judge: Mapped[str] = mapped_column(Name)
    since: Mapped[datetime]
    until: Mapped[datetime]
    now_since: Mapped[datetime]
    now_until: Mapped[datetime]
    confidence_level: Mapped[float]
    right_then: Mapped[int] = mapped_column(BigId)
    judged_then: Mapped[int] = mapped_column(BigId)
    right_now: Mapped[int] = mapped_column(BigId)
    judged_now: Mapped[int] = mapped_column(BigId)
    anchors: Mapped[list[Any]] = mapped_column(JSON)


def find_investigation(
    session: Session, detector_id: int, number: int | None = None
) -> Investigation | None:
    """Return an investigation by its number, by default the newest."""
    which = equal(Investigation, detector_id=detector_id, number=number)
    newest = select(Investigation).where(*which).order_by(Investigation.number.desc())
    return session.scalar(newest.limit(1))


def _judged(detector_id: int, *columns: Any) -> Any:
    own = Query.detector_id == detector_id, Query.input.is_not(None), ~Query.is_repeat
    judged = select(*columns).join_from(Query, Judgement, is_of_query(Judgement))
    return judged.where(*own)


def _is_asked_in(since: datetime, until: datetime) -> Any:
    return (Query.asked_at >= since) & (Query.asked_at < until)


def _judged_by(version: Version, judge: str, *columns: Any) -> Any:
    is_theirs = (Query.version_id == version.id) & (Judgement.judge == judge)
    return _judged(version.detector_id, *columns).where(is_theirs)


def find_newest_judged(
    session: Session, detector_id: int, before: datetime
) -> datetime | None:
    """Return when the newest input with a verdict was asked, of those *before*."""
    statement = _judged(detector_id, Query.asked_at).where(Query.asked_at < before)
    newest = statement.order_by(Query.asked_at.desc()).limit(1)
    found: datetime | None = session.scalar(newest)
    return found


def find_most_judged(
    session: Session, detector_id: int, since: datetime, until: datetime
) -> Any:
    """Return the version_id and the judge with most verdicts on a span, or None."""
    pair = Query.version_id, Judgement.judge
    statement = _judged(detector_id, *pair).where(_is_asked_in(since, until))
    order = func.count().desc(), Query.version_id.desc(), Judgement.judge
    most = statement.group_by(*pair).order_by(*order).limit(1)
    return session.execute(most).one_or_none()


def count_judged(
    session: Session, version: Version, judge: str, since: datetime, until: datetime
) -> tuple[int, int]:
    """Return how many inputs of a span a judge calls right, and how many it judged."""
    counts = func.coalesce(func.sum(_IS_RIGHT), 0), func.count()
    statement = _judged_by(version, judge, *counts).where(_is_asked_in(since, until))
    right, judged = session.execute(statement).one()
    return int(right), int(judged)


def list_judged(
    session: Session, version: Version, judge: str, since: datetime, until: datetime
) -> Sequence[tuple[int, int]]:
    """Return the queries of a span that a judge has told, and which are right by it."""
    each = _judged_by(version, judge, Query.id, _IS_RIGHT)
    statement = each.where(_is_asked_in(since, until)).order_by(Query.id)
    return [(*row,) for row in session.execute(statement)]


def list_anchors(session: Session, found: Investigation) -> Sequence[Any]:
    """Return the anchors: what was said of each then and now, by the new judge too."""
    old, new = aliased(Query), aliased(Query)
    of_old, of_new = aliased(Judgement), aliased(Judgement)
    detector_id = found.detector_id

    def verdict(one: Any, query: Any) -> Any:
        near = on_postgresql(one.detector_id == detector_id)
        return (one.query_id == query.id) & (one.judge == found.new_judge) & near

    is_put_again = and_(
        new.detector_id == detector_id,
        new.version_id == found.new_version_id,
        new.input == old.input,
        ~new.is_repeat,
    )
    judged = of_old.judged.label("judged_then"), of_new.judged.label("judged_now")
    statement = (
        select(old.id, old.input, *judged)
        .add_columns(old.predicted.label("then"), old.label.label("label_then"))
        .add_columns(new.predicted.label("now"), new.label.label("label_now"))
        .select_from(old)
        .outerjoin(of_old, verdict(of_old, old))
        .outerjoin(new, is_put_again)
        .outerjoin(of_new, verdict(of_new, new))
        .where(old.detector_id == detector_id)
        .where(old.id.in_([one[0] for one in found.anchors]))
        .order_by(old.id)
    )
    return session.execute(statement).all()
