"""Assignments: an editor asks a person for labels, and sees how far they are."""

from typing import Annotated

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.by import By
from tracker.services.fields import Input, Instant, KeyName
from tracker.services.wording import missing
from tracker.shapes import Shape
from tracker.storage.detectors import Detector
from tracker.storage.labelling import assignments as storage
from tracker.words import EDITOR

MOST_LABELS = 1_000_000


class Assignee(Input):
    """Whose assignment."""

    labeler: KeyName = Field(description="The name under which the person labels.")


class NewAssignment(Assignee):
    """How many labels a person is asked for."""

    labels: Annotated[int, Field(ge=1, le=MOST_LABELS)] = Field(
        description="How many queries to label, counted from now on."
    )


class Assignment(Shape):
    """How many labels a person is asked for, and how many they have given."""

    labeler: str
    labels: int
    done: int = Field(
        description="Queries that the person has labelled since then one by one, on "
        "pages or by API; a change of their own label is not counted again."
    )
    made_by: str
    made_at: Instant


def assign(
    session: Session, detector: Detector, new: NewAssignment, by: By
) -> Assignment:
    """Ask a person for a number of labels, counted from now on.

    This replaces what they were asked for before.
    """
    found = storage.find_assignment(session, detector.id, new.labeler)
    if found is None:
        found = storage.Assignment(detector_id=detector.id, labeler=new.labeler)
        session.add(found)
    found.labels, found.done = new.labels, 0
    found.made_by, found.made_at = by.name, by.at
    session.flush()
    by.record(
        session, "labels assigned", detector.name, labeler=new.labeler, count=new.labels
    )
    return Assignment.from_row(found)


def end_assignment(session: Session, detector: Detector, labeler: str, by: By) -> None:
    """End a person's assignment; raises NotFoundError if there is none."""
    found = storage.find_assignment(session, detector.id, labeler)
    if found is None:
        raise missing("assignment", labeler)
    session.delete(found)
    session.flush()
    by.record(session, "assignment ended", detector.name, labeler=labeler)


def list_assignments(session: Session, detector: Detector, by: By) -> list[Assignment]:
    """Return what each person is asked for; labelers see only their own."""
    return [
        Assignment.from_row(one)
        for one in storage.list_assignments(session, detector.id)
        if by.may(EDITOR) or one.labeler == by.name
    ]
