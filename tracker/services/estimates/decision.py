"""Whether a target is met at every look, and which labels would decide it."""

import math
from datetime import date, datetime, timedelta
from functools import lru_cache

from pydantic import Field, PrivateAttr

from tracker import stats, words
from tracker.charts.words import plural
from tracker.rounding import roughly, rounded_share
from tracker.services.estimates.intervals import Claim, MethodWord, bound
from tracker.services.estimates.missing import (
    NOTHING,
    Missing,
    bound_missing,
    say_missing,
)
from tracker.services.evidence.measure import Confusion, Measure, read_measure
from tracker.shapes import Accuracy, Shape
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import midnight_in

# A forecast is of one made-up audit, and a smaller saving may be none.
_SAVING = 0.9


class Advice(Shape):
    """The labels that would decide, if accuracies and shares stay as they are."""

    name: str | None = Field(
        serialization_alias="class",
        description="The class that is needed most; null where labels of any class "
        "count.",
    )
    predicted: str | None = Field(
        default=None,
        description="Of a precision: the prediction whose labels are needed.",
    )
    labels: int | None = Field(
        description="About how many more of these labels decide, with the others that "
        "come along; null while the class has no label."
    )
    share: float | None = Field(
        description="Their part of the labels so far; null without one."
    )
    random_queries: int | None = Field(
        description="About how many queries drawn at random bring so many, at this "
        "share: `labels_to_decide`."
    )
    audit_labels: int | None = Field(
        default=None,
        description="About how many labels an audit would take, by its forecast; null "
        "where none was made: in estimates and gates by API, for more than 100,000 "
        "queries or 20 classes, and where every query has a label.",
    )
    weekly_labels: int | None = Field(
        default=None,
        description="About how many labels each audit of a weekly schedule would take "
        "to decide it about that week's queries, by the forecast for those of the last "
        "seven days; null where audit_labels is, and where these have no query without "
        "a label.",
    )
    text: str = Field(description="The advice in plain words.")

    def saves(self, labels: int | None) -> bool:
        """Return whether so many are less than nine tenths of those at random."""
        at_random = self.random_queries
        return bool(labels and at_random and labels < _SAVING * at_random)

    def with_audit(self, labels: int, weekly: int | None = None) -> "Advice":
        """Return the advice with the price in an audit, and in one of each week."""
        said = "An audit would save nothing."
        if not labels:
            said = "An audit of the queries logged so far would need no label more."
        elif self.saves(labels):
            said = f"An audit would take about {roughly(labels):,} labels."
        if weekly and self.saves(weekly):
            said += f" An audit every week would take about {roughly(weekly):,} each."
        elif weekly:
            said += " An audit every week would save nothing."
        prices = {"audit_labels": labels, "weekly_labels": weekly}
        return self.model_copy(update=prices | {"text": f"{self.text} {said}"})


def advise(
    measure: Measure,
    confusion: Confusion,
    at_random: int | None,
    because: str | None = None,
) -> Advice | None:
    """Return which labels decide *measure*, if *at_random* more of any class would.

    It is the class whose label takes most off the doubt.  Nobody can order labels of a
    class: they come as often as the class does.
    """
    if because is not None:
        text = f"{because[0].upper()}{because[1:]}: label these first."
        return Advice(
            name=None, labels=at_random, share=None, random_queries=at_random, text=text
        )
    right, counted = measure.count_right(confusion)
    place = stats.next_class(right, counted)
    name = measure.of if measure.kind == words.RECALL else None
    if measure.kind == words.BALANCED:
        name = [*confusion][place]
    if not counted[place] and name is not None:
        first = f"Labels of {name} are needed first."
        return Advice(
            name=name, labels=None, share=None, random_queries=None, text=first
        )
    if at_random is None:
        return None
    share = counted[place] / sum(sum(row.values()) for row in confusion.values())
    predicted = measure.of if measure.kind == words.PRECISION else None
    what = name or (predicted and f"queries predicted as {predicted}")
    more = math.ceil(at_random * share)
    # In two figures.
    drawn, labels = roughly(at_random), roughly(more)
    if what is None:
        what, labels = "queries drawn at random", drawn
    verb = "decides" if labels == 1 else "decide"
    said = f"About {plural(labels, 'more label')} of {what} {verb} it, if nothing "
    said += "changes."
    if share != 1:
        percent = float(100 * rounded_share(share, 3))
        said += f" At {percent:.3g} % of all labels, that takes about "
        said += f"{plural(drawn, 'query', 'queries')} drawn at random."
    return Advice(
        name=name,
        predicted=predicted,
        labels=more,
        share=share,
        random_queries=at_random,
        text=said,
    )


