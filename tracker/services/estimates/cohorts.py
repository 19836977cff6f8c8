"""How late labels come: the queries of each day or week, and how many have one."""

from array import array
from collections import defaultdict
from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, time, timedelta
from itertools import repeat
from statistics import median
from typing import Literal

import numpy as np
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.rounding import rounded_share
from tracker.services.estimates.weeks import begin
from tracker.services.fields import Instant
from tracker.services.versions import choose_versions
from tracker.shapes import OfDetector, Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.estimates.counts import count_days, iter_delays

Cut = Literal["day", "week"]
_WIDTH = {"day": timedelta(days=1), "week": timedelta(days=7)}
_FEWEST_LABELS = 10  # Fewer say nothing of how long labels take.


class Cohort(Shape):
    """The queries asked on a day, or in a week that begins on Monday, in UTC."""

    start: date
    queries: int
    labelled: int
    share: float = Field(description="The share of the queries that have a label.")
    median_delay_seconds: float | None = Field(
        description="From the question to the first label; null without a label."
    )
    is_young: bool = Field(
        description="Whether labels are still to come: the cohort is younger than the "
        "time that nine of ten labels take, for the predicted class that waits "
        "longest."
    )


class Cohorts(OfDetector):
    """The cohorts of a detector, the newest first."""

    by: Cut
    computed_at: Instant
    usual_delay_seconds: float | None = Field(
        description="The time within which nine of ten labels came; null with fewer "
        "than ten labels."
    )
    usual_share: float | None = Field(
        description="The median share labelled of cohorts that are not young."
    )
    warning: str | None = Field(
        description="Why the labels of the newest cohorts cannot stand for them."
    )
    items: list[Cohort]


def get_cohorts(  # noqa: PLR0913 - every choice that the API offers.
    session: Session,
    detector: Detector,
    *,
    computed_at: datetime,
    by: Cut = "day",
    version: str | None = None,
    limit: int = 30,
) -> Cohorts:
    """Return the last *limit* days or weeks, as far as queries were asked in them."""
    versions = choose_versions(session, detector, version)
    ids, width = [one.id for one in versions], _WIDTH[by]
    first = begin(computed_at.date(), by) - width * (limit - 1)
    since = datetime.combine(first, time(), UTC)
    parts = _count(session, detector.id, ids, since=since, by=by)
    starts = sorted({start for start, _ in parts}, reverse=True)
    classes = sorted({predicted for _, predicted in parts})
    usual = _find_usual(_join(parts))
    waits = [usual, *(_find_usual(_join(parts, predicted=one)) for one in classes)]
    longest = max((one for one in waits if one is not None), default=None)
    young = {
        start
        for start in starts
        for end in [datetime.combine(start, time(), UTC) + width]
        if longest is not None and (computed_at - end).total_seconds() < longest
    }
    items = [
        Cohort(
            start=start,
            queries=part.queries,
            labelled=part.labelled,
            share=part.labelled / part.queries,
            median_delay_seconds=float(np.median(part.delays)) if part.delays else None,
            is_young=start in young,
        )
        for start in starts
        for part in [_join(parts, starts={start})]
    ]
    old = [one.share for one in items if not one.is_young]
    return Cohorts(
        detector=dump_id("det", detector.id),
        name=detector.name,
        version="*" if version == "*" else next((v.name for v in versions), None),
        by=by,
        computed_at=computed_at,
        usual_delay_seconds=usual,
        usual_share=median(old) if old else None,
        warning=_warn(parts, classes, young),
        items=items,
    )


@dataclass
class _Part:
    """Queries, how many of them have a label, and after how many seconds."""

    queries: int = 0
    labelled: int = 0
    # Of a million labels of one import they would be a million objects.
    delays: "array[float]" = field(default_factory=lambda: array("d"))


_Parts = Mapping[tuple[date, str], _Part]


def _count(
    session: Session,
    detector_id: int,
    version_ids: Sequence[int],
    *,
    since: datetime,
    by: Cut,
) -> _Parts:
    found: dict[tuple[date, str], _Part] = defaultdict(_Part)
    rows = count_days(session, detector_id, version_ids, since=since)
    for day, predicted, queries, labelled in rows:
        part = found[begin(date.fromisoformat(day), by), predicted]
        part.queries += queries
        part.labelled += labelled
    for asked_at, predicted, labelled_at, number in iter_delays(
        session, detector_id, version_ids, since=since
    ):
        seconds = max((labelled_at - asked_at).total_seconds(), 0.0)
        part = found[begin(asked_at.date(), by), predicted]
        part.delays.extend(repeat(seconds, number))
    return found


def _join(
    parts: _Parts,
    *,
    starts: Container[date] | None = None,
    predicted: str | None = None,
) -> _Part:
    """Return what some cohorts and one class have together; all where None."""
    chosen = [
        part
        for (start, name), part in parts.items()
        if (starts is None or start in starts) and predicted in {None, name}
    ]
    return _Part(
        sum(part.queries for part in chosen),
        sum(part.labelled for part in chosen),
        sum((part.delays for part in chosen), array("d")),
    )


def _find_usual(part: _Part) -> float | None:
    if len(part.delays) < _FEWEST_LABELS:
        return None
    # As statistics.quantiles has it, which would make a list of objects.
    return float(np.quantile(part.delays, 0.9, method="weibull"))


def _warn(parts: _Parts, classes: Sequence[str], young: Collection[date]) -> str | None:
    old = {start for start, _ in parts} - set(young)
    for name in (None, *classes):
        now = _join(parts, starts=young, predicted=name)
        before = _join(parts, starts=old, predicted=name)
        # now.labelled / now.queries < half of before.labelled / before.queries
        if 2 * now.labelled * before.queries < before.labelled * now.queries:
            usual = rounded_share(before.labelled / before.queries, 2)
            return (
                f"Of the queries since {min(young).isoformat()}"
                f"{f' predicted as {name}' if name else ''} {now.labelled:,} of "
                f"{now.queries:,} have a label, while {100 * usual:.0f} % of older "
                "ones do: most of their labels are still to come. Labels that come "
                "early may differ from those that come late, so these cannot stand "
                "for all yet."
            )
    return None
