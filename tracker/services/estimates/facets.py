"""Where mistakes come from: each value of a facet, with its count and its lift."""

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta, tzinfo
from functools import lru_cache
from itertools import chain, compress
from typing import Any, NamedTuple

from sqlalchemy.orm import Session

from tracker.charts.words import shorten
from tracker.services.estimates.query_lists import QueryFilter, build_filter
from tracker.services.estimates.weeks import begin
from tracker.stats import compare_once, judge_slices
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import day_in
from tracker.storage.queries.finding import list_answers
from tracker.storage.queries.queries import load_tags
from tracker.words import NO_ANSWER

# The newest labelled queries; more would make the page slow, and they say enough.
MOST = 5_000
# Of each side of a drop, on a page that is looked at again and again.
_MOST_COMPARED = 2_000
PAIR, CONFIDENCE, WEEK, LABELER, TAG = "pair", "confidence", "week", "labeler", "tag"
CLASS = "class"
_TITLES = {
    PAIR: "Taken for",
    CONFIDENCE: "Confidence",
    WEEK: "Week",
    LABELER: "Labelled by",
    TAG: "Tag",
    CLASS: "Class",
}
_BINS = ((0.9, 1.0), (0.7, 0.9), (0.5, 0.7), (0.0, 0.5))
_METADATA = "metadata."


class Value(NamedTuple):
    """A value of a facet, among the queries that the other filters leave."""

    # What the filter says of it: a condition, a name, or a label and a prediction.
    text: str
    name: str
    mistakes: int
    labelled: int
    # Its share of the mistakes by its share of the labelled queries.
    lift: float | None
    # Whether it is shown to be worse, with all values of all facets together.
    is_worse: bool = False


@dataclass(frozen=True, slots=True)
class Facet:
    """A property of queries with its values, those with most mistakes first."""

    key: str
    values: Sequence[Value]
    chosen: str | None
    mistakes: int
    labelled: int

    @property
    def title(self) -> str:
        return _TITLES.get(self.key) or self.key.removeprefix(_METADATA).capitalize()

    def find_worst(self) -> Value | None:
        """Return the value with the highest lift of those shown to be worse."""
        worse = (one for one in self.values if one.is_worse)
        return max(worse, key=lambda one: one.lift or 0.0, default=None)


class Difference(NamedTuple):
    """What has more than its share of the mistakes since a day."""

    facet: Facet
    worst: Value | None
    # Its value among the labelled queries from before that day, if there was one.
    before: Value | None


@dataclass(frozen=True, slots=True)
class Facets:
    """All of them."""

    items: Sequence[Facet]
    # Whether there are older queries that are in no count.
    is_cut: bool

    def find_worst(self) -> tuple[Facet, Value] | None:
        """Return the value with the highest lift of those shown to be worse.

        Of the confidence nothing is said: where it is low, mistakes always are more.
        """
        told = (one for one in self.items if one.key != CONFIDENCE)
        worse = [(one, worst) for one in told if (worst := one.find_worst())]
        return max(worse, key=lambda each: each[1].lift or 0.0, default=None)


def join_pair(label: str, predicted: str) -> str:
    return json.dumps([label, predicted], ensure_ascii=False)


def get_facets(  # noqa: PLR0913 - which queries, which facets, how many.
    session: Session,
    detector: Detector,
    wanted: QueryFilter,
    *,
    at: datetime,
    keys: Sequence[str] | None = None,
    most: int = MOST,
) -> Facets:
    """Return the facets of the newest labelled queries that are *wanted*, or some.

    Each is counted with the filters of all others, so that a choice can be changed.
    """
    chosen, wanted = _take_choices(detector, wanted)
    conditions = build_filter(
        session, detector, replace(wanted, labelled=True, is_wrong=None), at=at
    )
    rows = list_answers(session, conditions, limit=most + 1)
    is_cut, rows = len(rows) > most, rows[:most]
    cuts = [_METADATA + name for name in detector.slices]
    keys = keys or [PAIR, *cuts, CONFIDENCE, WEEK, LABELER, TAG]
    has_cuts = any(key.startswith(_METADATA) for key in {*keys, *chosen})
    # All at once: a call for each takes longer than what it reads.
    details = ",".join(row.details or "{}" for row in rows) if has_cuts else ""
    known = json.loads(f"[{details}]")
    # One list a facet: a step for each of thousands of queries takes a page's time.
    read = {key: _read(key, rows, known, detector.zone) for key in {*keys, *chosen}}
    is_wrong = [row.label != row.predicted for row in rows]
    facets = [_count(key, read, is_wrong, chosen) for key in keys]
    return Facets(_judge(facets, detector.confidence_level), is_cut)


def list_differences(
    session: Session, detector: Detector, version: str, since: date, *, at: datetime
) -> list[Difference]:
    """Return what the mistakes since a day have in common; the classes come first."""
    keys = [CLASS, *(_METADATA + name for name in detector.slices), LABELER, TAG]
    spans = (f"asked_at:{since}..", f"asked_at:..{since - timedelta(days=1)}")
    now, before = (
        get_facets(
            session,
            detector,
            QueryFilter(version=version, is_counted=True, where=[span]),
            at=at,
            keys=keys,
            most=_MOST_COMPARED,
        ).items
        for span in spans
    )
    found = []
    for facet, old in zip(now, before, strict=True):
        worst = facet.find_worst()
        same = (one for one in old.values if worst and one.text == worst.text)
        if worst or facet.key == CLASS:
            found.append(Difference(facet, worst, next(same, None)))
    return found


