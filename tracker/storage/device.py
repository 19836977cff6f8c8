"""Settings and groups of the device API."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import JSON, Text, func, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, find_row, owner
from tracker.storage.dialect import lock
from tracker.storage.queries.queries import Query


class DeviceSettings(Base):
    """The settings of a detector; without a row it has the defaults."""

    __tablename__ = "device_settings"

    detector_id: Mapped[int] = owner("detectors")
    group_name: Mapped[str] = mapped_column(Name)
    confidence_threshold: Mapped[float]
    patience_time: Mapped[float]
    status: Mapped[str] = mapped_column(Text)
    escalation_type: Mapped[str] = mapped_column(Text)
    mode: Mapped[str] = mapped_column(Text)
    mode_configuration: Mapped[dict[str, Any] | None] = mapped_column(
        JSON(none_as_null=True)
    )
    details: Mapped[str | None] = mapped_column("metadata", Text)


class DetectorGroup(Base):
    """A named group of detectors."""

    __tablename__ = "detector_groups"
    __table_args__ = ({"sqlite_autoincrement": True},)

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(Name, unique=True)
    created_at: Mapped[datetime]


def add_group(
    session: Session, name: str, *, created_at: datetime
) -> tuple[DetectorGroup, bool]:
    """Return the group named *name*, and whether it is new."""
    lock(session, f"detector group {name}")
    group = find_row(session, DetectorGroup, name=name)
    if group is not None:
        return group, False
    group = DetectorGroup(name=name, created_at=created_at)
    session.add(group)
    session.flush()
    return group, True


def count_answers(
    session: Session, detector_id: int, *, threshold: float
) -> Sequence[Any]:
    """Count queries by what was said; those below *threshold* are unsure."""
    is_unsure = func.coalesce(Query.confidence, 0) < threshold
    columns = (Query.predicted, Query.label, is_unsure.label("is_unsure"))
    statement = (
        select(*columns, func.count().label("number"))
        .where(Query.detector_id == detector_id)
        .group_by(*columns)
    )
    return session.execute(statement).all()


def count_since(
    session: Session, detector_ids: Sequence[int], *, since: datetime
) -> dict[int, int]:
    """Count the queries asked since an instant, by detector."""
    statement = (
        select(Query.detector_id, func.count())
        .where(Query.detector_id.in_(detector_ids), Query.asked_at >= since)
        .group_by(Query.detector_id)
    )
    return {row[0]: row[1] for row in session.execute(statement)}
