"""The estimate of a detector's accuracy from the labels committed so far."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal, TypeVar

from pydantic import Field, PrivateAttr
from sqlalchemy.orm import Session

from tracker import words
from tracker.services.estimates import decision
from tracker.services.estimates.calendar import AccuracyChange
from tracker.services.estimates.counted import (
    Counted,
    Unit,
    bound_ahead,
    choose_labels,
    choose_now,
    date_counts,
    describe_basis,
    narrow_counts,
    unit_of,
)
from tracker.services.estimates.counts import (
    ClassShares,
    Weighted,
    current_counts,
    describe_shares,
    get_weighted,
)
from tracker.services.estimates.decision import Decision, Span
from tracker.services.estimates.intervals import (
    ALL,
    Claim,
    MethodWord,
    score,
    score_share,
    score_window,
)
from tracker.services.estimates.missing import (
    NOTHING,
    Missing,
    UnclearBounds,
    bound_each_missing,
    bound_unclear,
)
from tracker.services.estimates.replays import REPLAYS_ASIDE, decide_replay
from tracker.services.estimates.warnings import DependentMistakes, find_warnings
from tracker.services.estimates.windows import parse_window
from tracker.services.evidence.measure import Measure, read_measure, spread
from tracker.services.evidence.populations import POOLED as POOLED_POPULATION
from tracker.services.evidence.populations import (
    PopulationWord,
    standings_of,
    targeted_standings,
)
from tracker.services.fields import Instant
from tracker.services.queries.where import named_version, parse_where
from tracker.services.versions import choose_versions
from tracker.shapes import Accuracy, OfClass, OfDetector, Score, Shape
from tracker.stats import shared_level
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import pool
from tracker.storage.estimates.counts import count_logged
from tracker.storage.queries.finding import Between, find_asked_span

SpanWord = Literal["now", "all"]
NOW: SpanWord = "now"


class Population(Shape):
    """Whose labels an estimate counts."""

    kind: PopulationWord = Field(
        description="live: labels of the version's own queries, chosen at random; "
        "replayed: taken over from other versions by input; unstated: nobody has said "
        "how they were chosen; pooled: of several versions, an input by one of those "
        "that had answered it when it got its first label, drawn at random."
    )
    queries: int = Field(description="Its labelled queries, unclear ones included.")
    of: int | None = Field(description="All queries of the version; null if not known.")


_Bounded = TypeVar("_Bounded", bound=Accuracy)
_Scored = TypeVar("_Scored", bound=Score)


class ClassEstimate(Score, OfClass):
    """The accuracy of one class: correct / labelled, and its interval."""


class Estimate(OfDetector):
    """How accurate one version of a detector is, and how sure that is."""

    computed_at: Instant
    confidence_level: float
    method: MethodWord
    basis: str = Field(
        description="What it rests on, in plain words: whose labels, what counts once, "
        "and of which days."
    )
    population: Population = Field(description="Whose labels it counts.")
    unit: Unit = Field(
        description="What counts once: an input, a group, or in an audit a query."
    )
    labels: int = Field(description="The number of scored labels.")
    last_label_at: Instant | None = Field(description="When the newest label arrived.")
    asked_from: Instant | None = Field(
        default=None, description="When the first of the scored queries was asked."
    )
    asked_to: Instant | None = Field(
        default=None, description="When the last of the scored queries was asked."
    )
    unclear: int = Field(description="Labels UNCLEAR, which are never scored.")
    unanswered: int = Field(
        default=0,
        description="Scored labels of queries to which the detector gave no answer. "
        "They count as wrong.",
    )
    answered: Score | None = Field(
        default=None,
        description="How many of the labelled queries that got an answer got the right "
        "one; null where all were answered.",
    )
    coverage: Score | None = Field(
        default=None,
        description="How many of the labelled queries got an answer; null where all "
        "did.",
    )
    corrections: int = Field(description="Labels that replaced one of another class.")
    unstated: int = Field(
        description="The number of scored labels whose sampling is unstated."
    )
    unstated_left_out: int = Field(
        default=0, description="Labels of unstated sampling that are not scored."
    )
    replayed_left_out: int = Field(
        default=0,
        description="Labels taken over from another version that are not scored.",
    )
    disputed_left_out: int = Field(
        default=0,
        description="Labelled queries without a majority of their labelers, or with "
        "too few of them.",
    )
    targeted_left_out: int = Field(description="Targeted labels that are not scored.")
    repeats_left_out: int = Field(
        description="Labelled queries that repeat an input of their version; an input "
        "is scored once, by its first query."
    )
    grouped_left_out: int = Field(
        description="Labelled queries of groups that count by another query."
    )
    versions_left_out: int = Field(
        default=0,
        description="Where versions are pooled, labelled queries of inputs that count "
        "by another version.",
    )
    includes_targeted: bool
    classes: list[ClassEstimate] = Field(
        description="Each interval holds by itself at the confidence level; those of K "
        "classes hold all at once with at least its K-th power."
    )
    balanced: Accuracy = Field(description="The mean of the accuracies of the classes.")
    confusion: dict[str, dict[str, int]] = Field(
        description="confusion[label][predicted]; cells without a label are left out."
    )
    target: float | None = Field(description="What the detector's measure aims at.")
    decision: Decision | None = Field(
        description="null without a target, and where the labels are not a random "
        "sample."
    )
    also: list[Decision] = Field(
        default=[], description="The decisions on the measures that are watched too."
    )
    no_decision_because: str | None = Field(description="Why there is no decision.")
    change: AccuracyChange | None = Field(
        default=None,
        description="The last proved change of the accuracy, and since which day the "
        "decision counts; null while none is proved.",
    )
    span: Span | None = Field(
        default=None,
        description="The days of the counted queries; null where other labels than "
        "those of a version or since its last change were asked for.",
    )
    class_shares: ClassShares | None = Field(
        default=None,
        description="How frequent the classes are taken to be; null while the version "
        "has too few live labels and nothing was stated before its first one.",
    )
    unclear_bounds: UnclearBounds | None = Field(
        default=None,
        description="The bounds of the detector's measure if all unclear and disputed "
        "answers, and where every query gets its label those without one, had been "
        "right or wrong; null where they are at most 5 % of all.",
    )
    warnings: list[DependentMistakes] = Field(
        default=[], description="What speaks against the conditions that it rests on."
    )
    window: str | None = Field(
        default=None, description="The last labels or days that it covers."
    )
    weighted: Weighted | None = Field(
        default=None,
        description="What the labels come to that were imported with a weight; null "
        "where none was, and for a part of the labels.",
    )
    as_known_at: Instant | None = Field(
        default=None,
        description="What came after this instant is left out; the settings are those "
        "of today.",
    )

    # That of the deciding method, which part of the error is for.
    _deciding_level: float = PrivateAttr(default=0.0)
    # Without a target, where some queries will get their label: the measure, whatever
    # these will be.
    _bounded: Accuracy | None = PrivateAttr(default=None)
    # The queries that will get their label, by predicted class, where bounds go by it.
    _awaited: Missing | None = PrivateAttr(default_factory=dict)

    @property
    def shown_level(self) -> float:
        """The level at which its method computes each interval."""
        if self.method != words.DECIDING_METHOD:
            return self.confidence_level
        return self._deciding_level or self.confidence_level

    @property
    def bounded(self) -> Accuracy | None:
        return self._bounded

    def bound_all(self, awaited: Missing | None) -> "Estimate":
        """Return it with intervals that hold whatever the labels to come will be."""
        if awaited == NOTHING:
            return self
        self._awaited = awaited
        classes = self.bound_classes(self.classes, words.RECALL)
        balanced = self.bound(self.balanced, Measure(words.BALANCED))
        return self.model_copy(update={"classes": classes, "balanced": balanced})

    def bound_classes(self, found: list[_Scored], kind: str) -> list[_Scored]:
        """Return the scores of the classes with bounds, all computed at once."""
        if self._awaited == NOTHING:
            return found
        level = self.shown_level
        ends = bound_each_missing(
            [Claim((one.correct,), (one.labelled,), None, level) for one in found],
            [Measure(kind, name) for name in self.confusion],
            [*self.confusion],
            self._awaited,
        )
        return [
            one.model_copy(update={"low": low, "high": high})
            for one, (low, high) in zip(found, ends, strict=True)
        ]

    def bound(self, found: _Bounded, measure: Measure) -> _Bounded:
        if self._awaited == NOTHING:
            return found
        terms = (measure, self.confusion, self.shown_level, self.shares, self._awaited)
        ends = decision.bound_measure(*terms)[1]
        return found.model_copy(update={"low": ends.low, "high": ends.high})

    @property
    def shares(self) -> tuple[float, ...] | None:
        return None if self.class_shares is None else self.class_shares.parts

    @property
    def whole(self) -> Score:
        correct = sum(one.correct for one in self.classes)
        return Score(correct=correct, labelled=self.labels, **dict(self.balanced))

    @property
    def correct(self) -> tuple[int, ...]:
        return tuple(one.correct for one in self.classes)

    @property
    def labelled(self) -> tuple[int, ...]:
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
    population: str | None = None,
    target: float | None = None,
    span: SpanWord | None = None,
    is_dated: bool = True,
) -> Estimate:
    """Compute an estimate from every label committed so far.

    With the *span* now it counts queries asked since the last proved change, with all
    those of the version; by default now for `anytime`, which decides.  Only queries
    from *since* to *until* count for which *where* holds (see ``parse_where``).  A
    *window* of the last labels or days stands beside them, and *as_known_at* leaves out
    what came later, for changes too.  *is_dated* finds when the queries were asked.
    """
    at = as_known_at or computed_at
    last, since = parse_window(window, since, method, at=at, until=until)
    filters: dict[str, Any] = {"since": since, "until": until}
    filters["where"] = parse_where(session, detector, where, at=computed_at)
    named = named_version(where) if version is None else version
    versions = choose_versions(session, detector, named)
    current = pool(current_counts(session, versions).values())
    kind = {"includes_targeted": include_targeted, "is_pooled": version == ALL}
    chosen = choose_labels(detector, current, population, **kind)._replace(
        is_of_version=not any([*kind.values(), *filters.values(), window is not None]),
        is_now=span == NOW or (span is None and method == words.DECIDING_METHOD),
    )
    recent = {"known_at": as_known_at, "last": last}
    counted = narrow_counts(session, detector, versions, chosen, filters, recent)
    one = detector, versions[:1], counted
    (counted,) = date_counts(session, [one], confidence_level, at, as_known_at)
    found = build_estimate(
        detector,
        counted,
        version if version == ALL else next((v.name for v in versions), None),
        computed_at,
        queries=sum(count_logged(session, versions).values()),
        is_foreseen=True,
        method=method,
        level=confidence_level,
        target=target,
        window=window,
        as_known_at=as_known_at,
    )
    facts = _find_facts(session, detector, versions, found, filters, counted, is_dated)
    return found.model_copy(update=facts)


def _find_facts(  # noqa: PLR0913, PLR0917 - which queries count.
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    found: Estimate,
    filters: Mapping[str, Any],
    counted: Counted,
    is_dated: bool,
) -> dict[str, Any]:
    """Return warnings, what a replay decides, and when queries were asked if known."""
    facts: dict[str, Any] = {}
    kind, is_then = found.population.kind, found.as_known_at is not None
    if versions and not (is_then or found.window or any(filters.values())):
        facts["weighted"] = get_weighted(session, detector, versions)
        if not found.includes_targeted and kind != POOLED_POPULATION:
            starts = counted.now.starts if counted.now else ()
            which = (detector, versions[0], kind, found.labels, starts)
            facts["warnings"] = find_warnings(session, *which)
    if found.no_decision_because == REPLAYS_ASIDE and found.target is not None:
        aim = found.target, found.confidence_level
        facts |= decide_replay(session, detector, versions[0], *aim)
    if not found.labels or is_then or (found.window or "").isdigit() or not is_dated:
        return facts
    if found.span is not None:
        filters = {**filters, **found.span.instants(detector)}
    span = Between("asked_at", filters["since"], below=filters["until"])
    limits = (span, *filters["where"]) if any(filters.values()) else ()
    asked = find_asked_span(
        session,
        detector.id,
        [one.id for one in versions],
        [one.test(session) for one in limits],
        labels=found.labels,
        classes=[one.name for one in found.classes if one.labelled],
        standings=counted.standings,
    )
    if asked is not None:
        facts |= {"asked_from": asked[0], "asked_to": asked[1]}
    return facts


def list_estimates(
    session: Session,
    versions: Mapping[Detector, Version | None],
    *,
    computed_at: datetime,
) -> list[Estimate]:
    """Compute the estimate of one version of each detector, in few statements.

    It goes by what decides.  When the queries were asked is not in it, nor how many
    labels would decide.
    """
    shown = [one for one in versions.values() if one is not None]
    found = current_counts(session, shown)
    counted: list[tuple[Detector, Sequence[Version], Counted]] = []
    for detector, version in versions.items():
        some = [] if version is None else [version]
        counts = pool(found[one.id] for one in some)
        counted.append((detector, some, choose_now(detector, counts)))
    dated = date_counts(session, counted, None, computed_at)
    bound_ahead(zip(versions, dated, strict=True))
    return [
        build_estimate(detector, one, some[0].name if some else None, computed_at)
        for (detector, some, _), one in zip(counted, dated, strict=True)
    ]


def build_estimate(  # noqa: PLR0913 - plain values that stand in the estimate.
    detector: Detector,
    counted: Counted,
    version: str | None,
    computed_at: datetime,
    *,
    queries: int | None = None,
    method: str = words.DECIDING_METHOD,
    level: float | None = None,
    target: float | None = None,
    is_foreseen: bool = False,
    window: str | None = None,
    as_known_at: datetime | None = None,
) -> Estimate:
    """Return the estimate by counts that are known, by default of what decides."""
    counts, now = counted.counts, counted.now
    level = detector.confidence_level if level is None else level
    target = detector.target if target is None else target
    population = POOLED_POPULATION if counted.is_pooled else counted.population
    queries_counted = counted.shown.count(counted.standings)
    shares = describe_shares(detector, counts, counted.standings)
    bets = None if shares is None else shares.parts
    deciding = counted.promised_level(detector, level)
    scored = _score(detector, counted, method, (level, deciding), window, bets)
    said = scored["labels"], scored["unclear_bounds"]
    estimate = Estimate(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=version,
        computed_at=computed_at,
        confidence_level=level,
        method=method,
        basis=describe_basis(detector, counted, population, *said),
        population=Population(kind=population, queries=queries_counted, of=queries),
        unit=unit_of(detector),
        **_count_left_out(counted, detector.label_sampling),
        **scored,
        target=target,
        **_decide(detector, target, counted, level, bets, is_foreseen=is_foreseen),
        change=now and now.change,
        span=counted.span,
        class_shares=shares,
        window=window,
        as_known_at=as_known_at,
    )
    estimate._deciding_level = deciding
    if counted.is_now and method == words.DECIDING_METHOD:
        estimate = estimate.bound_all(counted.awaited)
    estimate._bounded = _bound_awaited(detector, counted, target, level, bets)
    return estimate


def _bound_awaited(
    detector: Detector,
    counted: Counted,
    target: float | None,
    level: float,
    bets: tuple[float, ...] | None,
) -> Accuracy | None:
    """Return the measure's bounds where queries wait for a label and no target is."""
    now = counted.now
    if target is not None or now is None or now.awaited == NOTHING:
        return None
    if now.counts is not None and not counted.is_now:
        # The accuracies beside it are of labels before the change, too.
        return None
    found = counted.decided.select(counted.standings)
    confusion = spread(found.confusion, detector.classes)
    measure, promises = read_measure(detector.measure), 1 + len(detector.also)
    part = counted.level(shared_level(level, promises))
    terms = (measure, confusion, part, bets, now.awaited)
    return decision.bound_measure(*terms)[1]


