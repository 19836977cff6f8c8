"""How accurate a detector is on each part of its queries: where it is worse.

The parts of a detector's queries with their counts, as they are cut.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates import slice_counts
from tracker.services.estimates.calendar import load_days
from tracker.services.estimates.counted import Unit, unit_of
from tracker.services.estimates.counts import current_counts
from tracker.services.estimates.estimate import ClassEstimate
from tracker.services.estimates.intervals import ALL, MethodWord, build_score
from tracker.services.estimates.slice_counts import OTHER
from tracker.services.estimates.weeks import begin, following
from tracker.services.evidence.measure import Measure, read_measure, spread
from tracker.services.evidence.populations import LIVE, PopulationWord, standings_of
from tracker.services.fields import Instant
from tracker.services.versions import choose_versions
from tracker.services.wording import invalid
from tracker.shapes import Accuracy, OfDetector, Score, Shape
from tracker.stats import SliceEvidence, SliceState, anytime, compare_once, shared_level
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.estimates import slices
from tracker.storage.estimates.cells import Counts, day_in, midnight_in, pool
from tracker.storage.estimates.counts import count_window
from tracker.storage.estimates.projections import list_projections
from tracker.storage.queries.finding import find_first_asked
from tracker.words import ANYTIME, BALANCED, OVERALL, REPLAYED, UNSTATED

METADATA = "metadata."
Cells = Mapping[tuple[str, str], int]
BUILT_IN = ("version", "predicted", "week")


@dataclass(frozen=True, slots=True)
class Part:
    """A slice as it was counted."""

    value: str
    queries: int
    # (label, predicted) and how many.
    cells: Cells
    where: str | None
    # By what is compared; None where nothing is kept of it.
    evidence: Mapping[str, SliceEvidence] | None = None


def read_parts(
    session: Session, detector: Detector, versions: Sequence[Version], by: str
) -> list[Part]:
    """Return the slices of *versions* as they were counted, in order."""
    if not versions:
        return []
    live = standings_of(LIVE, detector.label_sampling)
    if by.startswith(METADATA):
        name = by.removeprefix(METADATA)
        if name not in slices.list_counted(detector):
            return []
        evidence: dict[str, dict[str, SliceEvidence]] = {}
        for kept in list_projections(session, versions[0], slices.EVIDENCE + name):
            compared, value = json.loads(kept.key)
            evidence.setdefault(value, {})[compared] = slice_counts.as_evidence(kept)
        return [
            Part(
                row.key,
                row.state["queries"],
                Counts.load(row.state["counts"]).select(live).confusion,
                None if row.key in ("", OTHER) else f"{by}:{row.key}",
                evidence.get(row.key, {}),
            )
            for row in list_projections(session, versions[0], slices.SLICE + name)
        ]
    if by == "version":
        counts = current_counts(session, versions)
        return [
            Part(
                one.name,
                one.queries,
                counts[one.id].select(live).confusion,
                f"version:{one.name}",
            )
            for one in versions
        ]
    kinds, queries = _count_built_in(session, detector, versions[0], by)
    return [
        Part(
            kind,
            number,
            kinds[kind].select(live).confusion,
            f"predicted:{kind}"
            if by == "predicted"
            else f"asked_at:{kind}..{date.fromisoformat(kind) + timedelta(days=6)}",
        )
        for kind, number in sorted(queries.items())
        if number
    ]


def _count_built_in(
    session: Session, detector: Detector, version: Version, by: str
) -> tuple[dict[str, Counts], Counter[str]]:
    """Return the counts of *version* by prediction or week, and all its queries."""
    kinds, queries = defaultdict[str, Counts](Counts), Counter[str]()
    if by == "predicted":
        counts = current_counts(session, [version])[version.id]
        for cell, number in counts.cells.items():
            kinds[cell.predicted].add(cell, number)
            queries[cell.predicted] += number
        # Only the queries without a label are counted now.
        queries.update(slices.count_unlabelled(session, version))
        return kinds, queries
    for day, counted in load_days(session, detector, version).items():
        week = str(begin(day, "week"))
        kinds[week] = pool([kinds[week], counted])
    asked_at = find_first_asked(session, version)
    while asked_at is not None:
        monday = begin(day_in(asked_at, detector.zone), "week")
        since = midnight_in(monday, detector.zone)
        until = midnight_in(following(monday, "week"), detector.zone)
        number, asked_at = slices.count_span(session, version, since, until)
        queries[str(monday)] = number
    return kinds, queries


# What is said first comes first.
_ORDER = {"worse": 0, "no_difference_shown": 1, "too_few_labels": 1, "better": 2}


class SliceEstimate(Shape):
    """A part of the queries: its size, and how accurate the detector is on it."""

    value: str = Field(
        description="What its queries share; (none) without the key, (other) for all "
        "values beyond 500."
    )
    queries: int
    share: float = Field(description="The share of all queries.")
    labels: int = Field(description="Scored labels.")
    state: SliceState = Field(
        description="worse or better than all others together in the measure; the "
        "chance that this is ever said falsely of any slice is at most the error of "
        "the level. Of the balanced accuracy each class is compared by itself: worse "
        "if a class is worse there, better if a class is better and none is worse."
    )
    worse_in: list[str] = Field(
        description="The measures in which it is shown to be worse: of the balanced "
        "accuracy, recall:CLASS for each class that is."
    )
    better_in: list[str] = Field(description="Those in which it is better.")
    likely: Literal["better", "worse"] | None = Field(
        description="What the present evidence suggests where state does not say it; "
        "the expected share of false ones is at most the error of the level."
    )
    classes: list[ClassEstimate]
    balanced: Accuracy
    overall: Score
    measured: Score = Field(
        description="The measure; of the balanced accuracy with the counts of all "
        "classes."
    )
    where: str | None = Field(
        description="The condition that finds its queries; null where none does."
    )

    @property
    def mistakes(self) -> int:
        return self.overall.labelled - self.overall.correct


class Slices(OfDetector):
    """A detector's queries, cut by a property of each."""

    version: str | None = Field(
        description="* where the cut is by version; null before the first query."
    )
    by: str
    computed_at: Instant
    confidence_level: float
    method: MethodWord = Field(
        description="anytime: all intervals of all slices hold at once, after every "
        "label; the balanced one is the mean of those of the classes."
    )
    is_counted: bool = Field(
        description="false while the job counts a newly declared key."
    )
    is_for_every_look: bool = Field(
        description="Whether states may be looked at after every label; if not, they "
        "hold for one look."
    )
    queries: int
    measure: str = Field(
        description="What slices are compared by: the detector's measure, or overall "
        "where they are cut by predicted."
    )
    population: PopulationWord = Field(
        default=LIVE, description="Whose labels slices count."
    )
    unit: Unit = Field(description="What counts once.")
    labels: int
    replayed_left_out: int = Field(
        description="Labels that inputs had already, given to another version."
    )
    unstated_left_out: int = Field(
        description="Labels of which nobody has said how they were chosen. No slice "
        "counts them."
    )
    overall: Score = Field(description="All slices together.")
    measured: Score = Field(description="The measure of all slices together.")
    items: list[SliceEstimate] = Field(
        description="Worse slices first, then those furthest below the whole."
    )

    def find(self, state: SliceState) -> list[SliceEstimate]:
        return [one for one in self.items if one.state == state]


