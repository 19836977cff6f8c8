"""Assignments: how many labels one person is asked for, and how many they gave."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name
from tracker.storage.detectors import Detector
from tracker.storage.labels import Label

_IN_PLACE = {"synchronize_session": False}


class Assignment(Base):
    """So many labels of a detector that a person is asked for."""

    __tablename__ = "assignments"

    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id), primary_key=True)
    labeler: Mapped[str] = mapped_column(Name, primary_key=True)
    labels: Mapped[int] = mapped_column(BigId)
    # Counted with each label: to count the labels of one person takes reading all.
    done: Mapped[int] = mapped_column(BigId, default=0)
    made_by: Mapped[str] = mapped_column(Name)
    made_at: Mapped[datetime]


def find_assignment(
    session: Session, detector_id: int, labeler: str
) -> Assignment | None:
    """Return what a person is asked for."""
    return session.get(Assignment, (detector_id, labeler))


def list_assignments(session: Session, detector_id: int) -> Sequence[Assignment]:
    """Return what each person is asked for, by name."""
    statement = (
        select(Assignment)
        .where(Assignment.detector_id == detector_id)
        .order_by(Assignment.labeler)
    )
    return session.scalars(statement).all()


def count_label(session: Session, row: Mapping[str, Any]) -> None:
    """Count the label *row* for its labeler, unless it replaces their own."""
    own = select(Label.id).where(
        Label.id == row["replaces_id"],
        Label.detector_id == row["detector_id"],
        Label.labeler == row["labeler"],
    )
    statement = update(Assignment).where(
        Assignment.detector_id == row["detector_id"],
        Assignment.labeler == row["labeler"],
        *([] if row["replaces_id"] is None else [~own.exists()]),
    )
    done = Assignment.done + 1
    session.execute(statement.values(done=done), execution_options=_IN_PLACE)
