"""The report of a detector: the first thing to say of it, in one sentence."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any

from sqlalchemy.orm import Session

from tracker.charts import words
from tracker.services.estimates.calendar import AccuracyChange, Now
from tracker.services.estimates.counted import choose_now
from tracker.services.estimates.decision import Decision, decide_with_forecast
from tracker.services.estimates.estimate import Estimate, build_estimate, list_estimates
from tracker.services.estimates.measures import MeasuredEstimate, score_own
from tracker.services.estimates.missing import is_all
from tracker.services.evidence.measure import Measure, read_measure
from tracker.services.evidence.populations import LIVE
from tracker.services.versions import choose_default_versions
from tracker.shapes import Accuracy
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts
from tracker.storage.estimates.counts import count_pending_labels
from tracker.storage.tasks import RECOMPUTE, Task, find_failures
from tracker.words import BALANCED, DECIDING_METHOD, PRECISION, RECALL, STATES

DROPPED = "dropped"
_STANDS = timedelta(days=30)
_COLUMNS: Mapping[type, Sequence[str]] = {
    kind: kind.__mapper__.column_attrs.keys() for kind in (Detector, Version)
}


def right_how_often(measure: Measure, said: str) -> str:
    """Return the sentence of *measure*, without its ends, for an interval in words."""
    of = words.shorten(measure.of or "")
    when = {RECALL: f"when the truth is {of}, ", PRECISION: f"when it says {of}, "}
    return f"{when.get(measure.kind, '')}it is right {said} of the time"


def counting_the_same(classes: Sequence[str]) -> str:
    """Return how the classes make up their mean."""
    names = [words.shorten(name) for name in classes]
    if len(names) == 2:
        return f"{names[0]} and {names[1]} counting the same"
    return f"all {words.count_in_words(len(names))} classes counting the same"


def say_change(change: AccuracyChange) -> str:
    """Return what changed and about when, as the beginning of a sentence."""
    measure, day = read_measure(change.measure), f"{change.since:%-d %B %Y}"
    name = "mean of the classes" if measure.kind == BALANCED else measure.name
    if change.reference is None:
        return f"the {name} {change.state}, about {day}"
    stated = words.chosen(change.reference)
    return f"the {name} is below the stated {stated} on average, since about {day}"


def say_more(change: AccuracyChange, sentence: str) -> str:
    """Return which days a change may be of, and what was before, unless said."""
    said, first, last = [], change.since_from, change.since_to
    if change.reference is None and first != last:
        said.append(f"{first:%-d %B %Y} to {last:%-d %B %Y} would fit as well. ")
    if change.before.labels and words.interval(change.before) not in sentence:
        said.append(f"Before, it was {words.interval(change.before)} on average. ")
    return "".join(said)


def tell_change(change: AccuracyChange, sentence: str = "") -> str:
    """Return sentences that say of a change what a report's *sentence* does not."""
    said = say_change(change)
    return f"{said[0].upper()}{said[1:]}. {say_more(change, sentence)}".rstrip()