_OF_SLICE = ("value", "queries", "share", "labels", "state")
_OF_SCORE = ("correct", "labelled", "accuracy", "low", "high")
SLICE_COLUMNS = (
    *("detector", "version", "by", *_OF_SLICE),
    *("scope", *_OF_SCORE, "confidence_level", "method", "measure"),
)


def list_cuts(detector: Detector) -> list[str]:
    return [*(METADATA + name for name in detector.slices), *BUILT_IN]


def get_slices(  # noqa: PLR0913 - every choice that the API offers.
    session: Session,
    detector: Detector,
    *,
    by: str,
    computed_at: datetime,
    version: str | None = None,
    confidence_level: float | None = None,
) -> Slices:
    """Return the slices of *detector* by what it declares, or by a built-in cut.

    Those by the metadata were counted by the job, so a read costs the same however
    many labels there are.  Raises InvalidInputError for what is not declared.
    """
    if by not in list_cuts(detector):
        known = ", ".join(list_cuts(detector))
        raise invalid("by", by, f"it must be one of {known}; declare keys in slices")
    if version == ALL:
        raise invalid("version", version, "slices are of one version")
    level = confidence_level or detector.confidence_level
    versions = choose_versions(session, detector, version)
    if by == "version":
        versions = list(list_versions(session, detector.id))
    parts = read_parts(session, detector, versions, by)
    is_metadata = by.startswith(METADATA)
    # A slice by the prediction has right ones of one class only, so that class
    # accuracies say nothing of it.
    measure = read_measure(OVERALL if by == "predicted" else detector.measure)
    whole = _add_up(session, detector, parts, by)
    overall, measured = (
        _bound(*_count([whole], detector.classes, one), level)[0]
        for one in (Measure(OVERALL), measure)
    )
    return Slices(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=ALL if by == "version" else next((v.name for v in versions), None),
        by=by,
        computed_at=computed_at,
        confidence_level=level,
        method=ANYTIME,
        is_counted=not is_metadata
        or by.removeprefix(METADATA) in slices.list_counted(detector),
        is_for_every_look=is_metadata,
        queries=sum(part.queries for part in parts),
        measure=str(measure),
        unit=unit_of(detector),
        labels=overall.labelled,
        **_count_left_out(session, detector, versions),
        overall=overall,
        measured=measured,
        items=_describe(detector, parts, measure, level),
    )


def _count_left_out(
    session: Session, detector: Detector, versions: Sequence[Version]
) -> dict[str, Any]:
    counts = pool(current_counts(session, versions).values())
    return {
        f"{one}_left_out": counts.count(standings_of(one, detector.label_sampling))
        for one in (UNSTATED, REPLAYED)
    }


