"""Archiving detectors, and bringing them back."""

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.by import By
from tracker.services.wording import show
from tracker.storage.detectors import Detector


def archive_detector(session: Session, detector: Detector, by: By) -> None:
    """Hide a detector from the lists and free its name; nothing is lost."""
    detector.archived_at = detector.archived_at or by.at
    by.record(session, "detector archived", detector.name)


def bring_back_detector(session: Session, detector: Detector, by: By) -> None:
    """Put an archived detector back into the lists, with all that it had.

    Raises ConflictError if another detector has taken its name.
    """
    name = detector.name
    detector.archived_at = None
    try:
        session.flush()
    except IntegrityError as error:
        raise ConflictError(
            f"another detector is named {show(name)} by now; give that one another "
            "name or archive it first"
        ) from error
    by.record(session, "detector brought back", name)