@dataclass
class Report:
    """What there is to say of a detector: by an estimate of one version."""

    detector: Detector
    estimate: Estimate
    queries: int
    # The task of the job that failed for it.
    failure: Task | None = None

    @property
    def dropped(self) -> AccuracyChange | None:
        """A fall that was told in these days."""
        change = self.estimate.change
        if change is None or change.state != DROPPED:
            return None
        return change if change.at > self.estimate.computed_at - _STANDS else None

    @property
    def before(self) -> Accuracy | None:
        """What the same measure was before that fall."""
        found = self.dropped
        if found is None or found.measure != self.detector.measure:
            return None
        return found.before if found.before.labels else None

    @property
    def state(self) -> str:
        """What there is to say of it first, one of the states."""
        if self.failure:
            return "stale"
        if self.dropped:
            return DROPPED
        if not self.estimate.labels:
            return "open"
        if self.estimate.decision:
            return self.estimate.decision.verdict
        return "none" if self.estimate.target is None else "no-verdict"

    @property
    def is_needy(self) -> bool:
        return self.state not in {"met", "none"}

    @property
    def mistakes(self) -> int:
        return self.estimate.labels - sum(self.estimate.correct)

    @cached_property
    def interval(self) -> Accuracy:
        return score_own(self.estimate, self.detector.measure)

    @property
    def is_bounded(self) -> bool:
        """Whether queries without a label yet may be of either kind, as all get one."""
        return is_all(self.detector) and self.estimate.population.kind == LIVE

    @property
    def said(self) -> str:
        found = self.estimate.decision
        return words.interval(self.interval, beside=found.target if found else None)

    @property
    def of(self) -> str:
        """What it is the interval of, "" for the mean of the classes."""
        measure = read_measure(self.detector.measure)
        if measure.kind == BALANCED:
            return ""
        said = {"recall": "when it is", "precision": "when it says"}.get(measure.kind)
        return f"{said} {measure.of}" if said else "of all answers"

    @cached_property
    def next(self) -> Decision | None:
        """What the target waits for, which takes a while to foresee."""
        found = self.estimate.decision
        return found and decide_with_forecast(found, self.estimate.confusion)

    @property
    def since(self) -> date | None:
        """The day since which queries count for `interval`, None for all of them."""
        found = self.estimate.decision
        span = found.span if found else self.estimate.span
        return span.since if span else None

    @property
    def since_said(self) -> str:
        """That day, such as "12 Nov"."""
        since, at = self.since, self.estimate.computed_at.date()
        return words.short_day(since, at) if since else ""

    @property
    def unlabelled(self) -> str | None:
        """The first class without a label, of a mean that waits for it."""
        if read_measure(self.detector.measure).kind != BALANCED:
            return None
        classes = self.estimate.classes
        return next((one.name for one in classes if not one.labelled), None)

    @property
    def unanswered(self) -> int:
        """The queries that wait while no label counts: picked ones do not."""
        found = self.estimate
        return max(self.queries - found.targeted_left_out - found.unclear, 0)

    @property
    def sentence(self) -> str:
        """The sentence that answers, the same on every page and in every message."""
        if not self.estimate.labels:
            if not self.queries:
                return "Not measured yet. Send the first prediction."
            if not self.unanswered:
                return "Not measured yet: no label counts so far."
            waits = words.plural(self.unanswered, "query waits", "queries wait")
            return f"Not measured yet: {waits}."
        found = self.estimate.decision
        if found is None and self._verdict and self.estimate.population.kind != LIVE:
            # Of labels that tell nothing of its queries it is not right so often.
            return self._verdict
        is_open = found is None or found.verdict == "undecided"
        if self.unlabelled and is_open:
            name = words.shorten(self.unlabelled)
            return f"Not measured yet: no label of {name} so far."
        return " ".join(filter(None, (self._measured, self._verdict)))

    @property
    def _measured(self) -> str:
        measure = read_measure(self.detector.measure)
        said, unclear = (
            right_how_often(measure, self.said),
            self.estimate.unclear_bounds,
        )
        answers = unclear.answers + self.estimate.labels if unclear else 0
        if unclear and 10 * unclear.answers > answers:
            counts = f"{unclear.answers:,} of {answers:,}"
            said += f", of what people could tell ({counts} were unclear)"
        if self.since:
            said = f"since {self.since_said} {said}"
        if self.estimate.bounded:
            said += ", whatever the labels that are still missing will be"
        if self.before:
            return (
                f"{said[0].upper()}{said[1:]}; before, {words.interval(self.before)}."
            )
        same = "" if self.of or self.since else f", {self.counts_same}"
        return f"{said[0].upper()}{said[1:]}{same}."

    @property
    def counts_same(self) -> str:
        return counting_the_same(self.detector.classes)

    @property
    def _verdict(self) -> str:
        found = self.estimate.decision
        if found:
            said = STATES[found.verdict].said
            if found.because:
                said = f"{said}, for {found.because}"
            return f"Target {words.chosen(found.target)}: {said}."
        because = self.estimate.no_decision_because
        if self.estimate.target is None or because is None:
            return ""
        return f"No verdict: {because}."

    @property
    def urgency(self) -> tuple[int, float]:
        """Where it stands in the list: who needs a look comes first.

        Of undecided ones, who needs the fewest labels: widths shrink with their root.
        """
        found, more = self.estimate.decision, math.inf
        if found and found.accuracy not in {None, found.target}:
            above = found.accuracy - found.target
            bound = found.low if above > 0 else found.high
            more = found.labels * ((found.accuracy - bound) / above) ** 2
        return [*STATES].index(self.state), more


def add_sentence(detector: Detector, found: MeasuredEstimate) -> MeasuredEstimate:
    """Return an estimate with the sentence that begins the page of its detector.

    An estimate of a part, or by an interval that does not decide, has none.
    """
    if found.span is None or not (found.decision or found.method == DECIDING_METHOD):
        return found
    report = Report(detector, found, found.population.of or 0)
    return found.model_copy(update={"sentence": report.sentence})


def report_fold(
    detector: Detector, version: str, counts: Counts, now: Now, *, at: datetime
) -> Report:
    """Return the report of a version by the counts of a fold that is not stored yet."""
    counted = choose_now(detector, counts, now)
    return Report(detector, build_estimate(detector, counted, version, at), 0)


class Reports:
    """Reports of many detectors, with estimates kept until something changes them."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Any, Estimate]] = {}

    def list(
        self, session: Session, detectors: Sequence[Detector], *, at: datetime
    ) -> list[Report]:
        """Return the reports of *detectors*, of the versions that they show."""
        shown = choose_default_versions(session, detectors)
        versions = {detector: shown.get(detector.id) for detector in detectors}
        failures = find_failures(session, RECOMPUTE, [one.id for one in detectors])
        estimates = self.estimate(session, versions, at=at)
        return [
            Report(
                one,
                estimates[one.id],
                version.queries if version else 0,
                failures.get(one.id),
            )
            for one, version in versions.items()
        ]

    def estimate(
        self,
        session: Session,
        versions: Mapping[Detector, Version | None],
        *,
        at: datetime,
    ) -> dict[int, Estimate]:
        """Return the estimates of these *versions*, by their detectors."""
        waiting = count_pending_labels(session, [one.id for one in versions])
        keys = {
            # The day, because what is of a span of days ends with one.
            one: (at.date(), _columns(one), version and _columns(version), new)
            for one, version in versions.items()
            for new in (version and waiting.get(version.id),)
        }
        known = {one: self._known[one.id] for one in versions if one.id in self._known}
        changed = {
            one: version
            for one, version in versions.items()
            if one not in known or known[one][0] != keys[one]
        }
        found = list_estimates(session, changed, computed_at=at) if changed else []
        for detector, estimate in zip(changed, found, strict=True):
            self._known[detector.id] = known[detector] = keys[detector], estimate
        return {one.id: estimate for one, (_, estimate) in known.items()}


def _columns(row: Any) -> list[Any]:
    return [row.__dict__.get(name) for name in _COLUMNS[type(row)]]
