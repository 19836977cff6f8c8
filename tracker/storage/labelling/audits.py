"""Audits: their sets, rounds and draws, and schedules that make one of every span."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage import base
from tracker.storage.base import (
    Base,
    BigId,
    Key,
    Name,
    index_some,
    on_postgresql,
    owner,
    stream,
    text_list,
)
from tracker.storage.detectors import Detector, of_version
from tracker.storage.labels import Label
from tracker.storage.queries.finding import Condition
from tracker.storage.queries.queries import (
    AnyQuery,
    Query,
    is_about,
    is_of_query,
    of_query,
)
from tracker.words import UNCLEAR


class _Asked:
    """What is asked about a set of queries, and about each set of a schedule."""

    detector_id: Mapped[int] = owner("detectors")
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    version_id: Mapped[int | None] = mapped_column(BigId)
    name: Mapped[str] = mapped_column(Name)
    where: Mapped[list[str]] = mapped_column(sa.JSON)
    # A class; None is the balanced accuracy.
    aim: Mapped[str | None] = mapped_column(Name)
    half_width: Mapped[float | None]
    target: Mapped[float | None]
    created_by: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime]


class AuditSchedule(_Asked, Base):
    """What is asked about each span; stated before the first of them begins."""

    __tablename__ = "audit_schedules"
    __table_args__ = (sa.UniqueConstraint("detector_id", "name"), of_version())

    every: Mapped[Literal["week", "day", "month"]] = mapped_column(sa.Text)
    time_zone: Mapped[str] = mapped_column(sa.Text)
    # What its audits may go by; None is all there is.
    uses: Mapped[list[str] | None] = mapped_column(sa.JSON(none_as_null=True))
    labels: Mapped[int | None] = mapped_column(BigId)
    stopped_at: Mapped[datetime | None]
    # When its first span begins, and the first one whose set is not frozen yet.
    first_since: Mapped[datetime]
    next_since: Mapped[datetime]
    # Who is asked for the labels of each span.
    labelers: Mapped[list[str]] = text_list()
    # The spans without an audit: when each began, and why.
    skipped: Mapped[list[list[str]]] = text_list()


def find_schedule(session: Session, audit: "Audit") -> AuditSchedule:
    return session.get_one(AuditSchedule, (audit.detector_id, audit.schedule_id))


def list_schedules(session: Session, detector_id: int) -> Sequence[AuditSchedule]:
    own = AuditSchedule.detector_id == detector_id
    return base.list_newest(session, AuditSchedule, own)


def list_running(session: Session) -> list[Key]:
    key = AuditSchedule.detector_id, AuditSchedule.id
    statement = sa.select(*key).where(AuditSchedule.stopped_at.is_(None))
    return [(*row,) for row in session.execute(statement.order_by(AuditSchedule.id))]


class Audit(_Asked, Base):
    """A fixed set of queries, and what is asked about it."""

    __tablename__ = "audits"
    __table_args__ = (
        sa.UniqueConstraint("detector_id", "name"),
        sa.UniqueConstraint("detector_id", "schedule_id", "since"),
        of_version(),
        sa.ForeignKeyConstraint(
            ["detector_id", "schedule_id"],
            [AuditSchedule.detector_id, AuditSchedule.id],
        ),
    )

    # The schedule that made it; of each span at most one.
    schedule_id: Mapped[int | None] = mapped_column(BigId)
    since: Mapped[datetime | None]
    until: Mapped[datetime | None]
    # What is known beside the prediction: confidence, judge:NAME.
    uses: Mapped[list[str]] = mapped_column(sa.JSON)
    # How many labels it may take; None is as many as its goal needs.
    budget: Mapped[int | None] = mapped_column(BigId)
    # What earlier audits taught about each stratum: no evidence, only where to look.
    carried: Mapped[list[list[float]] | None] = mapped_column(
        sa.JSON(none_as_null=True)
    )
    confidence_level: Mapped[float]
    # As they were when the audit began; one that is added later is none of its own.
    classes: Mapped[list[str]] = mapped_column(sa.JSON)
    # Who knows it knows what is drawn next; it is told when the audit is closed.
    secret: Mapped[str] = mapped_column(sa.Text)
    strata: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    queries: Mapped[int] = mapped_column(BigId)
    labels_expected: Mapped[int] = mapped_column(BigId)
    labels_at_random: Mapped[int] = mapped_column(BigId)
    # So many of its first draws have an answer, which is never taken back; counted at
    # the start of each round, so that none has to be looked at again.
    answered: Mapped[int] = mapped_column(BigId, server_default="0")
    # How often it was told that it waits for labels.
    reminders: Mapped[int] = mapped_column(default=0, server_default="0")
    # Nothing is drawn from then on, until it is resumed.
    paused_at: Mapped[datetime | None]
    closed_at: Mapped[datetime | None]
    # What it said when it was closed, as JSON; it never changes again.
    result: Mapped[str | None] = mapped_column(sa.Text)


# Nobody sees an audit until its whole set is written.
_IS_WHOLE = Audit.queries > 0


def of_audit() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["detector_id", "audit_id"], [Audit.detector_id, Audit.id]
    )


class AuditExtension(Base):
    """A narrower aim that was set while the audit went on."""

    __tablename__ = "audit_extensions"
    __table_args__ = (of_audit(),)

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    audit_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    half_width_before: Mapped[float]
    half_width: Mapped[float]
    # How many draws had a label by then.
    labels: Mapped[int] = mapped_column(BigId)
    extended_by: Mapped[str] = mapped_column(sa.Text)
    extended_at: Mapped[datetime]


class AuditItem(Base):
    """A query of the set, in the order in which its stratum is drawn."""

    __tablename__ = "audit_items"
    __table_args__ = (
        of_audit(),
        of_query(),
        # From few queries to their items: SQLite would read all items of a detector,
        # by the key, if this began with the detector, too.
        sa.Index(None, "query_id", "detector_id"),
        index_some(
            "audit_items",
            "audit_id_known",
            "known_from IS NOT NULL",
            "audit_id",
            "known_from",
        ),
        {"sqlite_with_rowid": False},
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    audit_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    stratum: Mapped[int] = mapped_column(primary_key=True)
    rank: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    # The round from which on its label counts without a draw.
    known_from: Mapped[int | None]


class AuditRound(Base):
    """What was written down before the first draw of a round."""

    __tablename__ = "audit_rounds"
    __table_args__ = (of_audit(),)

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    audit_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True)
    frozen: Mapped[str] = mapped_column(sa.Text)
    # What stood when it began, which saves computing it again, and of which labels.
    standing: Mapped[str | None] = mapped_column(sa.Text)
    digest: Mapped[str | None] = mapped_column(sa.Text)
    began_at: Mapped[datetime]


class AuditDraw(Base):
    """A query that was drawn; it stays drawn, whether it is answered or not."""

    __tablename__ = "audit_draws"
    __table_args__ = (
        of_audit(),
        of_query(),
        sa.UniqueConstraint("detector_id", "audit_id", "query_id"),
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


def iter_set(
    session: Session, detector_id: int, conditions: Sequence[Condition]
) -> Iterator[Any]:
    """Stream the queries of a set; of a group the first that arrived stands in it."""
    columns = Query.id, Query.predicted, Query.confidence, Query.label
    statement = sa.select(*columns, Query.version_id, Query.group).where(
        Query.detector_id == detector_id, *(one.test(session) for one in conditions)
    )
    groups: set[tuple[int, str]] = set()
    for row in stream(session, statement.order_by(Query.id), rows=20_000):
        if row.group is None or (row.version_id, row.group) not in groups:
            yield row
        if row.group is not None:
            groups.add((row.version_id, row.group))


def count_set(
    session: Session, detector: Detector, conditions: Sequence[Condition]
) -> int:
    """Count the queries that a set would have if it were frozen now; a group is one."""
    number: sa.ColumnElement[int] = sa.func.count()
    # Without groups an index is all that is read.
    if detector.groups is not None:
        of_group = sa.cast(Query.version_id, sa.Text) + ":" + Query.group
        number = sa.func.count(sa.distinct(of_group))
        number += sa.func.count(sa.case((Query.group.is_(None), 1)))
    statement = sa.select(number).where(
        Query.detector_id == detector.id, *(one.test(session) for one in conditions)
    )
    return session.scalars(statement).one()


def list_audits(
    session: Session,
    detector_id: int,
    *,
    before: int | None = None,
    limit: int | None,
    every: str | None = None,
) -> Sequence[Audit]:
    """Return the audits of a detector, or those made *every* span; the newest first."""
    own = [Audit.detector_id == detector_id, _IS_WHOLE]
    if every is not None:
        made = sa.select(AuditSchedule.id)
        made = made.filter_by(detector_id=detector_id, every=every)
        own.append(Audit.schedule_id.in_(made))
    return base.list_newest(session, Audit, *own, before=before, limit=limit)


def _select_scheduled(schedule: AuditSchedule, *columns: Any) -> sa.Select[Any]:
    of_schedule = {"detector_id": schedule.detector_id, "schedule_id": schedule.id}
    statement = sa.select(*columns).select_from(Audit).filter_by(**of_schedule)
    return statement.where(_IS_WHOLE).order_by(Audit.since.desc())


def list_scheduled(
    session: Session,
    schedule: AuditSchedule,
    *,
    limit: int,
    before: datetime | None = None,
) -> Sequence[Audit]:
    """Return the audits that a schedule made, the newest span first."""
    statement = _select_scheduled(schedule, Audit)
    if before is not None:
        statement = statement.where(Audit.since < before)
    return session.scalars(statement.limit(limit)).all()


def list_results(session: Session, schedule: AuditSchedule) -> Sequence[Any]:
    """Return id, since and result of each audit of a schedule, the newest first."""
    columns = Audit.id, Audit.since, Audit.result
    return session.execute(_select_scheduled(schedule, *columns)).all()


def list_open_scheduled(session: Session, *, are_whole: bool = True) -> Sequence[Audit]:
    """Return open audits of schedules, or what a killed worker left of their sets."""
    are_open = Audit.schedule_id.is_not(None), Audit.closed_at.is_(None)
    return base.list_rows(session, Audit, *are_open, are_whole == _IS_WHOLE)


def discard_piece(session: Session, audit: Audit, most: int) -> bool:
    """Delete some items of an audit that is not whole, or itself; True for more."""
    own = is_of(AuditItem, audit)
    # Read first: PostgreSQL takes a set without statistics for one row, and would look
    # for each of them in all.
    some = session.scalars(sa.select(AuditItem.query_id).where(own).limit(most)).all()
    if some:
        base.delete_rows(session, AuditItem, own, AuditItem.query_id.in_(some))
    else:
        base.delete_rows(session, Audit, detector_id=audit.detector_id, id=audit.id)
    return bool(some)


def is_of(rows_of: Any, audit: Audit) -> sa.ColumnElement[bool]:
    """Return the condition that a row, such as a draw, is of *audit*."""
    is_near = rows_of.detector_id == audit.detector_id
    return sa.and_(is_near, rows_of.audit_id == audit.id)


def list_extensions(session: Session, audit: Audit) -> Sequence[AuditExtension]:
    own = is_of(AuditExtension, audit)
    return base.list_rows(session, AuditExtension, own, order=AuditExtension.number)


def list_rounds(session: Session, audit: Audit) -> Sequence[AuditRound]:
    own = is_of(AuditRound, audit)
    return base.list_rows(session, AuditRound, own, order=AuditRound.number)


def get_last_round(session: Session, audit: Audit) -> AuditRound:
    statement = sa.select(AuditRound).where(is_of(AuditRound, audit))
    statement = statement.order_by(AuditRound.number.desc()).limit(1)
    return session.scalars(statement).one()


def is_awaited(session: Session, query: AnyQuery) -> bool:
    """Return whether a query belongs to an audit that is not closed."""
    statement = (
        sa.select(AuditItem.query_id)
        .join(Audit, Audit.id == AuditItem.audit_id)
        .where(
            is_about(AuditItem, query),
            Audit.detector_id == query.detector_id,
            *(Audit.closed_at.is_(None), _IS_WHOLE),
        )
        .limit(1)
    )
    return session.scalar(statement) is not None


# What was erased before anybody labelled it has no clear answer, and never will.
_IS_GONE = Query.label.is_(None) & Query.erased_at.is_not(None)
_LABEL = sa.case((_IS_GONE, UNCLEAR), else_=Query.label).label("label")
_ANSWER = (
    *(AuditDraw.number, AuditDraw.query_id, AuditDraw.stratum),
    *(Query.key, Query.predicted, Query.confidence, _LABEL, Query.label_id),
)


def list_draws(
    session: Session,
    audit: Audit,
    *,
    numbers: Sequence[int] | None = None,
    in_full: bool = True,
) -> Sequence[Any]:
    """Return the draws of an audit, or those *numbers*, each with its current label.

    ``labeler`` is whose label that is: not the browser that it was reserved for.
    """
    if not in_full:
        # Instants would take longer to read.
        return session.execute(_select_draws(audit, *_ANSWER)).all()
    more = (AuditDraw.rank, Label.labeler, AuditDraw.drawn_at, AuditDraw.until)
    given = Label.detector_id == audit.detector_id
    statement = _select_draws(audit, *_ANSWER, *more).outerjoin(
        Label, (Label.id == Query.label_id) & on_postgresql(given)
    )
    if numbers is not None:
        statement = statement.where(AuditDraw.number.in_(numbers))
    return session.execute(statement).all()


def _select_draws(audit: Audit, *columns: Any) -> sa.Select[Any]:
    drawn = (
        sa.select(*columns).select_from(AuditDraw).join(Query, is_of_query(AuditDraw))
    )
    return drawn.where(is_of(AuditDraw, audit)).order_by(AuditDraw.number)


def list_offered(
    session: Session, audit: Audit, *, labeler: str, at: datetime, limit: int
) -> Sequence[Any]:
    """Return the first open draws that are *labeler*'s, or whose time was up *at*."""
    statement = _select_draws(audit, AuditDraw.number, AuditDraw.query_id).where(
        AuditDraw.number >= audit.answered,
        *(Query.label.is_(None), Query.erased_at.is_(None)),
        (AuditDraw.labeler == labeler) | (AuditDraw.until <= at),
    )
    return session.execute(statement.limit(limit)).all()