def _take_choices(
    detector: Detector, wanted: QueryFilter
) -> tuple[dict[str, str], QueryFilter]:
    """Return the choices that facets offer by facet, and the filter without them."""
    chosen, others = {}, []
    known = {_where_confidence(*one) for one in _BINS}
    for text in wanted.where:
        name = text.partition(":")[0]
        if name.removeprefix(_METADATA) in detector.slices and name != text:
            chosen[name] = text
        elif text in known:
            chosen[CONFIDENCE] = text
        elif _is_week(text):
            chosen[WEEK] = text
        else:
            others.append(text)
    if wanted.label is not None and wanted.predicted is not None:
        chosen[PAIR] = join_pair(wanted.label, wanted.predicted)
        wanted = replace(wanted, label=None, predicted=None)
    named = {LABELER: wanted.labeler, TAG: wanted.tag}
    chosen |= {key: name for key, name in named.items() if name is not None}
    return chosen, replace(wanted, labeler=None, tag=None, where=others)


def _read(
    key: str, rows: Sequence[Any], known: Sequence[Mapping[str, Any]], zone: tzinfo
) -> list[Sequence[tuple[str, str]]]:
    """Return the values of a facet that each of *rows* has, as text and name."""
    if key.startswith(_METADATA):
        field = key.removeprefix(_METADATA)
        return [_read_metadata(key, one.get(field)) for one in known]
    if key == PAIR:
        return [_read_pair(row.label, row.predicted) for row in rows]
    if key == CONFIDENCE:
        return [
            () if x is None else next(one for low, one in _NAMED_BINS if low <= x)
            for x in (row.confidence for row in rows)
        ]
    if key == WEEK:
        return [_read_week(day_in(row.asked_at, zone)) for row in rows]
    if key == TAG:
        return [[(tag, tag) for tag in load_tags(row.tags)] for row in rows]
    names = (row.label if key == CLASS else row.labeler for row in rows)
    return [((name, name),) for name in names]


def _read_metadata(key: str, value: Any) -> Sequence[tuple[str, str]]:
    text = value if isinstance(value, str) else json.dumps(value)
    return () if value is None else ((f"{key}:{text}", text),)


def _where_confidence(low: float, high: float) -> str:
    return f"confidence:{low}..{'' if high == 1 else '<'}{high}"


_NAMED_BINS = [
    (low, ((_where_confidence(low, high), f"{low}–{high}"),))  # noqa: RUF001
    for low, high in _BINS
]


@lru_cache(maxsize=1000)
def _read_pair(label: str, predicted: str) -> Sequence[tuple[str, str]]:
    said = "no answer" if predicted == NO_ANSWER else shorten(predicted, 20)
    name = f"{shorten(label, 20)} taken for {said}"
    return ((join_pair(label, predicted), name),)


@lru_cache(maxsize=1000)
def _read_week(day: date) -> Sequence[tuple[str, str]]:
    first = begin(day, "week")
    text = f"asked_at:{first}..{first + timedelta(days=6)}"
    return ((text, f"{first.day} {first:%b %Y}"),)


def _is_week(text: str) -> bool:
    day = text.removeprefix("asked_at:")[:10]
    try:
        return _read_week(date.fromisoformat(day))[0][0] == text
    except (OverflowError, ValueError):
        return False


def _count(
    key: str,
    read: Mapping[str, list[Sequence[tuple[str, str]]]],
    is_wrong: list[bool],
    chosen: Mapping[str, str],
) -> Facet:
    for other, wanted in chosen.items():
        if other != key:
            has = [any(text == wanted for text, _ in one) for one in read[other]]
            is_wrong = list(compress(is_wrong, has))
            read = {name: list(compress(one, has)) for name, one in read.items()}
    labelled = Counter(chain.from_iterable(read[key]))
    mistakes = Counter(chain.from_iterable(compress(read[key], is_wrong)))
    wrong, total = sum(is_wrong), len(is_wrong)
    found = [
        Value(
            text,
            name,
            mistakes[text, name],
            number,
            mistakes[text, name] * total / (wrong * number) if wrong else None,
        )
        for (text, name), number in labelled.items()
        if key != PAIR or mistakes[text, name]
    ]
    if key in {CONFIDENCE, WEEK}:
        found.sort(key=lambda one: one.text, reverse=True)
    else:
        found.sort(key=lambda one: (-one.mistakes, one.text))
    return Facet(key, found, chosen.get(key), wrong, total)


def _judge(facets: Sequence[Facet], level: float) -> list[Facet]:
    """Mark what is shown to be worse than the rest, all values together."""
    tested = [facet for facet in facets if facet.key != PAIR and len(facet.values) > 1]
    evidence = [
        one
        for facet in tested
        for one in compare_once(
            [each.labelled - each.mistakes for each in facet.values],
            [each.labelled for each in facet.values],
        )
    ]
    judged = iter(judge_slices(evidence, level) if evidence else ())
    return [
        replace(
            facet,
            values=[
                one._replace(is_worse=next(judged).state == "worse")
                for one in facet.values
            ],
        )
        if facet in tested
        else facet
        for facet in facets
    ]