NO_TARGET = "the detector has no target"
TARGETED = (
    "targeted labels are included, and they are no random sample of what the detector "
    "sees"
)
POOLED = (
    "the versions are pooled, and labels of several versions are no random sample of "
    "what any of them sees"
)
CHOSEN_SPAN = (
    "the span of time was chosen, or a condition, maybe after a look at what it "
    "shows, and so its labels are no random sample"
)

# Beyond so many labels nobody plans.
MOST_FORESEEN = 10_000_000


def refuse_unstated(labels: int) -> str:
    """Return why so many labels of unstated sampling decide nothing."""
    return (
        f"{labels:,} label{'s do' if labels != 1 else ' does'} not say how "
        f"{'they were' if labels != 1 else 'it was'} chosen; state the label sampling "
        "of the detector"
    )


class Span(Shape):
    """The days on which counted queries were asked, in the workspace's time zone."""

    since: date | None = Field(
        default=None, description="The first day; null for all of the version."
    )
    until: date | None = Field(
        default=None,
        description="The last day; null: until now. Where every query gets its label, "
        "those count that are old enough to have it, if that tells more.",
    )

    def instants(self, detector: Detector) -> dict[str, datetime]:
        """Return the instants that it begins with and ends before."""
        found = {}
        if self.since is not None:
            found["since"] = midnight_in(self.since, detector.zone)
        if self.until is not None:
            day = self.until + timedelta(days=1)
            found["until"] = midnight_in(day, detector.zone)
        return found


class Decision(Shape):
    """Whether the target is met, by the interval that may be looked at at any time."""

    verdict: words.Verdict = Field(description="met, missed or undecided.")
    measure: str = Field(
        description="What the target is on: balanced, overall, recall:CLASS or "
        "precision:CLASS."
    )
    target: float
    method: MethodWord
    accuracy: float | None = Field(description="The measure by the labels so far.")
    low: float = Field(
        description="What the verdict goes by: where every query gets its label, the "
        "bounds had those without one all been wrong, or right."
    )
    high: float
    because: str | None = Field(
        default=None, description="Why the labels that there are do not decide."
    )
    labels: int = Field(description="How many labels the measure is made of.")
    span: Span = Field(
        description="Of which days they are: since the last proved change."
    )
    labels_to_decide: int | None = Field(
        description="About how many more labels of queries drawn at random would "
        "decide it, if the accuracies and the shares of the classes stay as they are; "
        "0 once it is decided, null where no number can be foreseen: while a class has "
        "no label, with the estimate at the target, and beyond ten million."
    )
    advice: Advice | None = Field(
        default=None,
        description="Which labels it waits for; null once it is decided, and where "
        "nothing can be foreseen.",
    )
    _claim: Claim = PrivateAttr()


