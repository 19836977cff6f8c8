"""Audits of a fixed set of queries, and schedules that make one of every span."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Key, Name, TextList, list_newest, stream
from tracker.storage.detectors import Detector, of_version
from tracker.storage.inserting import insert_columns
from tracker.storage.queries.finding import Condition
from tracker.storage.queries.queries import AnyQuery, Query, of_query


class AuditSchedule(Base):
    """What is asked about each span; stated before the first of them begins."""

    __tablename__ = "audit_schedules"
    __table_args__ = (sa.UniqueConstraint("detector_id", "name"), of_version())

    detector_id: Mapped[int] = mapped_column(
        sa.ForeignKey(Detector.id), primary_key=True
    )
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    version_id: Mapped[int | None] = mapped_column(BigId)
    name: Mapped[str] = mapped_column(Name)
    every: Mapped[Literal["week", "day", "month"]] = mapped_column(sa.Text)
    time_zone: Mapped[str] = mapped_column(sa.Text)
    where: Mapped[list[str]] = mapped_column(sa.JSON)
    # What its audits may go by; None is all there is.
    uses: Mapped[list[str] | None] = mapped_column(sa.JSON(none_as_null=True))
    # A class; None is the balanced accuracy.
    aim: Mapped[str | None] = mapped_column(Name)
    half_width: Mapped[float | None]
    labels: Mapped[int | None] = mapped_column(BigId)
    target: Mapped[float | None]
    created_by: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime]
    stopped_at: Mapped[datetime | None]
    # When its first span begins, and the first one whose set is not frozen yet.
    first_since: Mapped[datetime]
    next_since: Mapped[datetime]
    # Who is asked for the labels of each span.
    labelers: Mapped[list[str]] = mapped_column(
        TextList, default=list, server_default=sa.text("'[]'")
    )
    # The spans without an audit: when each began, and why.
    skipped: Mapped[list[list[str]]] = mapped_column(
        TextList, default=list, server_default=sa.text("'[]'")
    )


def find_schedule(session: Session, audit: "Audit") -> AuditSchedule:
    """Return the schedule that made an audit."""
    key = audit.detector_id, audit.schedule_id
    return session.get_one(AuditSchedule, key)


def list_schedules(session: Session, detector_id: int) -> Sequence[AuditSchedule]:
    """Return the schedules of a detector, the newest first."""
    statement = sa.select(AuditSchedule).where(AuditSchedule.detector_id == detector_id)
    return session.scalars(statement.order_by(AuditSchedule.id.desc())).all()


def list_running(session: Session) -> list[Key]:
    key = AuditSchedule.detector_id, AuditSchedule.id
    statement = sa.select(*key).where(AuditSchedule.stopped_at.is_(None))
    return [(*row,) for row in session.execute(statement.order_by(AuditSchedule.id))]


_KNOWN = sa.text("known_from IS NOT NULL")


class Audit(Base):
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

    detector_id: Mapped[int] = mapped_column(
        sa.ForeignKey(Detector.id), primary_key=True
    )
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    version_id: Mapped[int | None] = mapped_column(BigId)
    # The schedule that made it; of each span at most one.
    schedule_id: Mapped[int | None] = mapped_column(BigId)
    name: Mapped[str] = mapped_column(Name)
    since: Mapped[datetime | None]
    until: Mapped[datetime | None]
    where: Mapped[list[str]] = mapped_column(sa.JSON)
    # What is known beside the prediction: confidence, judge:NAME.
    uses: Mapped[list[str]] = mapped_column(sa.JSON)
    # A class; None is the balanced accuracy.
    aim: Mapped[str | None] = mapped_column(Name)
    half_width: Mapped[float | None]
    target: Mapped[float | None]
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
    created_by: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime]
    # Nothing is drawn from then on, until it is resumed.
    paused_at: Mapped[datetime | None]
    closed_at: Mapped[datetime | None]
    # What it said when it was closed, as JSON; it never changes again.
    result: Mapped[str | None] = mapped_column(sa.Text)


def of_audit() -> sa.ForeignKeyConstraint:
    """Return the constraint that a row is of an audit of the same detector."""
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
        sa.Index(
            "ix_audit_items_detector_id_audit_id_known",
            "detector_id",
            "audit_id",
            "known_from",
            sqlite_where=_KNOWN,
            postgresql_where=_KNOWN,
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


def iter_set(  # noqa: PLR0913 - one argument for each cut of the set.
    session: Session,
    detector_id: int,
    *,
    version_id: int | None,
    since: datetime | None,
    until: datetime | None,
    where: Sequence[Condition],
    arrived_before: datetime | None = None,
) -> Iterator[Any]:
    """Stream the queries of a set: id, predicted, confidence and label.

    Of those of a group the first that arrived stands in the set.
    """
    conditions = _tests_of_set(detector_id, version_id, since, until)
    if arrived_before is not None:
        conditions.append(Query.created_at < arrived_before)
    conditions += [condition.test(session) for condition in where]
    columns = Query.id, Query.predicted, Query.confidence, Query.label
    statement = sa.select(*columns, Query.version_id, Query.group).where(*conditions)
    groups: set[tuple[int, str]] = set()
    for row in stream(session, statement.order_by(Query.id), rows=20_000):
        if row.group is None or (row.version_id, row.group) not in groups:
            yield row
        if row.group is not None:
            groups.add((row.version_id, row.group))


def count_set(session: Session, audit: Audit, where: Sequence[Condition]) -> int:
    """Count the queries that an audit's set would have if it were frozen now.

    Those of a group are one.
    """
    conditions = _tests_of_set(
        audit.detector_id, audit.version_id, audit.since, audit.until
    )
    conditions += [condition.test(session) for condition in where]
    of_group = sa.cast(Query.version_id, sa.Text) + ":" + Query.group
    number = sa.func.count(sa.distinct(of_group)) + sa.func.count(
        sa.case((Query.group.is_(None), 1))
    )
    return session.scalars(sa.select(number).where(*conditions)).one()


def _tests_of_set(
    detector_id: int,
    version_id: int | None,
    since: datetime | None,
    until: datetime | None,
) -> list[sa.ColumnElement[bool]]:
    conditions = [Query.detector_id == detector_id]
    if version_id is not None:
        conditions.append(Query.version_id == version_id)
    if since is not None:
        conditions.append(Query.asked_at >= since)
    if until is not None:
        conditions.append(Query.asked_at < until)
    return conditions


def add_items(session: Session, columns: dict[str, Sequence[Any]]) -> None:
    insert_columns(session, AuditItem, columns)


_Named = TypeVar("_Named", Audit, AuditSchedule)


def is_name_taken(
    session: Session, rows_of: type[_Named], detector_id: int, name: str
) -> bool:
    statement = sa.select(rows_of.id).where(
        rows_of.detector_id == detector_id, rows_of.name == name
    )
    return session.scalar(statement) is not None


def lock_one(session: Session, rows_of: type[_Named], key: Key) -> _Named:
    """Return an audit or schedule that nobody else goes on with in the meantime."""
    options: Any = {"with_for_update": True, "populate_existing": True}
    return session.get_one(rows_of, key, **options)


def list_audits(
    session: Session,
    detector_id: int,
    *,
    before: int | None = None,
    limit: int | None,
    every: str | None = None,
) -> Sequence[Audit]:
    """Return the audits of a detector, or those made *every* span; the newest first."""
    own = [Audit.detector_id == detector_id]
    if every is not None:
        made = sa.select(AuditSchedule.id).where(
            AuditSchedule.detector_id == detector_id, AuditSchedule.every == every
        )
        own.append(Audit.schedule_id.in_(made))
    return list_newest(session, Audit, *own, before=before, limit=limit)


def _is_made_by(schedule: AuditSchedule) -> sa.ColumnElement[bool]:
    is_near = Audit.detector_id == schedule.detector_id
    return is_near & (Audit.schedule_id == schedule.id)


def list_scheduled(
    session: Session,
    schedule: AuditSchedule,
    *,
    limit: int,
    before: datetime | None = None,
) -> Sequence[Audit]:
    """Return the audits that a schedule made, the newest span first."""
    statement = sa.select(Audit).where(_is_made_by(schedule))
    if before is not None:
        statement = statement.where(Audit.since < before)
    return session.scalars(statement.order_by(Audit.since.desc()).limit(limit)).all()


def list_results(session: Session, schedule: AuditSchedule) -> Sequence[Any]:
    """Return id, since and result of each audit of a schedule, the newest first."""
    columns = Audit.id, Audit.since, Audit.result
    statement = sa.select(*columns).where(_is_made_by(schedule))
    return session.execute(statement.order_by(Audit.since.desc())).all()


def list_open_scheduled(session: Session) -> Sequence[Audit]:
    """Return the audits that schedules made and that are not closed."""
    statement = sa.select(Audit).where(
        Audit.schedule_id.is_not(None), Audit.closed_at.is_(None)
    )
    return session.scalars(statement.order_by(Audit.id)).all()


def is_of(rows_of: Any, audit: Audit) -> sa.ColumnElement[bool]:
    """Return the condition that a row, such as a draw, is of *audit*."""
    is_near = rows_of.detector_id == audit.detector_id
    return sa.and_(is_near, rows_of.audit_id == audit.id)


def list_extensions(session: Session, audit: Audit) -> Sequence[AuditExtension]:
    statement = sa.select(AuditExtension).where(is_of(AuditExtension, audit))
    return session.scalars(statement.order_by(AuditExtension.number)).all()


def list_rounds(session: Session, audit: Audit) -> Sequence[AuditRound]:
    statement = sa.select(AuditRound).where(is_of(AuditRound, audit))
    return session.scalars(statement.order_by(AuditRound.number)).all()


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
            AuditItem.detector_id == query.detector_id,
            AuditItem.query_id == query.id,
            Audit.detector_id == query.detector_id,
            Audit.closed_at.is_(None),
        )
        .limit(1)
    )
    return session.scalar(statement) is not None