def _score(  # noqa: PLR0913, PLR0917 - the counts, and by what they are scored.
    detector: Detector,
    counted: Counted,
    method: str,
    levels: tuple[float, float],
    window: str | None,
    bets: tuple[float, ...] | None,
) -> dict[str, Any]:
    """Return the accuracies of the shown counts, by a method or of a window.

    At the first of the *levels*, those of the deciding method at the second.
    """
    level, deciding = levels
    at = deciding if method == words.DECIDING_METHOD else level
    found = counted.shown.select(counted.standings)
    correct, labelled = found.by_class(detector.classes)
    if window is None:
        rows = score([correct], [labelled], method, at, [bets])
    else:
        rows = score_window([correct], [labelled], at)
    whole, *scores = rows[0]
    shown = {
        "labels": sum(labelled),
        "unclear": sum(found.unclear.values()),
        "classes": [
            ClassEstimate(name=name, **dict(one))
            for name, one in zip(detector.classes, scores, strict=True)
        ],
        "balanced": Accuracy(accuracy=whole.accuracy, low=whole.low, high=whole.high),
        "confusion": spread(found.confusion, detector.classes),
        "unclear_bounds": bound_unclear(
            detector, counted.shown, counted.standings, deciding, bets, counted.awaited
        ),
    }
    unanswered = sum(
        number
        for (_, predicted), number in found.confusion.items()
        if predicted == words.NO_ANSWER
    )
    if unanswered:
        answered = sum(labelled) - unanswered
        shown |= {
            "unanswered": unanswered,
            "answered": score_share(sum(correct), answered, level),
            "coverage": score_share(answered, sum(labelled), level),
        }
    return shown


