"""Events: what happened to a detector, written in the transaction of its cause."""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.estimates.decision import compare_with_target
from tracker.services.estimates.stream.points import Stretch
from tracker.services.fields import Address, Instant
from tracker.services.telling.deliveries import queue_event
from tracker.services.telling.mail import queue_notices
from tracker.services.wording import dump_instant
from tracker.shapes import Shape
from tracker.stats.anytime import log_balanced_evidence_above
from tracker.stats.events import epoch_level, judge
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, list_detectors, list_versions
from tracker.storage.dialect import lock
from tracker.storage.telling import events as storage
from tracker.storage.telling.events import find_last_event, find_last_events
from tracker.words import DECIDING_METHOD, EventWord, Verdict

VERDICT = "verdict.changed"
DRIFT = "drift.detected"
FAILING = "detector.failing"
FIRST_SEEN = "version.first_seen"
STALLED = "labels.stalled"
SLICE_WORSE = "slice.worse"
AUDIT_FINISHED = "audit.finished"


class Event(Shape):
    """Something that happened to a detector."""

    id: str = Field(description="evt_ and a number.")
    type: EventWord
    timestamp: Instant = Field(description="When the event happened.")
    detector: str = Field(description="The id of the detector.")
    version: str | None = Field(
        description="The version; null if the event is not about a version."
    )
    data: dict[str, Any] = Field(description="The data that webhooks receive.")


class EventPage(Shape):
    """A page of events, the newest first."""

    items: list[Event]
    next: Address | None = Field(description="The address of the page after this one.")


def describe_event(event: storage.Event) -> Event:
    """Return an event as it is answered."""
    return Event(
        id=dump_id("evt", event.id),
        type=event.type,
        timestamp=event.happened_at,
        detector=dump_id("det", event.detector_id),
        version=event.data.get("version"),
        data=event.data,
    )


def tell(  # noqa: PLR0913 - what happened, to whom and when.
    session: Session,
    kind: str,
    detector: Detector,
    *,
    at: datetime,
    version: Version | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Add an event, and put it into the outbox of each webhook and person it is for.

    *kind* is one of ``EVENTS`` in tracker/words.py, whose sentence *data* fills in.
    """
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
class VerdictChange:
    """A verdict that changes with a snapshot; *alarms* are those of drift so far."""

    verdict: Verdict
    before: Verdict
    target: float
    confidence_level: float
    method: str
    low: float
    high: float
    labels: int
    alarms: int

    def dump(self) -> dict[str, Any]:
        """Return it as it stands in an event."""
        return asdict(self)


@dataclass(frozen=True, slots=True)
class Look:
    """The counts of a moment, with the deciding interval of the balanced accuracy.

    *stretch* holds the labels since the last drift alarm, if there was one.
    """

    correct: Sequence[int]
    labelled: Sequence[int]
    low: float
    high: float
    stretch: Stretch | None = None

    @property
    def alarms(self) -> int:
        """How many drift alarms there were before it."""
        return 0 if self.stretch is None else self.stretch.alarms


def follow_verdict(
    looks: Iterable[Look], target: float, level: float, last: storage.Event | None
) -> list[VerdictChange]:
    """Return when the verdict changed, look by look, since the *last* such event.

    *met* and *missed* are entered when the interval says so.  They are left for the
    opposite at once, and for *undecided* only when the labels no longer speak for
    them at all, their evidence being below 1: near a target the bare verdict goes
    back and forth.  Leaving late adds nothing to the chance that it was entered
    wrongly.  A drift alarm ends *met* too, for the average of all labels says little
    about now; it is entered again when the labels since the alarm say so by
    themselves, too.  Under another target or level the bare verdict is where it begins.
    """
    current: Verdict = "undecided" if last is None else last.data["verdict"]
    # Events from before alarms were counted do not say how many there were.
    alarms = 0 if last is None else last.data.get("alarms", 0)
    asked = (target, level)
    is_same = last is not None and asked == (
        last.data["target"],
        last.data["confidence_level"],
    )
    changes = []
    for look in looks:
        found = _enter(look, target, level)
        if found == "undecided" and is_same and _stays(current, look, target, alarms):
            found = current
        is_same = True
        if found != current:
            alarms = look.alarms
            changes.append(
                VerdictChange(
                    verdict=found,
                    before=current,
                    target=target,
                    confidence_level=level,
                    method=DECIDING_METHOD,
                    low=look.low,
                    high=look.high,
                    labels=sum(look.labelled),
                    alarms=alarms,
                )
            )
        current = found
    return changes


def _enter(look: Look, target: float, level: float) -> Verdict:
    found = compare_with_target(look.low, look.high, target)
    if found != "met" or look.stretch is None:
        return found
    if not any(look.stretch.labelled):
        return "undecided"
    return judge(
        _evidence_above(look.stretch.correct, look.stretch.labelled, target),
        # An accuracy that is too low now is said by the whole, once it is below.
        -math.inf,
        sum(look.stretch.labelled),
        epoch_level(level, look.stretch.alarms + 1),
    )


def _stays(verdict: Verdict, look: Look, target: float, alarms: int) -> bool:
    """Return whether a verdict that was entered after so many alarms is not left."""
    if verdict == "undecided" or not any(look.labelled):
        return False
    if verdict == "met":
        no_alarm = look.alarms == alarms
        return no_alarm and _evidence_above(look.correct, look.labelled, target) >= 0
    # Being below is being above, seen from the other side.
    wrong = [n - k for k, n in zip(look.correct, look.labelled, strict=True)]
    return _evidence_above(wrong, look.labelled, 1.0 - target) >= 0


def _evidence_above(
    correct: Sequence[int], labelled: Sequence[int], target: float
) -> float:
    return float(log_balanced_evidence_above(correct, labelled, target))


def find_last_verdicts(
    session: Session, versions: Sequence[int]
) -> dict[int, storage.Event]:
    """Return the last change of the verdict of each version that had one."""
    return find_last_events(session, versions, VERDICT)


def tell_stalls(session: Session, at: datetime) -> int:
    """Tell of detectors that got no label for as long as they say, once for each."""
    # Two workers at once would both tell.
    lock(session, STALLED)
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
