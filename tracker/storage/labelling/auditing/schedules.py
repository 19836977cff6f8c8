"""Schedules, each of which makes an audit of every week, day or month."""

from collections.abc import Sequence
from datetime import datetime
from typing import Literal

from sqlalchemy import JSON, ForeignKey, Text, UniqueConstraint, select, text
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, TextList
from tracker.storage.detectors import Detector, Version


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
