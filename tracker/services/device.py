"""Settings of detectors, groups and counts of the device API."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from tracker.services.by import By
from tracker.services.fields import dump_metadata
from tracker.storage import device as storage
from tracker.storage.base import list_rows
from tracker.storage.detectors import Detector, list_detectors
from tracker.storage.device import DetectorGroup, DeviceSettings
from tracker.storage.queries.waiting import count_waiting

BINARY, MULTI_CLASS, COUNT = "BINARY", "MULTI_CLASS", "COUNT"
_BINARY_CLASSES = {"YES", "NO"}
_USUAL_GROUP = "default"


def get_settings(session: Session, detector: Detector) -> DeviceSettings:
    """Return the settings of a detector, or the defaults."""
    is_binary = set(detector.classes) == _BINARY_CLASSES
    return session.get(DeviceSettings, detector.id) or DeviceSettings(
        detector_id=detector.id,
        group_name=_USUAL_GROUP,
        confidence_threshold=0.9,
        patience_time=30.0,
        status="ON",
        escalation_type="STANDARD",
        mode=BINARY if is_binary else MULTI_CLASS,
        mode_configuration=None if is_binary else {"class_names": detector.classes},
        details=None,
    )


def set_settings(
    session: Session, detector: Detector, by: By, **changed: Any
) -> DeviceSettings:
    """Set the named settings; others stay."""
    settings = get_settings(session, detector)
    if "metadata" in changed:
        value = changed.pop("metadata")
        settings.details = None if value is None else dump_metadata(value)
    for name, value in changed.items():
        setattr(settings, name, value)
    session.add(settings)
    session.flush()
    if settings.group_name != _USUAL_GROUP:
        storage.add_group(session, settings.group_name, created_at=by.at)
    by.record(session, "device settings", detector.name, **changed)
    return settings


def list_groups(session: Session) -> list[DetectorGroup]:
    """Return the default group, which has no row, and every other group."""
    usual = DetectorGroup(id=0, name=_USUAL_GROUP)
    return [usual, *list_rows(session, DetectorGroup)]


def create_group(session: Session, name: str, by: By) -> DetectorGroup | None:
    """Create a group; return None if there is one with this name."""
    if name == _USUAL_GROUP:
        return None
    group, is_new = storage.add_group(session, name, created_at=by.at)
    if not is_new:
        return None
    by.record(session, "detector group made", name)
    return group


@dataclass(slots=True)
class Answers:
    """The number of queries of a detector by answer and source."""

    by_detector: Counter[str] = field(default_factory=Counter)
    by_people: Counter[str] = field(default_factory=Counter)
    unsure: Counter[str] = field(default_factory=Counter)
    waiting: int = 0

    @property
    def queries(self) -> int:
        return self.by_detector.total() + self.by_people.total() + self.waiting


def count_answers(session: Session, detector: Detector) -> Answers:
    """Count queries by their label, or by their prediction where there is none."""
    threshold = get_settings(session, detector).confidence_threshold
    answers = Answers(waiting=count_waiting(session, detector.id))
    for row in storage.count_answers(session, detector.id, threshold=threshold):
        if row.label is not None:
            answers.by_people[row.label] += row.number
            continue
        answers.by_detector[row.predicted] += row.number
        if row.is_unsure:
            answers.unsure[row.predicted] += row.number
    return answers


def count_month(session: Session, by: By) -> dict[int, int]:
    begun = by.at.replace(day=1, hour=0, minute=0, second=0, microsecond=0)
    seen = [one.id for one in list_detectors(session, among=by.actor.detectors)]
    return storage.count_since(session, seen, since=begun)
