"""How accurate a version was on the traffic of each week, day or month.

The queries of a span that wait for a label have random ranks.  Those that rank below
the first one without an answer are a random sample of the span, however labels come
and whatever drifts, and say how many of all its queries are right (`finite_anytime`).
Labels that came otherwise say how accurate the version was at those labels (`anytime`):
if new queries are labelled first, an average over them is not one over the span.

Of the error of a span the first has a half, the labels a quarter.  The rest is kept for
queries that arrive after the span has ended: each day on which some do closes the span
once more, with another number of queries, and has a share of its own.
"""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from typing import Literal, NamedTuple

from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.calendar import find_birth, load_days
from tracker.services.estimates.counted import Unit, unit_of
from tracker.services.estimates.counts import current_counts, pick_population
from tracker.services.estimates.intervals import Claim
from tracker.services.estimates.missing import (
    NOTHING,
    Missing,
    add_aside,
    bound_missing,
    is_all,
)
from tracker.services.evidence.measure import Measure, parse_measure, spread
from tracker.services.evidence.populations import LIVE, PopulationWord, standings_of
from tracker.services.fields import Instant
from tracker.services.versions import choose_versions
from tracker.services.wording import invalid
from tracker.shapes import OfDetector, Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, zone_of
from tracker.storage.estimates import weeks as storage
from tracker.storage.estimates.cells import Counts, day_in, midnight_in, pool
from tracker.storage.estimates.counts import count_awaited, count_logged
from tracker.storage.estimates.projections import CALENDAR, load_states
from tracker.words import BALANCED, OVERALL, PRECISION

Cut = Literal["week", "day", "month"]
Basis = Literal["queries", "labels"]
# Parts of the error of a span.
_FIRST_CLOSING, _LABELS, _LATER = 1 / 2, 1 / 4, 1 / 4


class SpanAccuracy(Shape):
    """How accurate a version was on the queries asked in one span of time."""

    since: Instant = Field(serialization_alias="from")
    until: Instant
    queries: int = Field(
        description="The queries of the span that arrived without a label, which are "
        "drawn from at random; groups count once. With basis labels all its queries."
    )
    labels: int = Field(
        description="The scored labels of queries of the span: live ones, or those "
        "that are replayed or unstated where it has no live one. The interval rests "
        "on live ones only."
    )
    drawn: int = Field(
        description="How many the interval rests on: of the queries those that come "
        "before the first one without an answer in their random order, or labels."
    )
    unclear: int = Field(
        description="How many of those drawn have no clear answer. They count as wrong "
        "for the lower bound and as right for the upper one."
    )
    correct: int = Field(description="How many of those drawn are right.")
    accuracy: float | None = Field(description="null where nothing is known.")
    low: float
    high: float
    basis: Basis = Field(
        description="queries: the interval is for all queries of the span, however "
        "few were drawn; labels: it is for the average over the labelled queries or, "
        "where every query gets its label, it bounds the accuracy over all queries of "
        "the span."
    )
    is_closed: bool = Field(
        description="Whether the span has ended and none of its queries arrived today "
        "(UTC). An open one is as of now, and all together hold once they are closed."
    )
    below_target: bool | None = Field(
        description="Whether the interval lies below the target of the measure; null "
        "without a target."
    )


class Weeks(OfDetector):
    """The weeks, days or months of a version, the newest first."""

    by: Cut
    population: PopulationWord = Field(
        default=LIVE, description="Whose labels the intervals count."
    )
    unit: Unit = Field(description="What counts once.")
    measure: str
    target: float | None = Field(description="The target of the measure.")
    confidence_level: float = Field(
        description="All spans that are closed hold together with this probability."
    )
    computed_at: Instant
    time_zone: str = Field(description="Where days begin.")
    items: list[SpanAccuracy]

    def day_of(self, one: SpanAccuracy) -> date:
        return day_in(one.since, zone_of(self.time_zone))


