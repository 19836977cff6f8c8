"""Audits of a fixed set of queries, and schedules that make one of every span."""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Literal

from sqlalchemy import (
    JSON,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    Text,
    UniqueConstraint,
    case,
    cast,
    distinct,
    func,
    select,
    text,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, TextList, list_newest, stream
from tracker.storage.detectors import Detector, Version
from tracker.storage.inserting import insert_columns
from tracker.storage.queries.finding import Condition
from tracker.storage.queries.queries import Query


class AuditSchedule(Base):
    """What is asked about each span; stated before the first of them begins."""

    __tablename__ = "audit_schedules"
    __table_args__ = (
        UniqueConstraint("detector_id", "name"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id))
    version_id: Mapped[int | None] = mapped_column(ForeignKey(Version.id))
    name: Mapped[str] = mapped_column(Name)
    every: Mapped[Literal["week", "day", "month"]] = mapped_column(Text)
    time_zone: Mapped[str] = mapped_column(Text)
    where: Mapped[list[str]] = mapped_column(JSON)
    # What its audits may go by; None is all there is.
    uses: Mapped[list[str] | None] = mapped_column(JSON(none_as_null=True))
    # A class; None is the balanced accuracy.
    aim: Mapped[str | None] = mapped_column(Name)
    half_width: Mapped[float | None]
    labels: Mapped[int | None] = mapped_column(BigId)
    target: Mapped[float | None]
    created_by: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    stopped_at: Mapped[datetime | None]
    # When its first span begins, and the first one whose set is not frozen yet.
    first_since: Mapped[datetime]
    next_since: Mapped[datetime]
    # Who is asked for the labels of each span.
    labelers: Mapped[list[str]] = mapped_column(
        TextList, default=list, server_default=text("'[]'")
    )
    # The spans without an audit: when each began, and why.
    skipped: Mapped[list[list[str]]] = mapped_column(
        TextList, default=list, server_default=text("'[]'")
    )


def find_schedule_by_name(
    session: Session, detector_id: int, name: str
) -> AuditSchedule | None:
    statement = select(AuditSchedule).where(
        AuditSchedule.detector_id == detector_id, AuditSchedule.name == name
    )
    return session.scalars(statement).one_or_none()


def lock_schedule(session: Session, schedule_id: int) -> AuditSchedule:
    """Return a schedule that nobody else goes on with before this transaction ends."""
    statement = select(AuditSchedule).where(AuditSchedule.id == schedule_id)
    statement = statement.with_for_update().execution_options(populate_existing=True)
    return session.scalars(statement).one()


def list_schedules(session: Session, detector_id: int) -> Sequence[AuditSchedule]:
    """Return the schedules of a detector, the newest first."""
    statement = select(AuditSchedule).where(AuditSchedule.detector_id == detector_id)
    return session.scalars(statement.order_by(AuditSchedule.id.desc())).all()


def list_running(session: Session) -> Sequence[int]:
    statement = select(AuditSchedule.id).where(AuditSchedule.stopped_at.is_(None))
    return session.scalars(statement.order_by(AuditSchedule.id)).all()


_KNOWN = text("known_from IS NOT NULL")


def of_query() -> ForeignKeyConstraint:
    """Return the constraint that a row is of a query of the same detector."""
    return ForeignKeyConstraint(
        ["query_id", "detector_id"], [Query.id, Query.detector_id]
    )


class Audit(Base):
    """A fixed set of queries, and what is asked about it."""

    __tablename__ = "audits"
    __table_args__ = (
        UniqueConstraint("detector_id", "name"),
        UniqueConstraint("schedule_id", "since"),
        Index(None, "detector_id", "id"),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id))
    version_id: Mapped[int | None] = mapped_column(ForeignKey(Version.id))
    # The schedule that made it; of each span at most one.
    schedule_id: Mapped[int | None] = mapped_column(ForeignKey(AuditSchedule.id))
    name: Mapped[str] = mapped_column(Name)
    since: Mapped[datetime | None]
    until: Mapped[datetime | None]
    where: Mapped[list[str]] = mapped_column(JSON)
    # What is known beside the prediction: confidence, judge:NAME.
    uses: Mapped[list[str]] = mapped_column(JSON)
    # A class; None is the balanced accuracy.
    aim: Mapped[str | None] = mapped_column(Name)
    half_width: Mapped[float | None]
    target: Mapped[float | None]
    # How many labels it may take; None is as many as its goal needs.
    budget: Mapped[int | None] = mapped_column(BigId)
    # What earlier audits taught about each stratum: no evidence, only where to look.
    carried: Mapped[list[list[float]] | None] = mapped_column(JSON(none_as_null=True))
    confidence_level: Mapped[float]
    # As they were when the audit began; one that is added later is none of its own.
    classes: Mapped[list[str]] = mapped_column(JSON)
    # Who knows it knows what is drawn next; it is told when the audit is closed.
    secret: Mapped[str] = mapped_column(Text)
    strata: Mapped[dict[str, Any]] = mapped_column(JSON)
    queries: Mapped[int] = mapped_column(BigId)
    labels_expected: Mapped[int] = mapped_column(BigId)
    labels_at_random: Mapped[int] = mapped_column(BigId)
    # So many of its first draws have an answer, which is never taken back; counted at
    # the start of each round, so that none has to be looked at again.
    answered: Mapped[int] = mapped_column(BigId, server_default="0")
    # How often it was told that it waits for labels.
    reminders: Mapped[int] = mapped_column(default=0, server_default="0")
    created_by: Mapped[str] = mapped_column(Text)
    created_at: Mapped[datetime]
    # Nothing is drawn from then on, until it is resumed.
    paused_at: Mapped[datetime | None]
    closed_at: Mapped[datetime | None]
    # What it said when it was closed, as JSON; it never changes again.
    result: Mapped[str | None] = mapped_column(Text)


