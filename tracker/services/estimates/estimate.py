"""The estimate of a detector's accuracy from the labels committed so far."""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.estimates.counts import count_asked, current_counts
from tracker.services.estimates.decision import (
    CHOSEN_SPAN,
    NO_TARGET,
    POOLED,
    TARGETED,
    Decision,
    decide,
)
from tracker.services.estimates.intervals import (
    ALL,
    MethodWord,
    check_method,
    score,
    score_window,
)
from tracker.services.estimates.windows import parse_window
from tracker.services.fields import Instant
from tracker.services.queries.where import named_version, parse_where
from tracker.services.versions import choose_versions
from tracker.services.wording import invalid
from tracker.shapes import Accuracy, OfClass, OfDetector, Score
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import EVERY, SCORED, Counts, pool
from tracker.storage.estimates.counts import count_window
from tracker.storage.estimates.replay import count_known
from tracker.storage.queries.finding import find_asked_span
from tracker.storage.queries.where import Between


class ClassEstimate(Score, OfClass):
    """The accuracy of one class: correct / labelled, and its interval."""


class Estimate(OfDetector):
    """How accurate one version of a detector is, and how sure that is."""

    computed_at: Instant
    confidence_level: float
    method: MethodWord
    labels: int = Field(description="The number of scored labels.")
    last_label_at: Instant | None = Field(description="When the newest label arrived.")
    asked_from: Instant | None = Field(
        default=None, description="When the first of the scored queries was asked."
    )
    asked_to: Instant | None = Field(
        default=None,
        description="When the last of the scored queries was asked: the accuracies are "
        "averages over this time.",
    )
    unclear: int = Field(description="Labels UNCLEAR, which are never scored.")
    corrections: int = Field(description="Labels that replaced one of another class.")
    unstated: int = Field(
        description="The number of scored labels whose sampling is unstated."
    )
    targeted_left_out: int = Field(description="Targeted labels that are not scored.")
    repeats_left_out: int = Field(
        description="Labelled queries that repeat an input of their version; an input "
        "is scored once, by its first query."
    )
    includes_targeted: bool
    classes: list[ClassEstimate]
    balanced: Accuracy = Field(description="The mean of the accuracies of the classes.")
    confusion: dict[str, dict[str, int]] = Field(
        description="confusion[label][predicted]; cells without a label are left out."
    )
    target: float | None = Field(description="The balanced accuracy that is aimed at.")
    decision: Decision | None = Field(
        description="null without a target, and where the labels are not a random "
        "sample."
    )
    no_decision_because: str | None = Field(description="Why there is no decision.")
    window: str | None = Field(
        default=None, description="The last labels or days that it covers."
    )
    as_known_at: Instant | None = Field(
        default=None, description="What came after this instant is left out."
    )

    @property
    def whole(self) -> Score:
        """The balanced accuracy, with the counts of all classes."""
        correct = sum(one.correct for one in self.classes)
        return Score(correct=correct, labelled=self.labels, **dict(self.balanced))

    def expect(self, labels: int) -> dict[str, int]:
        """Return how many of so many more random *labels* each class may expect."""
        return {
            one.name: round(labels * one.labelled / self.labels) if self.labels else 0
            for one in self.classes
        }

    @property
    def correct(self) -> tuple[int, ...]:
        """The labels of each class that the detector had predicted."""
        return tuple(one.correct for one in self.classes)

    @property
    def labelled(self) -> tuple[int, ...]:
        """The scored labels of each class."""
        return tuple(one.labelled for one in self.classes)


def get_estimate(  # noqa: PLR0913 - every choice that the API offers.
    session: Session,
    detector: Detector,
    *,
    computed_at: datetime,
    version: str | None = None,
    method: str = "exact",
    confidence_level: float | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    include_targeted: bool = False,
    where: Sequence[str] = (),
    window: str | None = None,
    as_known_at: datetime | None = None,
) -> Estimate:
    """Compute an estimate from every label committed so far.

    It needs no label but those that the job has not folded in yet; with *since*
    or *until* the queries asked in that window are counted again, and with *where*
    those for which it holds; see ``parse_where``.  A *window* of the last labels or
    days stands beside them, and *as_known_at* leaves out what came later.
    """
    check_method(method)
    span = parse_window(
        window, since=since, method=method, at=as_known_at or computed_at
    )
    since = span.since or since
    if since is not None and until is not None and since >= until:
        raise invalid("until", until.isoformat(), "it must be later than since")
    conditions = parse_where(session, detector, where, at=computed_at)
    name = named_version(where) if version is None else version
    versions = choose_versions(session, detector, name)
    filters: dict[str, Any] = {"since": since, "until": until, "where": conditions}
    recent = {"known_at": as_known_at, "last": span.last}
    counts = _count(session, detector, versions, filters, recent)
    because = _refuse_decision(
        detector.target,
        is_pooled=version == ALL,
        is_window=bool(since or until or conditions or span.last),
        includes_targeted=include_targeted,
    )
    found = _build_estimate(
        detector,
        counts,
        version=version if version == ALL else next((v.name for v in versions), None),
        computed_at=computed_at,
        method=method,
        level=confidence_level or detector.confidence_level,
        include_targeted=include_targeted,
        because=because,
        window=window,
        as_known_at=as_known_at,
    )
    return _add_span(session, detector, versions, found, filters)


