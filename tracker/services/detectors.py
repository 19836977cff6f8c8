"""Making, changing and archiving detectors, and finding them."""

from datetime import datetime
from typing import Any

from pydantic import Field
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError, NotFoundError
from tracker.services.fields import (
    UNCLEAR,
    Classes,
    DetectorName,
    Input,
    LabelsWanted,
    Level,
    Question,
    Rate,
    is_storable,
    missing,
    refuse,
    show,
)
from tracker.services.ranks import draw_seed
from tracker.storage import detectors as storage
from tracker.storage.base import parse_id
from tracker.storage.detectors import Detector, Version
from tracker.storage.queries import find_newest_version_id

# A question may be longer; the audit log only tells the old one from the new.
_LONGEST_IN_LOG = 200


class UnknownVersionError(NotFoundError):
    """A detector has no version of that name."""


class NewDetector(Input):
    """A detector to be made."""

    name: DetectorName = Field(description="Unique among those not archived.")
    question: Question = Field(description="What a labeler is asked about an input.")
    classes: Classes = Field(
        default=["YES", "NO"], description="2 to 1,000, told apart exactly as written."
    )
    confidence_level: Level = Field(default=0.95, description="Of the intervals.")
    target: Level | None = Field(
        default=None, description="The balanced accuracy that is aimed at."
    )
    audit_rate: Rate = Field(
        default=1.0,
        description="Which share of the queries is offered to be labelled at random.",
    )
    labels_wanted: LabelsWanted = Field(
        default=1, description="How many different people are to label each query."
    )


class DetectorChange(Input):
    """What shall be different; a field left out stays as it is.

    The classes cannot be changed: the balanced accuracy of other classes is
    another quantity, and the history of the two would not fit together.
    """

    name: DetectorName | None = None
    question: Question | None = None
    confidence_level: Level | None = None
    target: Level | None = None
    audit_rate: Rate | None = None
    labels_wanted: LabelsWanted | None = None


def create_detector(
    session: Session, new: NewDetector, *, created_at: datetime
) -> Detector:
    """Add a detector; raises ConflictError if its name is taken."""
    detector = Detector(
        name=new.name,
        question=new.question,
        classes=list(new.classes),
        confidence_level=new.confidence_level,
        target=new.target,
        audit_rate=new.audit_rate,
        labels_wanted=new.labels_wanted,
        audit_seed=draw_seed(),
        created_at=created_at,
        revision=0,
    )
    session.add(detector)
    _flush_name(session, new.name)
    return detector


def change_detector(
    session: Session, detector: Detector, change: DetectorChange
) -> dict[str, Any]:
    """Change the fields that were given; raises ConflictError for a taken name.

    Returns the old and the new value of each that is another now, for the audit log.
    """
    changed: dict[str, Any] = {}
    for field in sorted(change.model_fields_set):
        old, new = getattr(detector, field), getattr(change, field)
        if new is None and field != "target":
            raise InvalidInputError.of(field, "must not be null; leave it out instead")
        if new != old:
            changed[field] = {"old": _cut(old), "new": _cut(new)}
            setattr(detector, field, new)
    _flush_name(session, detector.name)
    return changed


def _cut(value: Any) -> Any:
    is_long = isinstance(value, str) and len(value) > _LONGEST_IN_LOG
    return f"{value[:_LONGEST_IN_LOG]}…" if is_long else value


def archive_detector(detector: Detector, *, archived_at: datetime) -> None:
    """Hide a detector from the lists and free its name; nothing is lost."""
    detector.archived_at = detector.archived_at or archived_at


def bring_back_detector(session: Session, detector: Detector) -> None:
    """Put an archived detector back into the lists, with all that it had.

    Raises ConflictError if another one has its name by now.
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


def _flush_name(session: Session, name: str) -> None:
    # The constraint decides, not a SELECT beforehand: two requests may both find
    # the name free.
    try:
        session.flush()
    except IntegrityError as error:
        raise ConflictError(
            f"a detector named {show(name)} exists already; choose another name or "
            "archive that one"
        ) from error


def get_detector(session: Session, id_or_name: str) -> Detector:
    """Return the detector of that id, or the unarchived one of that name."""
    detector_id = parse_id("det", id_or_name)
    if detector_id is not None:
        detector = storage.find_detector(session, detector_id)
    elif is_storable(id_or_name):
        detector = storage.find_detector_by_name(session, id_or_name)
    else:
        detector = None
    if detector is None:
        raise missing("detector", id_or_name)
    return detector


def get_open_detector(session: Session, id_or_name: str) -> Detector:
    """Return a detector that may still be written to.

    Raises ConflictError if it is archived.
    """
    detector = get_detector(session, id_or_name)
    if detector.archived_at is not None:
        raise ConflictError(f"the detector {show(detector.name)} is archived")
    return detector


def choose_versions(
    session: Session, detector: Detector, name: str | None
) -> list[Version]:
    """Return the versions that *name* means.

    ``*`` means all, None the one that queries last arrived with.  Raises
    UnknownVersionError, which lists the names there are, for an unknown one.
    """
    if name == "*":
        return list(storage.list_versions(session, detector.id))
    if name is None:
        version_id = find_newest_version_id(session, detector.id)
        return [] if version_id is None else [session.get_one(Version, version_id)]
    version = None
    if is_storable(name):
        version = storage.find_version(session, detector.id, name)
    if version is None:
        names = [
            version.name for version in storage.list_versions(session, detector.id)
        ]
        known = ", ".join(show(known) for known in names[-10:]) or "none yet"
        raise UnknownVersionError(
            f"there is no version {show(name)}; there are: {known}"
        )
    return [version]


def check_class(
    detector: Detector, name: str, *, field: str, may_be_unclear: bool
) -> None:
    """Raise InvalidInputError unless *name* is a class of the detector."""
    if name in detector.classes or (may_be_unclear and name == UNCLEAR):
        return
    known = [*detector.classes[:20], *(["…"] if len(detector.classes) > 20 else [])]
    if may_be_unclear:
        known.append(UNCLEAR)
    refuse(field, name, f"it must be one of {', '.join(known)}")
