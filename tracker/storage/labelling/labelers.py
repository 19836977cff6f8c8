"""The people who label: what each is asked for, and what each said."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import ForeignKey, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, on_postgresql
from tracker.storage.detectors import Detector
from tracker.storage.labelling.rechecks import Recheck, RecheckSet
from tracker.storage.labels import Label, is_of_query
from tracker.storage.queries.queries import Query
from tracker.words import GROUPED, REPEAT, TARGETED


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
    return session.get(Assignment, (detector_id, labeler))


def list_assignments(session: Session, detector_id: int) -> Sequence[Assignment]:
    statement = (
        select(Assignment)
        .where(Assignment.detector_id == detector_id)
        .order_by(Assignment.labeler)
    )
    return session.scalars(statement).all()


def list_asked(session: Session, labeler: str) -> Sequence[tuple[Assignment, str]]:
    """Return what a person is asked for and has not done, with each detector's name."""
    statement = (
        select(Assignment, Detector.name)
        .join(Detector, Detector.id == Assignment.detector_id)
        .where(
            Assignment.labeler == labeler,
            Assignment.done < Assignment.labels,
            Detector.archived_at.is_(None),
        )
        .order_by(Detector.name)
    )
    return [(asked, name) for asked, name in session.execute(statement)]


def count_assigned_label(session: Session, row: Mapping[str, Any]) -> None:
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
    session.execute(statement.values(done=done))


def list_rechecked(session: Session, detector_id: int) -> Sequence[Any]:
    """Return the labels that were given a second time, as they were answered.

    Each row has ``labeler`` and ``label`` of the first, ``second``, ``answer`` and
    ``is_trusted`` of the second label.  Those of one input in several versions stand
    in it once.  What was drawn because its label differs from the prediction is left
    out, so that they are a random part of the labels.
    """
    near = on_postgresql(Label.detector_id == Recheck.detector_id)
    source = Label.source_label_id
    statement = (
        select(
            Label.id,
            source.label("source_id"),
            Label.labeler,
            Recheck.label,
            Recheck.labeler.label("second"),
            Recheck.answer,
            Recheck.is_trusted,
        )
        .join(Label, (Label.id == Recheck.label_id) & near)
        .join(RecheckSet, RecheckSet.version_id == Recheck.version_id)
        .where(
            RecheckSet.detector_id == detector_id,
            Recheck.detector_id == detector_id,
            Recheck.clock <= RecheckSet.reached,
            Recheck.answered_at.is_not(None),
        )
        .order_by(Recheck.answered_at, Recheck.query_id)
    )
    once = {row.source_id or row.id: row for row in session.execute(statement)}
    return list(once.values())


def list_words(session: Session, detector_id: int, *, limit: int) -> Sequence[Any]:
    """Return the labels of the newest *limit* queries that several people labelled.

    Each row has ``query_id``, ``agreement`` and ``is_current``, ``labeler`` and
    ``label`` of the label; those of a query in the order they were given.
    """
    newest = (
        select(Query.id)
        .where(
            Query.detector_id == detector_id,
            Query.agreement.is_not(None),
            # Each input and each group once.
            Query.standing.not_in((REPEAT, GROUPED)),
        )
        .order_by(Query.id.desc())
        .limit(limit)
    )
    statement = (
        select(
            Label.query_id,
            Query.agreement,
            (Query.label_id == Label.id).label("is_current"),
            Label.labeler,
            Label.label,
        )
        .join(Query, is_of_query())
        .where(
            Query.detector_id == detector_id,
            Query.id.in_(newest),
            Label.sampling != TARGETED,
            Label.source_label_id.is_(None),
        )
        .order_by(Label.query_id, Label.id)
    )
    return session.execute(statement).all()