def get_weeks(  # noqa: PLR0913 - every choice that the API offers.
    session: Session,
    detector: Detector,
    *,
    computed_at: datetime,
    by: Cut = "week",
    version: str | None = None,
    measure: str | None = None,
    limit: int = 26,
) -> Weeks:
    """Return the last *limit* spans, as far as queries of one version were asked."""
    if version == "*":
        raise invalid("version", version, "weeks are of one version")
    versions = choose_versions(session, detector, version)
    chosen = parse_measure(
        detector.measure if measure is None else measure, detector.classes
    )
    targets = dict([*map(tuple, detector.also), (detector.measure, detector.target)])
    target = targets.get(str(chosen))
    known_shares = pool(current_counts(session, versions).values()).shares
    shares = None if known_shares is None else known_shares.of(detector.classes)
    found: list[SpanAccuracy] = []
    for known in versions:
        kept = load_states(session, [known]).get(known.id, {})
        born = find_birth(session, known, kept.get((CALENDAR, ""), {}), detector.zone)
        days = load_days(session, detector, known)
        of = (session, detector, known, begin(born, by), days)
        desk = _Desk(*of, chosen, target, by, computed_at, shares)
        spans = list(desk.list_spans(limit))
        left = count_logged(session, [known])[known.id]
        for ends, part in zip(spans, desk.list_missing(spans), strict=True):
            # Once all are found, a span before holds queries of other versions alone.
            if left > 0 and (one := desk.read(*ends, part)):
                found.append(one)
                left -= one.queries
    return Weeks(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=next((one.name for one in versions), None),
        by=by,
        unit=unit_of(detector),
        measure=str(chosen),
        target=target,
        confidence_level=detector.confidence_level,
        computed_at=computed_at,
        time_zone=detector.time_zone,
        items=found,
    )


class _Bounds(NamedTuple):
    """What is known of a span, by one of the ways to know it."""

    basis: Basis
    drawn: int
    correct: int
    unclear: int
    accuracy: float | None
    low: float
    high: float


