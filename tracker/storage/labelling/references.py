"""References: what is true of inputs that nothing was predicted for yet."""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import CheckConstraint, ForeignKey, Text, delete, func, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name
from tracker.storage.detectors import Detector
from tracker.storage.inserting import insert_rows
from tracker.storage.queries.lookup import look_up
from tracker.words import SAMPLINGS


class Reference(Base):
    """The label of an input, which queries with that input take over."""

    __tablename__ = "input_references"
    __table_args__ = (
        CheckConstraint(f"sampling IN {SAMPLINGS}", name="sampling"),
        {"sqlite_with_rowid": False},
    )

    detector_id: Mapped[int] = mapped_column(
        BigId, ForeignKey(Detector.id), primary_key=True, autoincrement=False
    )
    input: Mapped[str] = mapped_column(Name, primary_key=True)
    label: Mapped[str] = mapped_column(Name)
    sampling: Mapped[str] = mapped_column(Text)
    labeler: Mapped[str] = mapped_column(Text)
    labelled_at: Mapped[datetime]
    created_at: Mapped[datetime]


def find_references(
    session: Session, detector_id: int, inputs: Collection[str]
) -> dict[str, Any]:
    """Return the references of those of *inputs* that have one, as rows."""
    statement = select(*Reference.__table__.c).where(
        Reference.detector_id == detector_id
    )
    return {
        row.input: row
        for row in look_up(session, statement, Reference.input, [*inputs])
    }


def count_references(session: Session, detector_id: int) -> int:
    """Count the references of a detector."""
    statement = select(func.count()).where(Reference.detector_id == detector_id)
    return session.execute(statement.select_from(Reference)).scalar_one()


def put_references(
    session: Session,
    new: Sequence[Mapping[str, Any]],
    changed: Sequence[dict[str, Any]],
) -> None:
    """Add *new* references, and change others; their inputs are locked."""
    if new:
        insert_rows(session, Reference, new)
    if changed:
        session.execute(update(Reference), list(changed))


def delete_reference(session: Session, detector_id: int, name: str) -> None:
    """Delete the reference of an input, if it has one."""
    session.execute(
        delete(Reference).where(
            Reference.detector_id == detector_id, Reference.input == name
        )
    )
