"""Archiving and restoring detectors."""

from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.by import By
from tracker.services.wording import show
from tracker.storage.detectors import Detector


def archive_detector(session: Session, detector: Detector, by: By) -> None:
    detector.archived_at = detector.archived_at or by.at
    by.record(session, "detector archived", detector.name)


def bring_back_detector(session: Session, detector: Detector, by: By) -> None:
    """Restore an archived detector with all its data.

    Raises ConflictError if another detector has taken its name.
    """
    name = detector.name
    detector.archived_at = None
    try:
        session.flush()
    except IntegrityError as error:
        raise ConflictError(
            f"another detector is now named {show(name)}; rename or archive that one "
            "first"
        ) from error
    by.record(session, "detector brought back", name)
