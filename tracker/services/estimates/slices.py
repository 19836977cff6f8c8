"""How accurate a detector is on each part of its queries: where it is worse.

The parts of a detector's queries with their counts, as they are cut.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any, Literal

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.counted import Unit, unit_of
from tracker.services.estimates.counts import current_counts
from tracker.services.estimates.estimate import ClassEstimate
from tracker.services.estimates.intervals import ALL, MethodWord
from tracker.services.estimates.slice_counts import as_evidence
from tracker.services.estimates.slice_values import OTHER
from tracker.services.evidence.populations import LIVE, PopulationWord, standings_of
from tracker.services.fields import Instant
from tracker.services.versions import choose_versions
from tracker.services.wording import invalid
from tracker.shapes import Accuracy, OfDetector, Score, Shape
from tracker.stats import (
    SliceEvidence,
    SliceJudgement,
    SliceState,
    anytime,
    compare_once,
    judge_slices,
    shared_level,
)
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.estimates.cells import Counts, pool
from tracker.storage.estimates.counts import count_window
from tracker.storage.estimates.slices import (
    CutCounts,
    count_cut,
    list_counted,
    list_slices,
)
from tracker.words import ANYTIME, UNSTATED

METADATA = "metadata."
_CUTS = {"version": "version_id", "predicted": "predicted", "week": "asked_at"}
BUILT_IN = tuple(_CUTS)


@dataclass(frozen=True, slots=True)
class Part:
    """A slice as it was counted."""

    value: str
    queries: int
    # By class: right, labelled.
    counts: Mapping[str, Sequence[int]]
    where: str | None
    evidence: SliceEvidence | None = None


def read_parts(
    session: Session, detector: Detector, versions: Sequence[Version], by: str
) -> list[Part]:
    """Return the slices of *versions* as they were counted, in order."""
    if not versions:
        return []
    live = standings_of(LIVE, detector.label_sampling)
    if by.startswith(METADATA):
        name = by.removeprefix(METADATA)
        if name not in list_counted(detector):
            return []
        return [
            Part(
                row.key,
                row.state["queries"],
                _by_class(Counts.load(row.state["counts"]).select(live).confusion),
                None if row.key in ("", OTHER) else f"{by}:{row.key}",
                as_evidence(row.state, live),
            )
            for row in list_slices(session, versions[0], name)
        ]
    if by == "version":
        return _cut_by_version(session, detector, versions)
    found = count_cut(session, detector.id, [versions[0].id], _CUTS[by], live)
    if by == "week":
        found = _join_weeks(found)
        return [
            Part(value, one.queries, _by_class(one.cells), _week_condition(value))
            for value, one in sorted(found.items())
        ]
    return [
        Part(value, one.queries, _by_class(one.cells), f"predicted:{value}")
        for value, one in sorted(found.items())
    ]


def _cut_by_version(
    session: Session, detector: Detector, versions: Sequence[Version]
) -> list[Part]:
    counts = current_counts(session, versions)
    live = standings_of(LIVE, detector.label_sampling)
    return [
        Part(
            version.name,
            version.queries,
            _by_class(counts[version.id].select(live).confusion),
            f"version:{version.name}",
        )
        for version in versions
    ]


def _by_class(cells: Mapping[tuple[str, str], int]) -> dict[str, list[int]]:
    found: dict[str, list[int]] = {}
    for (label, predicted), number in cells.items():
        pair = found.setdefault(label, [0, 0])
        pair[0] += number * (label == predicted)
        pair[1] += number
    return found


def _join_weeks(days: Mapping[str, CutCounts]) -> dict[str, CutCounts]:
    weeks: dict[str, CutCounts] = {}
    for text, one in days.items():
        day = date.fromisoformat(text)
        monday = (day - timedelta(days=day.weekday())).isoformat()
        queries, cells = weeks.get(monday, CutCounts(0, {}))
        for cell, number in one.cells.items():
            cells[cell] = cells.get(cell, 0) + number
        weeks[monday] = CutCounts(queries + one.queries, cells)
    return weeks


def _week_condition(monday: str) -> str:
    sunday = date.fromisoformat(monday) + timedelta(days=6)
    return f"asked_at:{monday}..{sunday.isoformat()}"


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
        description="worse or better than all others together; the chance that this "
        "is ever said falsely of any slice is at most the error of the level."
    )
    likely: Literal["better", "worse"] | None = Field(
        description="What the present evidence suggests where state does not say it; "
        "the expected share of false ones is at most the error of the level."
    )
    classes: list[ClassEstimate]
    balanced: Accuracy
    overall: Score
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
    measure: Literal["overall"] = Field(
        default="overall", description="What states compare, whatever a target is on."
    )
    population: PopulationWord = Field(
        default=LIVE, description="Whose labels slices count."
    )
    unit: Unit = Field(description="What counts once.")
    labels: int
    unstated_left_out: int = Field(
        description="Labels of which nobody has said how they were chosen. No slice "
        "counts them."
    )
    overall: Score = Field(description="All slices together.")
    items: list[SliceEstimate] = Field(
        description="Worse slices first, then those furthest below the whole."
    )

    def find(self, state: SliceState) -> list[SliceEstimate]:
        return [one for one in self.items if one.state == state]


SLICE_COLUMNS = (
    "detector",
    "version",
    "by",
    "value",
    "queries",
    "share",
    "labels",
    "state",
    "scope",
    "correct",
    "labelled",
    "accuracy",
    "low",
    "high",
    "confidence_level",
    "method",
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
    whole = _count_whole(parts)
    if by == "version":
        whole = _count_once(session, detector, whole)
    return Slices(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version=ALL if by == "version" else next((v.name for v in versions), None),
        by=by,
        computed_at=computed_at,
        confidence_level=level,
        method=ANYTIME,
        is_counted=not is_metadata
        or by.removeprefix(METADATA) in list_counted(detector),
        is_for_every_look=is_metadata,
        queries=sum(part.queries for part in parts),
        unit=unit_of(detector),
        labels=whole[1],
        unstated_left_out=_count_unstated(session, detector, versions),
        overall=_score(*whole, *(float(one) for one in anytime(*whole, level))),
        items=_describe(detector, parts, level),
    )


def _count_whole(parts: Iterable[Part]) -> tuple[int, int]:
    pairs = [pair for part in parts for pair in part.counts.values()]
    return sum(pair[0] for pair in pairs), sum(pair[1] for pair in pairs)


def _count_unstated(
    session: Session, detector: Detector, versions: Sequence[Version]
) -> int:
    if detector.label_sampling is not None:
        return 0
    counts = pool(current_counts(session, versions).values())
    return counts.count(standings_of(UNSTATED, None))


def _count_once(
    session: Session, detector: Detector, whole: tuple[int, int]
) -> tuple[int, int]:
    """Return right and labelled ones of all versions, each input counted once."""
    found = count_window(session, detector.id, since=None, until=None, are_others=True)
    others = pool(found.values()).select(standings_of(LIVE, detector.label_sampling))
    correct, labelled = others.by_class(detector.classes)
    return whole[0] - sum(correct), whole[1] - sum(labelled)


def _describe(
    detector: Detector, parts: Sequence[Part], level: float
) -> list[SliceEstimate]:
    if not parts:
        return []
    names = detector.classes
    pairs = [[part.counts.get(name, (0, 0)) for name in names] for part in parts]
    counts = np.array(pairs, dtype=np.int64)
    k, n = counts[:, :, 0], counts[:, :, 1]
    # All intervals of all classes of all slices at once, so that the mean of those of
    # the classes holds too.
    share = shared_level(level, len(parts) * len(names))
    bounds = np.stack(anytime(k, n, share), axis=-1)
    judged = _judge(parts, k.sum(axis=1).tolist(), n.sum(axis=1).tolist(), level)
    queries = max(sum(part.queries for part in parts), 1)
    rows = zip(parts, judged, k.tolist(), n.tolist(), bounds, strict=True)
    items = [_build_item(names, *row, share=row[0].queries / queries) for row in rows]
    return sorted(
        items, key=lambda one: (_ORDER[one.state], one.overall.high, -one.queries)
    )


def _judge(
    parts: Sequence[Part], correct: list[int], labelled: list[int], level: float
) -> list[SliceJudgement]:
    kept = [part.evidence for part in parts if part.evidence is not None]
    return judge_slices(kept or compare_once(correct, labelled), level)


def _build_item(  # noqa: PLR0913, PLR0917 - the columns of a row.
    names: Sequence[str],
    part: Part,
    judged: SliceJudgement,
    correct: Sequence[int],
    labelled: Sequence[int],
    bounds: Any,
    *,
    share: float,
) -> SliceEstimate:
    low, high = bounds.mean(axis=0).tolist()
    classes = zip(names, correct, labelled, bounds.tolist(), strict=True)
    return SliceEstimate(
        value=part.value,
        queries=part.queries,
        share=share,
        labels=sum(labelled),
        state=judged.state,
        likely=judged.likely,
        classes=[
            ClassEstimate(
                name=name,
                correct=k,
                labelled=n,
                accuracy=stats.class_accuracy(k, n),
                low=ends[0],
                high=ends[1],
            )
            for name, k, n, ends in classes
        ],
        balanced=Accuracy(
            accuracy=stats.balanced_accuracy(correct, labelled), low=low, high=high
        ),
        overall=_score(sum(correct), sum(labelled), judged.low, judged.high),
        where=part.where,
    )


def _score(correct: int, labelled: int, low: float, high: float) -> Score:
    return Score(
        correct=correct,
        labelled=labelled,
        accuracy=stats.class_accuracy(correct, labelled),
        low=low,
        high=high,
    )


def iter_slice_rows(found: Slices) -> Iterator[dict[str, Any]]:
    """Yield a row for the overall accuracy of each slice and for each class in it."""
    for one in found.items:
        head = {
            "detector": found.name,
            "version": found.version,
            "by": found.by,
            "value": one.value,
            "queries": one.queries,
            "share": one.share,
            "labels": one.labels,
            "state": one.state,
        }
        for scope, score in (
            ("overall", one.overall),
            *((each.name, each) for each in one.classes),
        ):
            yield {
                **head,
                "scope": scope,
                "correct": score.correct,
                "labelled": score.labelled,
                "accuracy": score.accuracy,
                "low": score.low,
                "high": score.high,
                "confidence_level": found.confidence_level,
                "method": found.method,
            }