def list_estimates(
    session: Session,
    versions: Mapping[Detector, Version | None],
    *,
    computed_at: datetime,
) -> list[Estimate]:
    """Compute the estimate of one version of each detector, by the detector's method.

    In few statements for all of them.  When the queries were asked is not in it.
    """
    shown = [one for one in versions.values() if one is not None]
    counts = current_counts(session, shown)
    return [
        _build_estimate(
            detector,
            pool([] if version is None else [counts[version.id]]),
            version=None if version is None else version.name,
            computed_at=computed_at,
            method=detector.method,
            level=detector.confidence_level,
            include_targeted=False,
            because=NO_TARGET if detector.target is None else None,
            window=None,
            as_known_at=None,
        )
        for detector, version in versions.items()
    ]


def _count(
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    filters: Mapping[str, Any],
    recent: Mapping[str, Any],
) -> Counts:
    """Return the running counts, or those of the queries that pass the *filters*.

    With anything in *recent* they are the counts as they were known then, or those of
    the last labels.
    """
    if any(value is not None for value in recent.values()):
        ids = [one.id for one in versions]
        return count_known(session, detector.id, ids, **recent, **filters)
    counts = pool(current_counts(session, versions).values())
    if not any(filters.values()):
        return counts
    if filters["where"]:
        found = count_window(session, detector.id, **filters)
        seen = pool(found[one.id] for one in versions if one.id in found)
    else:
        span = {name: filters[name] for name in ("since", "until")}
        seen = count_asked(session, detector, versions, **span)
    return replace(counts, cells=seen.cells, repeats=seen.repeats)


def _add_span(
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    found: Estimate,
    filters: Mapping[str, Any],
) -> Estimate:
    """Return *found* with when its queries were asked, as far as that is known.

    Of the last labels, and of what was known once, it is not.
    """
    is_of_some = found.as_known_at is not None or (found.window or "").isdigit()
    if not found.labels or is_of_some:
        return found
    span = Between("asked_at", filters["since"], below=filters["until"])
    limits = (span, *filters["where"]) if any(filters.values()) else ()
    asked = find_asked_span(
        session,
        detector.id,
        [one.id for one in versions],
        [one.test(session) for one in limits],
        labels=found.labels,
        classes=[one.name for one in found.classes if one.labelled],
    )
    if asked is None:
        return found
    return found.model_copy(update={"asked_from": asked[0], "asked_to": asked[1]})


def _build_estimate(  # noqa: PLR0913 - plain values that stand in the estimate.
    detector: Detector,
    counts: Counts,
    *,
    version: str | None,
    computed_at: datetime,
    method: str,
    level: float,
    include_targeted: bool,
    because: str | None,
    window: str | None,
    as_known_at: datetime | None,
) -> Estimate:
    found = counts.select(EVERY if include_targeted else SCORED)
    confusion: dict[str, dict[str, int]] = {name: {} for name in detector.classes}
    for (label, predicted), number in found.confusion.items():
        confusion[label][predicted] = number
    correct, labelled = found.by_class(detector.classes)
    scores_of = score if window is None else score_window
    whole, *scores = scores_of([correct], [labelled], method, level)[0]
    classes = zip(detector.classes, scores, strict=True)
    target = detector.target
    return Estimate(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=version,
        computed_at=computed_at,
        confidence_level=level,
        method=method,
        labels=sum(labelled),
        last_label_at=counts.last_label_at,
        unclear=found.unclear,
        corrections=counts.corrections,
        unstated=counts.unstated,
        targeted_left_out=found.left_out,
        repeats_left_out=counts.repeats,
        includes_targeted=include_targeted,
        classes=[ClassEstimate(name=name, **dict(one)) for name, one in classes],
        balanced=Accuracy(accuracy=whole.accuracy, low=whole.low, high=whole.high),
        confusion=confusion,
        target=target,
        decision=None
        if target is None or because
        else decide(target, correct, labelled, level),
        no_decision_because=because,
        window=window,
        as_known_at=as_known_at,
    )


def _refuse_decision(
    target: float | None,
    *,
    is_pooled: bool,
    is_window: bool,
    includes_targeted: bool,
) -> str | None:
    if target is None:
        return NO_TARGET
    if includes_targeted:
        return TARGETED
    if is_pooled:
        return POOLED
    return CHOSEN_SPAN if is_window else None