def _count_left_out(counted: Counted, word: str | None) -> dict[str, Any]:
    """Return how many labels are not scored, by the reason, and facts of all."""
    counts, standings = counted.counts, counted.standings
    unstated, replayed = (
        standings_of(one, word) - standings for one in (words.UNSTATED, words.REPLAYED)
    )
    return {
        "last_label_at": counts.last_label_at,
        "corrections": counts.corrections,
        "unstated": counts.scored(standings & standings_of(words.UNSTATED, None)),
        "unstated_left_out": counts.count(unstated),
        "replayed_left_out": counts.count(replayed),
        "disputed_left_out": counts.count(frozenset({words.OPEN, words.DISPUTED})),
        "targeted_left_out": counts.scored(targeted_standings(word) - standings),
        "repeats_left_out": counts.count(frozenset({words.REPEAT})),
        "grouped_left_out": counts.count(frozenset({words.GROUPED})),
        "versions_left_out": counted.others,
        "includes_targeted": counted.includes_targeted,
    }


def _decide(  # noqa: PLR0913 - a promise, and what is known of the classes.
    detector: Detector,
    target: float | None,
    counted: Counted,
    level: float,
    bets: tuple[float, ...] | None,
    *,
    is_foreseen: bool,
) -> dict[str, Any]:
    """Decide on the detector's measure and those beside it, by what counts now."""
    because = None
    if target is None:
        because = decision.NO_TARGET
    elif counted.includes_targeted and not counted.is_of_version:
        because = decision.TARGETED
    elif not counted.is_of_version:
        because = decision.POOLED if counted.is_pooled else decision.CHOSEN_SPAN
    elif counted.population == words.UNSTATED:
        because = decision.refuse_unstated(counted.shown.count(counted.standings))
    elif counted.population == words.REPLAYED:
        because = REPLAYS_ASIDE
    if because is not None or target is None:
        return {"decision": None, "no_decision_because": because}
    wanted, now = [(detector.measure, target), *detector.also], counted.now
    found = counted.decided.select(counted.standings)
    confusion = spread(found.confusion, detector.classes)
    level = counted.level(shared_level(level, len(wanted)))
    first, *others = (
        decision.decide_verdict(
            read_measure(name),
            aim,
            confusion,
            level,
            shares=bets,
            span=Span() if now is None else Span(since=now.since, until=now.until),
            missing=NOTHING if now is None else now.awaited,
            is_foreseen=is_foreseen,
        )
        for name, aim in wanted
    )
    return {"decision": first, "also": others, "no_decision_because": None}
