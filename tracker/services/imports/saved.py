"""How the files of a detector are read, saved with it for the next ones."""

from sqlalchemy.orm import Session

from tracker.errors import FieldError, InvalidInputError
from tracker.services.by import By
from tracker.services.imports.reading.choices import Mapping
from tracker.services.wording import show
from tracker.storage.detectors import Detector
from tracker.words import UNCLEAR


def load_mapping(detector: Detector) -> Mapping:
    """Return what is saved with a detector; it says nothing if nothing is."""
    return Mapping(**(detector.import_mapping or {}))


def save_mapping(
    session: Session, detector: Detector, mapping: Mapping, by: By
) -> Mapping:
    """Save *mapping* in place of what was saved, and return it; an empty one removes.

    Raises InvalidInputError for a class that the detector does not have.
    """
    known = (*detector.classes, UNCLEAR)
    wrong = [
        FieldError(
            "class", f"{show(name)}, for {show(value)}, is not a class of the detector"
        )
        for value, name in mapping.classes.items()
        if name not in known
    ]
    if wrong:
        raise InvalidInputError(wrong)
    found = mapping.model_dump(exclude_defaults=True) or None
    if found != detector.import_mapping:
        detector.import_mapping = found
        session.flush()
        by.record(session, "import mapping saved", detector.name, **(found or {}))
    return mapping
