"""The queries of a span of time by rank, and the traffic of versions by the hour.

A query that waits for a label is a *gap* in the order of ranks: only what ranks below
the first gap is a random sample of the span.
"""

from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Session, aliased

from tracker.storage.detectors import Version
from tracker.storage.dialect import day_of, floor, hour_of
from tracker.storage.estimates.pending import Pending, of_pending
from tracker.storage.inserting import Prepared
from tracker.storage.queries.queries import Query
from tracker.words import DISPUTED, GROUPED, OPEN, UNCLEAR

# The first bits of a rank are those of the group.
_GROUPS = 2**32


class SpanOfQueries(NamedTuple):
    """The queries of one version asked from an instant to before another one."""

    detector_id: int
    version_id: int
    since: datetime
    until: datetime

    def tests(self) -> list[sa.ColumnElement[bool]]:
        """Return what is true of them; repeats of an input are no queries of theirs."""
        return [
            Query.detector_id == self.detector_id,
            Query.version_id == self.version_id,
            Query.asked_at >= self.since,
            Query.asked_at < self.until,
            ~Query.is_repeat,
        ]


class Drawn(NamedTuple):
    """The ranked queries of a span, or groups, as far as is known whether right."""

    # How many there are, and how many of all are known to be right and wrong.
    size: int
    known_right: int
    known_wrong: int
    # Below the first gap: all of them, those right, and those without a clear answer.
    drawn: int
    right: int
    unclear: int


class Arrivals(NamedTuple):
    """When the ranked queries of a span arrived."""

    newest: datetime | None
    # Before the span ended, and on how many days in UTC after that.
    has_early: bool
    late_days: int


def find_newest_asked(
    session: Session, detector_id: int, version_id: int, *, by: datetime
) -> datetime | None:
    """Return when the newest query of a version was asked that is not of the future."""
    own = {"detector_id": detector_id, "version_id": version_id}
    asked = sa.select(Query.asked_at).filter_by(**own).where(Query.asked_at <= by)
    return session.scalar(asked.order_by(Query.asked_at.desc()).limit(1))


def count_span(
    session: Session,
    span: SpanOfQueries,
    *,
    predicted: str | None = None,
    has_groups: bool = False,
) -> Drawn:
    """Count the ranked queries of *span*, or its groups, maybe of one prediction."""
    rows = _select_ranked(session, span, predicted, has_groups=has_groups).subquery()
    place, is_gap = rows.c.place, rows.c.gap == 1
    is_right = sa.and_(rows.c.gap == 0, rows.c.right == 1, rows.c.wrong == 0)
    is_wrong = sa.and_(rows.c.gap == 0, rows.c.right == 0, rows.c.wrong == 1)
    counted = sa.func.count()
    numbers = (counted, counted.filter(is_right), counted.filter(is_wrong))
    whole = sa.select(*numbers, sa.func.min(place).filter(is_gap)).select_from(rows)
    size, right, wrong, gap = session.execute(whole).one()
    if gap is None:
        return Drawn(size, right, wrong, size, right, size - right - wrong)
    below = sa.select(*numbers).select_from(rows).where(place < gap)
    drawn, drawn_right, drawn_wrong = session.execute(below).one()
    unclear = drawn - drawn_right - drawn_wrong
    return Drawn(size, right, wrong, drawn, drawn_right, unclear)


_IS_KNOWN = sa.and_(
    Query.label != UNCLEAR, Query.standing.not_in((OPEN, DISPUTED, GROUPED))
)
# What is gold, erased or spent is not asked for any more.
_WAITS = sa.or_(
    sa.and_(Query.label.is_(None), Query.queue_rank.is_not(None), ~Query.is_gold),
    Query.standing == OPEN,
)


def _select_ranked(
    session: Session, span: SpanOfQueries, predicted: str | None, *, has_groups: bool
) -> sa.Select[*tuple[Any, ...]]:
    states = {
        "gap": _WAITS,
        "right": sa.and_(_IS_KNOWN, Query.label == Query.predicted),
        "wrong": sa.and_(_IS_KNOWN, Query.label != Query.predicted),
    }
    flags = {name: sa.case((test, 1), else_=0) for name, test in states.items()}
    tests = [*span.tests(), Query.rank.is_not(None)]
    if predicted is not None:
        tests.append(Query.predicted == predicted)
    if not has_groups:
        named = [flag.label(name) for name, flag in flags.items()]
        return sa.select(Query.rank.label("place"), *named).where(*tests)
    place = floor(session, Query.rank * _GROUPS)
    largest = [sa.func.max(flag).label(name) for name, flag in flags.items()]
    # The group of one that was erased has another name, and ranks as before.
    alone = sa.case((Query.group.is_(None), Query.id))
    chosen = sa.select(place.label("place"), *largest)
    return chosen.where(*tests).group_by(place, alone)


# Built once: a page asks it of each span.  The index on when queries were asked has
# all of it.
_ASKED = Prepared(
    sa.select(sa.func.count(), sa.func.count(Query.rank)).where(
        *SpanOfQueries(
            *(sa.bindparam(name) for name in SpanOfQueries._fields)  # type: ignore[arg-type]
        ).tests()
    )
)


def count_asked_in(session: Session, span: SpanOfQueries) -> tuple[int, int]:
    """Return how many queries of *span* there are, and how many of them are ranked."""
    queries, ranked = _ASKED.first(session, span._asdict())
    return queries, ranked


def find_arrivals(session: Session, span: SpanOfQueries) -> Arrivals:
    """Return when the ranked queries of *span* arrived."""
    is_late = Query.created_at >= span.until
    late_day = sa.case((is_late, day_of(session, Query.created_at))).distinct()
    numbers = sa.func.count().filter(~is_late), sa.func.count(late_day)
    statement = sa.select(sa.func.max(Query.created_at), *numbers)
    statement = statement.where(*span.tests(), Query.rank.is_not(None))
    newest, early, days = session.execute(statement).one()
    return Arrivals(newest, early > 0, days)


class HourCount(NamedTuple):
    """Queries of a version that were asked in an hour, and how many were new."""

    detector_id: int
    version_id: int
    hour: str
    queries: int
    new: int


def count_hours(
    session: Session, batches: Pending, *, until: int | None = None
) -> list[HourCount]:
    """Count the queries of pending *batches* by version and hour.

    Or those whose ids are below *until*.  A query is new to its detector unless
    another version was put to its input before.  A query that says it is from the
    future counts in the hour in which it arrived.
    """
    other = aliased(Query)
    was_put_before = sa.exists(other.id).where(
        other.detector_id == Query.detector_id,
        other.input == Query.input,
        other.version_id != Query.version_id,
        # SQLite would go along all queries before, not along the few of an input.
        other.id + 0 < Query.id,
    )
    # Of a detector with one version no inputs have to be looked up.
    is_other = Version.id != Query.version_id
    has_others = sa.exists().where(Version.detector_id == Query.detector_id, is_other)
    is_new = sa.case((sa.and_(has_others, was_put_before), 0), else_=1)
    hour = hour_of(session, Query.asked_at, Query.created_at).label("hour")
    each = sa.select(Query.detector_id, Query.version_id, hour, is_new.label("is_new"))
    found = of_pending(each, Query, batches, until=until).subquery().c
    place = (found.detector_id, found.version_id, found.hour)
    counted = sa.select(*place, sa.func.count(), sa.func.sum(found.is_new))
    return [HourCount(*row) for row in session.execute(counted.group_by(*place))]