def decide_verdict(  # noqa: PLR0913 - a promise, and what is known of the classes.
    measure: Measure,
    target: float,
    confusion: Confusion,
    level: float,
    *,
    shares: tuple[float, ...] | None = None,
    span: Span | None = None,
    missing: Missing | None = NOTHING,
    is_foreseen: bool = True,
) -> Decision:
    """Compare *measure* with its target, by labels of a *span* or all of a version.

    It goes by the interval that holds after every label at once: one that is valid
    for a single look would in the end meet or miss any target near the truth.  Where
    queries are *missing* that will get their label, it goes by the bounds.
    *level* is that of the interval.  *shares* are of the classes, for their mean.
    How many labels would decide it costs several intervals more, and is left out
    unless it *is_foreseen*.
    """
    claim, own = bound_measure(measure, confusion, level, shares, missing)
    right, counted, bets, _ = claim
    low, high = own.low, own.high
    by_labels = compare_with_target(*bound(right, counted, level, bets), target)
    verdict = compare_with_target(low, high, target)
    because = None if verdict == by_labels else say_missing(missing)
    more = 0 if verdict != "undecided" else None
    if because is not None:
        more = sum(missing.values()) if missing else None
    elif more is None and is_foreseen:
        more = _count_labels_to_decide(target, right, counted, level, bets)
        if more and len(counted) == 1 and any(counted):
            # So many of the class; the others come along at random.
            of_all = sum(sum(row.values()) for row in confusion.values())
            more = min(math.ceil(more * of_all / sum(counted)), MOST_FORESEEN)
    advice = None
    if because is not None or (verdict == "undecided" and is_foreseen):
        advice = advise(measure, confusion, more, because)
    found = Decision(
        verdict=verdict,
        measure=str(measure),
        target=target,
        method=words.DECIDING_METHOD,
        accuracy=own.accuracy,
        low=low,
        high=high,
        labels=sum(counted),
        because=because,
        labels_to_decide=more,
        span=span or Span(),
        advice=advice,
    )
    found._claim = claim
    return found


def bound_measure(
    measure: Measure,
    confusion: Confusion,
    level: float,
    shares: tuple[float, ...] | None,
    missing: Missing | None,
) -> tuple[Claim, Accuracy]:
    """Return what is claimed of *measure*, and its bounds whatever is *missing*."""
    right, counted = measure.count_right(confusion)
    claim = Claim(right, counted, shares if len(counted) > 1 else None, level)
    low, high = bound_missing(claim, measure, [*confusion], missing)
    parts = [k / n for k, n in zip(right, counted, strict=True) if n]
    accuracy = math.fsum(parts) / len(parts) if all(counted) else None
    return claim, Accuracy(accuracy=accuracy, low=low, high=high)


def decide_with_forecast(found: Decision, confusion: Confusion) -> Decision:
    """Return a decision by these counts with how many labels would decide it."""
    if found.because is not None:
        return found
    measure, claim = read_measure(found.measure), found._claim
    terms = (measure, found.target, confusion, claim.level)
    return decide_verdict(*terms, shares=claim.shares, span=found.span)


def method_level(method: str, confidence_level: float, population: str) -> float:
    """Return the level at which *method* computes the intervals of a whole version.

    A quarter of the error of `anytime` is for intervals since a day, and for a replay.
    """
    if method != words.DECIDING_METHOD:
        return confidence_level
    if population == words.REPLAYED:
        return stats.replay_level(confidence_level)
    return stats.level_since(confidence_level, None, 0)


def compare_with_target(low: float, high: float, target: float) -> words.Verdict:
    if low > target:
        return "met"
    return "missed" if high < target else "undecided"


# Pages that stay open ask again and again while nothing has changed.
@lru_cache(maxsize=1024)
def _count_labels_to_decide(
    target: float,
    right: tuple[int, ...],
    counted: tuple[int, ...],
    confidence_level: float,
    shares: tuple[float, ...] | None,
) -> int | None:
    if len(counted) == 1:
        return labels_to_decide_share(right[0], counted[0], target, confidence_level)
    more = stats.balanced_labels_to_decide(
        right, counted, target, confidence_level, shares=shares
    )
    return None if more is None else sum(more)


def labels_to_decide_share(
    right: int, counted: int, target: float, confidence_level: float
) -> int | None:
    """Return how many more would decide one share if it stays as it is."""
    if not counted or right == target * counted:
        return None

    def decides(more: int) -> bool:
        after = counted + more
        low, high = bound((round(right * after / counted),), (after,), confidence_level)
        return low > target or high < target

    most = 1
    while not decides(most):
        most *= 2
        if most > MOST_FORESEEN:
            return None
    least = most // 2
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (least, middle) if decides(middle) else (middle, most)
    return most