def _add_up(
    session: Session, detector: Detector, parts: Sequence[Part], by: str
) -> Cells:
    whole = Counter[tuple[str, str]]()
    for part in parts:
        whole.update(part.cells)
    if by == "version":
        # Labels of inputs that another version counts too.
        ends: dict[str, Any] = {"since": None, "until": None}
        found = count_window(session, detector.id, **ends, are_others=True)
        live = standings_of(LIVE, detector.label_sampling)
        whole.subtract(pool(found.values()).select(live).confusion)
    return whole


def _count(
    cells: Sequence[Cells], classes: Sequence[str], measure: Measure
) -> tuple[Any, Any]:
    rows = [measure.count_right(spread(one, classes)) for one in cells]
    counts = np.array(rows, dtype=np.int64)
    return counts[:, 0], counts[:, 1]


def _bound(k: Any, n: Any, level: float) -> list[Score]:
    """Return the mean accuracy of each row, with intervals that all hold at once."""
    low, high = anytime(k, n, shared_level(level, k.size))
    with np.errstate(invalid="ignore"):
        shares = (k / n).mean(axis=1).astype(object)
    shares[np.equal(n, 0).any(axis=1)] = None
    sums, means = (k.sum(axis=1), n.sum(axis=1)), (low.mean(axis=1), high.mean(axis=1))
    rows = zip(*(one.tolist() for one in (*sums, shares, *means)), strict=True)
    return [build_score(*row) for row in rows]


def _describe(
    detector: Detector, parts: Sequence[Part], measure: Measure, level: float
) -> list[SliceEstimate]:
    if not parts:
        return []
    names, cells = detector.classes, [part.cells for part in parts]
    # All intervals of all classes of all slices at once, so that the mean of those of
    # the classes holds too.
    k, n = _count(cells, names, Measure(BALANCED))
    bounds = np.stack(anytime(k, n, shared_level(level, k.size)), axis=-1)
    counted = _count(cells, names, measure)
    own = _bound(*counted, level)
    overall = _bound(*_count(cells, names, Measure(OVERALL)), level)
    judged = _judge(parts, measure.list_compared(names), *counted, level)
    queries = max(sum(part.queries for part in parts), 1)
    items = []
    for place, (part, correct, labelled) in enumerate(
        zip(parts, k.tolist(), n.tolist(), strict=True)
    ):
        low, high = bounds[place].mean(axis=0).tolist()
        accuracy = stats.balanced_accuracy(correct, labelled)
        rows = zip(names, correct, labelled, bounds[place].tolist(), strict=True)
        item = SliceEstimate(
            value=part.value,
            queries=part.queries,
            share=part.queries / queries,
            labels=overall[place].labelled,
            **judged[place]._asdict(),
            classes=[
                ClassEstimate(
                    name=name,
                    correct=right,
                    labelled=number,
                    accuracy=stats.class_accuracy(right, number),
                    low=ends[0],
                    high=ends[1],
                )
                for name, right, number, ends in rows
            ],
            balanced=Accuracy(accuracy=accuracy, low=low, high=high),
            overall=overall[place],
            measured=own[place],
            where=part.where,
        )
        items.append(item)
    return sorted(
        items, key=lambda one: (_ORDER[one.state], one.measured.high, -one.queries)
    )


def _judge(
    parts: Sequence[Part], compared: Sequence[str], k: Any, n: Any, level: float
) -> list[slice_counts.Joined]:
    evidence: dict[tuple[str, str], SliceEvidence] = {}
    for place, name in enumerate(compared):
        rows = zip(parts, k[:, place].tolist(), n[:, place].tolist(), strict=True)
        some = [row for row in rows if row[2]]
        correct, labelled = [row[1] for row in some], [row[2] for row in some]
        if parts[0].evidence is None:
            found = compare_once(correct, labelled)
        else:
            found = [
                (part.evidence or {})
                .get(name, slice_counts.NO_EVIDENCE)
                ._replace(correct=right, labelled=number)
                for part, right, number in some
            ]
        for (part, *_), one in zip(some, found, strict=True):
            evidence[name, part.value] = one
    judged = slice_counts.judge_compared(
        evidence, level, slices=len(parts), measures=len(compared)
    )
    return [slice_counts.join_states(judged.get(part.value, {})) for part in parts]


def iter_slice_rows(found: Slices) -> Iterator[dict[str, Any]]:
    """Yield rows for the overall accuracy of each slice, each class, the measure."""
    for one in found.items:
        head = {
            "detector": found.name,
            "version": found.version,
            "by": found.by,
            **{name: getattr(one, name) for name in _OF_SLICE},
            "measure": found.measure,
        }
        scores: list[tuple[str, Score]] = [(OVERALL, one.overall)]
        scores += [(each.name, each) for each in one.classes]
        if found.measure != OVERALL:
            scores.append((found.measure, one.measured))
        for scope, score in scores:
            yield {
                **head,
                "scope": scope,
                **{name: getattr(score, name) for name in _OF_SCORE},
                "confidence_level": found.confidence_level,
                "method": found.method,
            }
