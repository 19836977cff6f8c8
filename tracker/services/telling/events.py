"""Events of detectors, written in the transaction of their cause."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker import shapes, stats, words
from tracker.services.by import By
from tracker.services.estimates.calendar import Calendar
from tracker.services.estimates.counted import unit_of
from tracker.services.estimates.decision import compare_with_target
from tracker.services.estimates.fold import Fold
from tracker.services.estimates.projections import Cells
from tracker.services.estimates.report import report_fold
from tracker.services.evidence.populations import LIVE
from tracker.services.fields import Instant
from tracker.services.labelling.auditing import audit_estimates, audit_lifecycle, audits
from tracker.services.telling.deliveries import queue_event
from tracker.services.telling.mail import queue_notices
from tracker.services.wording import dump_instant
from tracker.storage import telling as storage
from tracker.storage.base import Key, dump_id
from tracker.storage.detectors import Detector, Version, list_detectors, list_versions
from tracker.storage.imports import FileImport
from tracker.storage.labelling.audits import Audit, find_schedule
from tracker.storage.telling import find_last_event, find_last_events

VERDICT = "verdict.changed"
FAILING = "detector.failing"
STALLED = "labels.stalled"
SLICE_WORSE = "slice.worse"
# They have the sentence that the page of the detector begins with.
_MEASURED = {VERDICT, *words.CHANGE_EVENTS.values()}


class Event(shapes.Shape):
    """Something that happened to a detector."""

    id: str = Field(description="evt_ and a number.")
    type: words.EventWord
    timestamp: Instant = Field(description="When the event happened.")
    detector: str = Field(description="The id of the detector.")
    version: str | None = Field(
        description="The version; null if the event is not about a version."
    )
    data: dict[str, Any] = Field(description="The data that webhooks receive.")


def describe_event(event: storage.Event) -> Event:
    """Return the API's answer about an event."""
    return Event(
        id=dump_id("evt", event.id),
        type=event.type,
        timestamp=event.happened_at,
        detector=dump_id("det", event.detector_id),
        version=event.data.get("version"),
        data=event.data,
    )