class AuditExtension(Base):
    """A narrower aim that was set while the audit went on."""

    __tablename__ = "audit_extensions"

    audit_id: Mapped[int] = mapped_column(ForeignKey(Audit.id), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    half_width_before: Mapped[float]
    half_width: Mapped[float]
    # How many draws had a label by then.
    labels: Mapped[int] = mapped_column(BigId)
    extended_by: Mapped[str] = mapped_column(Text)
    extended_at: Mapped[datetime]


class AuditItem(Base):
    """A query of the set, in the order in which its stratum is drawn."""

    __tablename__ = "audit_items"
    __table_args__ = (
        of_query(),
        Index(None, "query_id"),
        Index(
            "ix_audit_items_audit_id_known",
            "audit_id",
            "known_from",
            sqlite_where=_KNOWN,
            postgresql_where=_KNOWN,
        ),
        {"sqlite_with_rowid": False},
    )

    audit_id: Mapped[int] = mapped_column(ForeignKey(Audit.id), primary_key=True)
    stratum: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    rank: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    query_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    detector_id: Mapped[int] = mapped_column(BigId)
    # The round from which on its label counts without a draw.
    known_from: Mapped[int | None]


class AuditRound(Base):
    """What was written down before the first draw of a round."""

    __tablename__ = "audit_rounds"

    audit_id: Mapped[int] = mapped_column(ForeignKey(Audit.id), primary_key=True)
    number: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    frozen: Mapped[str] = mapped_column(Text)
    # What stood when it began, which saves computing it again, and of which labels.
    standing: Mapped[str | None] = mapped_column(Text)
    digest: Mapped[str | None] = mapped_column(Text)
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
    statement = select(*columns, Query.version_id, Query.group).where(*conditions)
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
    of_group = cast(Query.version_id, Text) + ":" + Query.group
    number = func.count(distinct(of_group)) + func.count(
        case((Query.group.is_(None), 1))
    )
    return session.scalars(select(number).where(*conditions)).one()


def _tests_of_set(
    detector_id: int,
    version_id: int | None,
    since: datetime | None,
    until: datetime | None,
) -> list[ColumnElement[bool]]:
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


def find_audit(session: Session, audit_id: int) -> Audit | None:
    return session.get(Audit, audit_id)


def find_audit_by_name(session: Session, detector_id: int, name: str) -> Audit | None:
    statement = select(Audit).where(
        Audit.detector_id == detector_id, Audit.name == name
    )
    return session.scalars(statement).one_or_none()


def lock_audit(session: Session, audit_id: int) -> Audit:
    """Return an audit from which nobody else draws before this transaction ends."""
    statement = select(Audit).where(Audit.id == audit_id).with_for_update()
    statement = statement.execution_options(populate_existing=True)
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
    own = [Audit.detector_id == detector_id]
    if every is not None:
        made = select(AuditSchedule.id).where(AuditSchedule.every == every)
        own.append(Audit.schedule_id.in_(made))
    return list_newest(session, Audit, *own, before=before, limit=limit)


def list_scheduled(
    session: Session, schedule_id: int, *, limit: int, before: datetime | None = None
) -> Sequence[Audit]:
    """Return the audits that a schedule made, the newest span first."""
    statement = select(Audit).where(Audit.schedule_id == schedule_id)
    if before is not None:
        statement = statement.where(Audit.since < before)
    return session.scalars(statement.order_by(Audit.since.desc()).limit(limit)).all()


def list_results(session: Session, schedule_id: int) -> Sequence[Any]:
    """Return id, since and result of each audit of a schedule, the newest first."""
    columns = Audit.id, Audit.since, Audit.result
    statement = select(*columns).where(Audit.schedule_id == schedule_id)
    return session.execute(statement.order_by(Audit.since.desc())).all()


def list_open_scheduled(session: Session) -> Sequence[int]:
    """Return the ids of the audits that schedules made and that are not closed."""
    statement = select(Audit.id).where(
        Audit.schedule_id.is_not(None), Audit.closed_at.is_(None)
    )
    return session.scalars(statement.order_by(Audit.id)).all()


def list_extensions(session: Session, audit_id: int) -> Sequence[AuditExtension]:
    statement = select(AuditExtension).where(AuditExtension.audit_id == audit_id)
    return session.scalars(statement.order_by(AuditExtension.number)).all()


def list_rounds(session: Session, audit_id: int) -> Sequence[AuditRound]:
    statement = select(AuditRound).where(AuditRound.audit_id == audit_id)
    return session.scalars(statement.order_by(AuditRound.number)).all()


def get_last_round(session: Session, audit_id: int) -> AuditRound:
    statement = select(AuditRound).where(AuditRound.audit_id == audit_id)
    statement = statement.order_by(AuditRound.number.desc()).limit(1)
    return session.scalars(statement).one()


def is_awaited(session: Session, query_id: int) -> bool:
    """Return whether a query belongs to an audit that is not closed."""
    statement = (
        select(AuditItem.query_id)
        .join(Audit, Audit.id == AuditItem.audit_id)
        .where(AuditItem.query_id == query_id, Audit.closed_at.is_(None))
        .limit(1)
    )
    return session.scalar(statement) is not None