class _Desk(NamedTuple):
    """What the spans of a version are measured by."""

    session: Session
    detector: Detector
    version: Version
    # The first day of the span that the places of the others go by.
    born: date
    # The labels by the day on which their queries were asked.
    days: Mapping[date, Counts]
    measure: Measure
    target: float | None
    by: Cut
    at: datetime
    # How frequent the classes are taken to be.
    shares: tuple[float, ...] | None

    def list_spans(self, limit: int) -> Iterator[tuple[datetime, datetime]]:
        """Yield the ends of *limit* spans, from the newest with a query backwards."""
        newest = storage.find_newest_asked(
            self.session, self.detector.id, self.version.id, by=self.at
        )
        if newest is None:
            return
        zone = self.detector.zone
        day = begin(day_in(newest, zone), self.by)
        for _ in range(limit):
            yield midnight_in(day, zone), midnight_in(following(day, self.by), zone)
            if day.year <= date.min.year + 1:
                return
            day = begin(day - timedelta(days=1), self.by)

    def list_missing(
        self, spans: Sequence[tuple[datetime, datetime]]
    ) -> Sequence[Missing | None]:
        """Return the queries of each span that will get their label, the newest first.

        None for too many, or where some were deleted.
        """
        if not spans or not is_all(self.detector):
            return [NOTHING] * len(spans)
        cuts = [until for _, until in spans]
        found = count_awaited(self.session, self.version, spans[-1][0], cuts)
        if found is None:
            return [None] * len(spans)
        parts = [Counter[str | None]() for _ in spans]
        for predicted, cut_by, number, _ in found:
            if cut_by:
                parts[cut_by - 1][predicted] += number
        to = self.version.deleted_to
        return [
            None if to is not None and to >= since else part
            for (since, _), part in zip(spans, parts, strict=True)
        ]

    def read(
        self, since: datetime, until: datetime, missing: Missing | None
    ) -> SpanAccuracy | None:
        """Return what is known of a span, None if no query was asked in it."""
        of = storage.SpanOfQueries(self.detector.id, self.version.id, since, until)
        queries, ranked = storage.count_asked_in(self.session, of)
        if not queries:
            return None
        arrivals = storage.Arrivals(None, has_early=False, late_days=0)
        drawn = None
        if ranked:
            arrivals = storage.find_arrivals(self.session, of)
            drawn = self._count(of)
        first, last = (day_in(one, self.detector.zone) for one in (since, until))
        months = 12 * (first.year - self.born.year) + first.month - self.born.month
        days = (first - self.born).days
        place = {"month": months, "week": days // 7, "day": days}[self.by]
        part = stats.span_share(place, are_days=self.by == "day")
        share = (1.0 - self.detector.confidence_level) * part
        counts = pool(one for day, one in self.days.items() if first <= day < last)
        by_labels, labels = self._read_labels(counts, share, missing)
        ways = [by_labels]
        if drawn is not None:
            ways[:0] = self._read_queries(drawn, share, arrivals)
        best = min(ways, key=lambda one: one.high - one.low)
        is_whole = drawn is not None and best.basis == "queries"
        newest = arrivals.newest
        return SpanAccuracy(
            since=since,
            until=until,
            queries=drawn.size if is_whole and drawn is not None else queries,
            labels=labels,
            is_closed=until <= self.at
            and (newest is None or newest.date() < self.at.date()),
            below_target=None if self.target is None else best.high < self.target,
            **best._asdict(),
        )

    def _count(self, of: storage.SpanOfQueries) -> storage.Drawn | None:
        """Count what was drawn, None where it is not known how many there are.

        So it is of recalls, of precisions by groups, and where queries were deleted.
        """
        has_groups = self.detector.groups is not None
        is_known = self.measure.kind == OVERALL or (
            self.measure.kind == PRECISION and not has_groups
        )
        deleted_to = self.version.deleted_to
        is_kept = deleted_to is None or deleted_to < of.since
        if not is_known or not is_kept:
            return None
        found = storage.count_span(
            self.session, of, predicted=self.measure.of, has_groups=has_groups
        )
        return found if found.size else None

    @staticmethod
    def _read_queries(
        drawn: storage.Drawn, share: float, arrivals: storage.Arrivals
    ) -> Iterator[_Bounds]:
        """Yield what the sample says of all queries, and what all answers say."""
        closings = max(1, arrivals.has_early + arrivals.late_days)
        part = _FIRST_CLOSING if closings == 1 else _LATER / (closings * (closings - 1))
        size, right, wrong, number, correct, unclear = drawn
        fewest, most = 0, size
        if share:
            error = math.nextafter(share * part, 0.0)
            fewest, _ = stats.finite_anytime(correct, number, size, error)
            _, most = stats.finite_anytime(correct + unclear, number, size, error)
        for counts, ends in (
            ((number, correct, unclear), (fewest, most)),
            ((right + wrong, right, 0), (right, size - wrong)),
        ):
            clear = counts[0] - counts[2]
            accuracy = counts[1] / clear if clear else None
            low, high = (end / size for end in ends)
            yield _Bounds("queries", *counts, accuracy, low, high)

    def _read_labels(
        self, counts: Counts, share: float, missing: Missing | None
    ) -> tuple[_Bounds, int]:
        """Return what the live labels of a span say, and how many labels it has.

        Where every query gets its label, those that come first may be of mistakes.
        """
        _, shown = pick_population(self.detector, counts)
        live = standings_of(LIVE, self.detector.label_sampling)
        confusion = spread(counts.select(live).confusion, self.detector.classes)
        right, counted = self.measure.count_right(confusion)
        low, high = 0.0, 1.0
        is_whole = self.measure.kind == BALANCED
        part = _LABELS if self.measure.kind in {OVERALL, PRECISION} else 1.0
        if share and any(counted):
            level = math.nextafter(1.0 - share * part, 2.0)
            claim = Claim(right, counted, self.shares if is_whole else None, level)
            if is_all(self.detector):
                missing = add_aside(missing, counts)
            classes = self.detector.classes
            low, high = bound_missing(claim, self.measure, classes, missing)
        accuracy = None
        if all(counted):
            parts = [k / n for k, n in zip(right, counted, strict=True)]
            accuracy = math.fsum(parts) / len(parts)
        labels = sum(counted), sum(right)
        bounds = _Bounds("labels", *labels, 0, accuracy, low, high)
        return bounds, counts.scored(shown)


def begin(day: date, by: Cut) -> date:
    """Return the first day of the span that holds *day*; a week begins on Monday."""
    if by == "week":
        return day - timedelta(days=day.weekday())
    return day.replace(day=1) if by == "month" else day


def following(day: date, by: Cut) -> date:
    """Return the first day of the span after the one that begins on *day*."""
    return begin(day + timedelta(days={"day": 1, "week": 7, "month": 31}[by]), by)