def count_drawn(session: Session, audit: Audit) -> Sequence[Any]:
    """Count the draws from each stratum: stratum, how many, the last rank."""
    numbers = sa.func.count(), sa.func.max(AuditDraw.rank)
    statement = sa.select(AuditDraw.stratum, *numbers).where(is_of(AuditDraw, audit))
    return session.execute(statement.group_by(AuditDraw.stratum)).all()


def count_known_items(session: Session, audit: Audit) -> Sequence[Any]:
    """Count what is known without a draw: known_from, stratum, how many."""
    # In the order of the index, or else SQLite reads the whole set by its key.
    keys = (AuditItem.known_from, AuditItem.stratum)
    statement = (
        sa.select(*keys, sa.func.count())
        .where(is_of(AuditItem, audit), AuditItem.known_from >= 0)
        .group_by(*keys)
    )
    return session.execute(statement).all()


def find_next_item(
    session: Session, audit: Audit, stratum: int, *, after: int
) -> tuple[int, int]:
    """Return rank and query of the next in line in a stratum, behind rank *after*."""
    statement = (
        sa.select(AuditItem.rank, AuditItem.query_id)
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
    chosen = is_of(AuditDraw, audit), AuditDraw.number.in_(numbers)
    base.change_rows(session, AuditDraw, *chosen, labeler=labeler, until=until)


def release_draws(
    session: Session, query: Query, labeler: str, *, at: datetime
) -> None:
    """Offer what *labeler* was given of a query to others from then on."""
    theirs = is_about(AuditDraw, query), AuditDraw.labeler == labeler
    base.change_rows(session, AuditDraw, *theirs, until=at)


def set_sampling(
    session: Session, detector_id: int, query_id: int, sampling: str
) -> bool:
    """Say how a query was chosen; False if it has a label already or was erased."""
    is_open = Query.label.is_(None), Query.erased_at.is_(None)
    own = base.are_among(Query, [(detector_id, query_id)])
    return base.change_rows(session, Query, own, *is_open, sampling=sampling) > 0


def count_draws(session: Session, audits: Sequence[Audit]) -> dict[int, int]:
    """Count the answered draws of each audit."""
    statement = (
        sa.select(AuditDraw.audit_id, sa.func.count())
        .join(Query, is_of_query(AuditDraw))
        .where(
            AuditDraw.detector_id.in_({audit.detector_id for audit in audits}),
            AuditDraw.audit_id.in_([audit.id for audit in audits]),
            Query.label.is_not(None) | Query.erased_at.is_not(None),
        )
        .group_by(AuditDraw.audit_id)
    )
    return {row[0]: row[1] for row in session.execute(statement)}


def count_labelers(session: Session, audit: Audit) -> dict[str, int]:
    """Count by whom the current labels of an audit's draws are, the busiest first."""
    newer = aliased(Label)
    is_replaced = sa.select(newer.id).where(
        newer.query_id == Label.query_id,
        on_postgresql(newer.detector_id == audit.detector_id),
        newer.id > Label.id,
    )
    near = on_postgresql(Label.detector_id == audit.detector_id)
    statement = (
        sa.select(Label.labeler, sa.func.count())
        .join(AuditDraw, (AuditDraw.query_id == Label.query_id) & near)
        .where(is_of(AuditDraw, audit), ~is_replaced.exists())
        .group_by(Label.labeler)
        .order_by(sa.func.count().desc(), Label.labeler)
    )
    return {row[0]: row[1] for row in session.execute(statement)}


def count_known(session: Session, audit: Audit) -> Sequence[Any]:
    """Count labels known without a draw, each time with the id of the newest."""
    keys = (AuditItem.known_from, AuditItem.stratum, Query.label)
    statement = (
        sa.select(*keys, sa.func.count(), sa.func.max(Query.label_id))
        .select_from(AuditItem)
        .join(Query, is_of_query(AuditItem))
        .where(is_of(AuditItem, audit), AuditItem.known_from >= 0)
        .group_by(*keys)
    )
    return session.execute(statement).all()


def mark_known(session: Session, audit: Audit, round_number: int) -> None:
    """Let labels that are there without a draw count from this round on."""
    drawn = sa.select(AuditDraw.query_id).where(is_of(AuditDraw, audit))
    # From the few labels to the items: the other way reads the whole set, and SQLite
    # would go it unless it is told that the key does not help.
    labelled = sa.select(Query.id).where(
        Query.detector_id == audit.detector_id, Query.label > ""
    )
    base.change_rows(
        session,
        AuditItem,
        on_postgresql(AuditItem.detector_id == audit.detector_id),
        AuditItem.query_id.in_(labelled),
        AuditItem.audit_id + 0 == audit.id,
        AuditItem.known_from.is_(None),
        AuditItem.query_id.not_in(drawn),
        known_from=round_number,
    )