def tell(  # noqa: PLR0913 - the parts of an event.
    session: Session,
    kind: str,
    detector: Detector,
    *,
    at: datetime,
    version: Version | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Add an event of ``words.EVENTS``, with deliveries and notices to people."""
    known = {"detector": dump_id("det", detector.id), "name": detector.name}
    if version is not None:
        known["version"] = version.name
    event = storage.Event(
        detector_id=detector.id,
        version_id=None if version is None else version.id,
        type=kind,
        happened_at=at,
        data={**known, **(data or {})},
    )
    session.add(event)
    session.flush()
    queue_event(session, event)
    queue_notices(session, event)


@dataclass(frozen=True, slots=True)
class Look:
    """The current counts of the detector's measure, and their interval."""

    correct: Sequence[int]
    labelled: Sequence[int]
    low: float
    high: float
    # The assumed shares of the classes.
    shares: tuple[float, ...] | None = None
    measure: str = words.BALANCED
    since: str | None = None


def follow_verdict(
    look: Look, target: float, level: float, last: storage.Event | None
) -> dict[str, Any] | None:
    """Return the data of an event if the verdict changed since the *last* one.

    *met* and *missed* begin when the interval says so.  They change into the opposite
    at once, but into *undecided* only when the labels no longer support them at all,
    their evidence being below 1: near a target the bare verdict goes back and forth.
    Ending late does not raise the chance that a verdict began wrongly.  With another
    target, level, measure or first day the bare verdict is the start.
    """
    current: words.Verdict = "undecided" if last is None else last.data["verdict"]
    told = {} if last is None else last.data
    terms = (told.get("target"), told.get("confidence_level"), told.get("measure"))
    is_of_same = terms == (target, level, look.measure)
    is_same = is_of_same and told["since"] == look.since
    found = compare_with_target(look.low, look.high, target)
    if found == "undecided" and is_same and _stays(current, look, target):
        found = current
    if found == current:
        return None
    return {
        "verdict": found,
        # What was told of the same target, level and measure.
        "before": current if is_of_same else None,
        "target": target,
        "confidence_level": level,
        "method": words.DECIDING_METHOD,
        "measure": look.measure,
        "low": look.low,
        "high": look.high,
        "labels": sum(look.labelled),
        # The first day whose queries count, as 2026-01-31; None for all of the version.
        "since": look.since,
    }


def _stays(verdict: words.Verdict, look: Look, target: float) -> bool:
    """Return whether the labels of a look still support a verdict."""
    if verdict == "undecided" or not any(look.labelled):
        return False
    counted = look.correct
    if verdict == "missed":
        # The accuracy is below the target if the error rate is above its complement.
        counted = [n - k for k, n in zip(counted, look.labelled, strict=True)]
        target = 1.0 - target
    above = stats.log_evidence_above(counted, look.labelled, target, shares=look.shares)
    return float(above) >= 0


def find_last_verdicts(
    session: Session, detector_ids: Collection[int], versions: Collection[int]
) -> dict[int, storage.Event]:
    return find_last_events(session, detector_ids, versions, VERDICT)


def tell_stalls(session: Session, at: datetime) -> int:
    """Tell once of each detector without a label for as long as its setting says."""
    told = 0
    for detector in list_detectors(session):
        hours = detector.stalled_after_hours
        if hours is None:
            continue
        versions = list_versions(session, detector.id)
        labels = [one.last_label_at for one in versions if one.last_label_at]
        last = max(labels, default=None)
        said = None if last is None else dump_instant(last)
        before = find_last_event(session, detector.id, STALLED)
        is_told = before is not None and before.data["last_label_at"] == said
        if is_told or at - (last or detector.created_at) < timedelta(hours=hours):
            continue
        data = {"hours": hours, "last_label_at": said}
        tell(session, STALLED, detector, at=at, data=data)
        told += 1
    return told


def close_audit(session: Session, audit: Audit, by: By) -> Audit:
    """Close an audit and tell of it; closing it twice changes nothing."""
    result = audit_lifecycle.end_audit(session, audit, by)
    if result is not None:
        aimed = audits.aimed_of(audit, result)
        data: dict[str, Any] = {
            "audit": audit.name,
            "id": dump_id("aud", audit.id),
            "labels": result.labels,
            "population": words.AUDITED,
            "queries": audit.queries,
            "unit": "query",
            "is_reached": result.is_reached,
            "measure": audits.measure_of(audit),
            "low": aimed.low,
            "high": aimed.high,
        }
        detector = session.get_one(Detector, audit.detector_id)
        tell(session, "audit.finished", detector, at=by.at, data=data)
        if result.below_target:
            schedule = find_schedule(session, audit)
            data |= {"schedule": schedule.name, "target": schedule.target}
            tell(session, "audit.below_target", detector, at=by.at, data=data)
    return audit


def is_reminder_due(audit: Audit, at: datetime) -> bool:
    """Return whether a reminder is due: at the beginning, and after two thirds."""
    assert audit.since is not None
    assert audit.until is not None
    is_late = at >= audit.created_at + (audit.until - audit.since) * 2 / 3
    is_open = audit.paused_at is None and audit.closed_at is None
    return is_open and audit.reminders < 1 + is_late


def remind_of_audit(session: Session, audit: Audit, at: datetime) -> None:
    """Tell that an audit waits for labels, and mail its labelers."""
    schedule = find_schedule(session, audit)
    audit.reminders = 2 if audit.reminders else 1
    found = audit_estimates.get_audit_estimate(session, audit, computed_at=at)
    data = {
        "audit": audit.name,
        "id": dump_id("aud", audit.id),
        "labels": found.labels_left,
        "schedule": schedule.name,
        "labelers": schedule.labelers,
    }
    detector = session.get_one(Detector, audit.detector_id)
    tell(session, "audit.waiting", detector, at=at, data=data)


def tell_failed_import(session: Session, key: Key, at: datetime) -> None:
    found = session.get_one(FileImport, key, populate_existing=True)
    detector = session.get_one(Detector, found.detector_id)
    data = {"id": dump_id("imp", found.id), "state": found.state, "error": found.error}
    tell(session, "import.failed", detector, at=at, data=data)


class FoldEvents:
    """A listener to folds that adds their events when they are stored."""

    def __init__(self) -> None:
        self._last: dict[int, storage.Event] = {}
        self.verdicts: dict[int, dict[str, Any]] = {}

    def load(self, session: Session, folds: Sequence[Fold]) -> None:
        aimed = [fold for fold in folds if fold.detector.target is not None]
        seen = [version_id for fold in aimed for version_id in fold.calendars]
        if seen:
            owners = [fold.detector.id for fold in aimed]
            self._last = find_last_verdicts(session, owners, seen)

    def follow(self, folds: Sequence[Fold]) -> None:
        """Find the changes of verdicts."""
        for fold in folds:
            target, level = fold.detector.target, fold.detector.confidence_level
            if target is None:
                continue
            for version_id, calendar in fold.calendars.items():
                last = self._last.get(version_id)
                look = _look(calendar)
                found = follow_verdict(look, target, level, last)
                if found is not None:
                    self.verdicts[version_id] = found

    def tell(self, session: Session, fold: Fold, *, at: datetime) -> None:
        """Add the events of a fold."""
        for version_id, folded in fold.versions.items():
            version = fold.rows[version_id]
            told: list[tuple[str, dict[str, Any] | None]] = []
            if folded.queries and not version.queries:
                told.append(("version.first_seen", None))
            # A change may end a verdict, so it is told first.
            calendar = fold.calendars.get(version_id)
            changes = calendar.list_untold(at) if calendar else ()
            told += [(words.CHANGE_EVENTS[one.state], one.dump()) for one in changes]
            if version_id in self.verdicts:
                told.append((VERDICT, self.verdicts[version_id]))
            told += [
                (SLICE_WORSE, worse)
                for one in folded.projections
                for worse in one.worse
            ]
            if told:
                detector = session.get_one(Detector, fold.detector.id)
                basis = {"population": LIVE, "unit": unit_of(detector)}
                said = {}
                if calendar is not None:
                    counts, now = folded.of(Cells).counts, calendar.now
                    seen = report_fold(fold.detector, version.name, counts, now, at=at)
                    said = {"sentence": seen.sentence, "basis": seen.estimate.basis}
                for kind, data in told:
                    about = said if kind in _MEASURED else {}
                    more = data and data | basis | about
                    tell(session, kind, detector, at=at, version=version, data=more)


def _look(calendar: Calendar) -> Look:
    low, high = calendar.interval
    since = calendar.now.since
    return Look(
        *calendar.right,
        low,
        high,
        calendar.shares if len(calendar.right[1]) > 1 else None,
        calendar.terms.measure,
        None if since is None else since.isoformat(),
    )
