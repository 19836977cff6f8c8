"""The watch for drift of each version: what it needs of all labels so far."""

from collections.abc import Collection, Mapping
from typing import Any

from sqlalchemy import JSON, ForeignKey, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base
from tracker.storage.detectors import Version
from tracker.storage.dialect import upsert


class DriftWatch(Base):
    """The state of the watch of one version."""

    __tablename__ = "drift_watches"

    version_id: Mapped[int] = mapped_column(
        ForeignKey(Version.id), primary_key=True, autoincrement=False
    )
    state: Mapped[dict[str, Any]] = mapped_column(JSON)
    # What the labels of today would raise, once many were corrected.
    replay: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))


def load_watches(
    session: Session, version_ids: Collection[int]
) -> dict[int, DriftWatch]:
    """Return the watch of each version that has one."""
    statement = select(DriftWatch).where(DriftWatch.version_id.in_(version_ids))
    return {one.version_id: one for one in session.scalars(statement)}


def store_watches(session: Session, states: Mapping[int, dict[str, Any]]) -> None:
    """Write the state of the watch of each version, and leave its replay as it is."""
    rows = [{"version_id": one, "state": states[one]} for one in sorted(states)]
    upsert(session, DriftWatch, rows)


def store_replay(session: Session, version_id: int, replay: dict[str, Any]) -> None:
    """Write the replay of a version that is watched."""
    statement = update(DriftWatch).where(DriftWatch.version_id == version_id)
    session.execute(statement.values(replay=replay))
