"""Resampling studies and their rounds; append-only."""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, list_newest, owner


class Study(Base):
    """An experiment that trained a detector many times."""

    __tablename__ = "studies"
    __table_args__ = (
        sa.UniqueConstraint("detector_id", "name"),
        sa.CheckConstraint("kind IN ('bootstrap', 'seeds')", name="kind"),
    )

    detector_id: Mapped[int] = owner("detectors")
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(Name)
    kind: Mapped[str] = mapped_column(sa.Text)
    # By name: a version is studied before its first query arrives.
    version: Mapped[str | None] = mapped_column(Name)
    note: Mapped[str | None] = mapped_column(sa.Text)
    # How many there are.
    rounds: Mapped[int] = mapped_column(BigId)
    added_by: Mapped[str] = mapped_column(sa.Text)
    created_at: Mapped[datetime]


class StudyRound(Base):
    """The accuracies of one training; all rounds of a study have the same ones."""

    __tablename__ = "study_rounds"
    __table_args__ = (
        sa.ForeignKeyConstraint(
            ["detector_id", "study_id"], [Study.detector_id, Study.id]
        ),
        {"sqlite_with_rowid": False},
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    study_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    number: Mapped[int] = mapped_column(BigId, primary_key=True)
    accuracy: Mapped[float | None]
    validation: Mapped[float | None]
    training: Mapped[float | None]
    no_information: Mapped[float | None]


def list_studies(
    session: Session,
    detector_id: int,
    *,
    before: int | None = None,
    limit: int | None = None,
) -> Sequence[Study]:
    own = Study.detector_id == detector_id
    return list_newest(session, Study, own, before=before, limit=limit)


def list_rounds(session: Session, study: Study) -> Sequence[Any]:
    """Return the rounds of a study in order: every accuracy, None where not given."""
    columns = (StudyRound.accuracy, StudyRound.validation, StudyRound.training)
    found = sa.select(*columns, StudyRound.no_information)
    own = found.filter_by(detector_id=study.detector_id, study_id=study.id)
    return session.execute(own.order_by(StudyRound.number)).all()
