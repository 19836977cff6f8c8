"""The history of a detector's estimates, as they were stored and by days asked."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import date, datetime, timedelta
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, Literal

from pydantic import Field, TypeAdapter
from sqlalchemy.orm import Session

from tracker import stats, words
from tracker.services.estimates import intervals
from tracker.services.estimates.calendar import load_days
from tracker.services.estimates.counts import (
    current_counts,
    find_shares,
    known_shares,
    pick_population,
)
from tracker.services.estimates.decision import method_level
from tracker.services.estimates.measures import count_trials
from tracker.services.evidence.populations import PopulationWord, Standings
from tracker.services.fields import Instant
from tracker.services.versions import choose_versions
from tracker.services.wording import dump_instant
from tracker.shapes import Moment, Score, Shape
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts, midnight_in, pool
from tracker.storage.estimates.replay import count_known_days
from tracker.storage.estimates.snapshots import iter_intervals, list_intervals_of
from tracker.storage.labels import iter_label_rows
from tracker.storage.queries.finding import Condition
from tracker.storage.queries.queries import load_tags

HistoryOrder = Literal["arrival", "asked_at"]
ASKED_AT: HistoryOrder = "asked_at"


class _Place(Shape):
    computed_at: Instant
    detector: str = Field(description="The name of the detector.")
    version: str
    labels: int
    scope: str = Field(
        description="A class or balanced; for measures other than recall a class, "
        "overall or macro."
    )


class HistoryRow(Moment, _Place):
    """One row of a snapshot: a class, or all of them together.

    For precision the correct ones are counted among those predicted as the class, for
    F1 among those with it as label or prediction.  `accuracy` is the measure itself.
    """

    computed_at: Instant
    confidence_level: float
    method: intervals.MethodWord
    formula: int = Field(
        description="The formula of the method; that of anytime is the third."
    )
    measure: words.MeasureWord = words.RECALL
    asked_at: Instant | None = Field(
        default=None,
        description="With by=asked_at the beginning of the last day whose queries it "
        "counts.",
    )
    population: PopulationWord = Field(
        description="Whose labels it counts: live, replayed or unstated."
    )


# The columns of files are fixed; the rest is told in JSON alone.
_ONLY_JSON = {"formula", "measure", "asked_at"}
HISTORY_COLUMNS = tuple(one for one in HistoryRow.model_fields if one not in _ONLY_JSON)


def history_columns(
    measure: str = words.RECALL, by: HistoryOrder = "arrival"
) -> tuple[str, ...]:
    """Return the columns of a file with the history of *measure* in an order."""
    *columns, population = HISTORY_COLUMNS
    if measure != words.RECALL:
        columns.append("measure")
    if by == ASKED_AT:
        columns.append("asked_at")
    return (*columns, population)


class LabelRow(Shape):
    """One label with its query, as an export has it."""

    query: str = Field(description="The id of the query.")
    key: str | None
    version: str
    predicted: str
    confidence: float | None
    asked_at: Instant
    metadata: dict[str, Any] | None
    label: str = Field(description="A class of the detector, or UNCLEAR.")
    sampling: words.SamplingWord
    note: str | None
    labeler: str
    labelled_at: Instant
    is_current: bool = Field(description="False once another label has replaced it.")
    input: str | None
    is_repeat: bool = Field(
        description="Whether its version was put to the same input before; it is "
        "counted nowhere."
    )
    tags: list[str] = Field(description="What people marked its query with.")
    group: str | None = Field(description="The group that its query belongs to.")
    is_grouped: bool = Field(
        description="Whether another query of the group counts in its place."
    )


LABEL_COLUMNS = tuple(LabelRow.model_fields)

# After its place in the history: the id of the version, and the snapshot's number.
PlacedRow = tuple[tuple[int, int], HistoryRow]
_SNAPSHOTS_AT_ONCE = 100
_ROWS_AT_ONCE = 500
_ROWS = TypeAdapter(list[HistoryRow])


def iter_history(  # noqa: PLR0913 - every filter that the API offers.
    session: Session,
    detector: Detector,
    *,
    version: str | None = None,
    measure: str = words.RECALL,
    method: str = "exact",
    since: datetime | None = None,
    until: datetime | None = None,
    after: tuple[int, int] | None = None,
    by: HistoryOrder = "arrival",
    known_at: datetime | None = None,
) -> Iterator[PlacedRow]:
    """Stream the rows of the history in order, each after its place in it.

    A place is (version, sequence); *after* one, the history goes on behind it. Version
    ``*`` gives every version, one after the other.  Method ``*`` gives every one that
    was stored; one that was not is computed from the stored counts, as all but exact of
    another *measure* than recall.  By when queries were *asked_at* there is a snapshot
    for each day, of all queries asked up to its end.
    """
    intervals.check_method(method, or_all=True)
    versions = choose_versions(session, detector, version)
    if by == ASKED_AT:
        return _iter_asked(
            session,
            detector,
            versions,
            measure=measure,
            methods=_stored_methods(measure) if method == intervals.ALL else [method],
            after=after or (0, 0),
            limits={"since": since, "until": until, "known_at": known_at},
        )
    if known_at is not None:
        # No snapshot is ever changed, so it is what was stored by then.
        ends = [known_at + timedelta(microseconds=1), *([until] if until else [])]
        until = min(ends)
    is_stored = method in (intervals.ALL, *_stored_methods(measure))
    read = method if is_stored else words.EXACT
    found = iter_intervals(
        session,
        versions,
        measure=measure,
        method=None if read == intervals.ALL else read,
        since=since,
        until=until,
        after=after,
    )
    rows = _place_rows(found, detector, versions, measure)
    return rows if is_stored else _recomputed(rows, detector, measure, method)


def _iter_asked(  # noqa: PLR0913 - every filter that the API offers.
    session: Session,
    detector: Detector,
    versions: Iterable[Version],
    *,
    measure: str,
    methods: Sequence[str],
    after: tuple[int, int],
    limits: Mapping[str, Any],
) -> Iterator[PlacedRow]:
    for version in sorted(versions, key=attrgetter("id")):
        beyond = after[1] if version.id == after[0] else 0
        if version.id < after[0]:
            continue
        limits = {**limits, "measure": measure, "beyond": beyond}
        by_method = [
            iter_asked_days(session, detector, version, method=method, **limits)
            for method in methods
        ]
        for same in zip(*by_method, strict=True):
            yield from chain(*same)


def iter_asked_days(  # noqa: PLR0913 - every filter that the history has.
    session: Session,
    detector: Detector,
    version: Version,
    *,
    measure: str,
    method: str,
    since: datetime | None = None,
    until: datetime | None = None,
    beyond: int = 0,
    known_at: datetime | None = None,
    most: int | None = None,
) -> Iterator[list[PlacedRow]]:
    """Yield rows for each day of a version with scored queries, with all before it.

    With *known_at* labels count as they were known then.  At *most* so many are chosen.
    """
    zone = detector.zone
    days, current = _load_asked(session, detector, version, known_at)
    population, standings = pick_population(detector, current)
    bets = find_shares(detector, current, standings)
    level = method_level(method, detector.confidence_level, population)
    scopes, last = list_scopes(detector, measure), current.last_label_at
    if last is None:
        return
    chosen: Iterator[tuple[date, list[list[int]]]] = (
        (day, sums)
        for day, sums in _add_up(days, detector.classes, standings)
        if day.toordinal() > beyond
        and (since is None or midnight_in(day, zone) >= since)
        and (until is None or midnight_in(day, zone) < until)
    )
    if most is not None:
        chosen = iter(intervals.thin_evenly(list(chosen), most))
    at_once = intervals.max_snapshots(
        method, len(detector.classes), of=_SNAPSHOTS_AT_ONCE
    )
    head = _head_of(detector, version, measure, method)
    head |= {"computed_at": last, "population": population}
    while chunk := list(islice(chosen, at_once)):
        correct = [sums[0] for _, sums in chunk]
        trials = [count_trials(measure, *sums) for _, sums in chunk]
        scored = intervals.score(
            correct, trials, method, level, [bets] * len(chunk), measure=measure
        )
        for (day, (_, labelled, _)), scores in zip(chunk, scored, strict=True):
            head |= {"asked_at": midnight_in(day, zone), "labels": sum(labelled)}
            place = version.id, day.toordinal()
            yield [
                (place, HistoryRow(scope=scope, **head, **dict(one)))
                for scope, one in zip(scopes, scores, strict=True)
            ]


def _head_of(
    detector: Detector, version: Version, measure: str, method: str
) -> dict[str, Any]:
    return {
        "detector": detector.name,
        "version": version.name,
        "confidence_level": detector.confidence_level,
        "method": method,
        "formula": stats.get_method(method).formula,
        "measure": measure,
    }


def _load_asked(
    session: Session, detector: Detector, version: Version, known_at: datetime | None
) -> tuple[dict[date, Counts], Counts]:
    """Return the counts of each day asked, and those of the whole version."""
    current = current_counts(session, [version])[version.id]
    if known_at is None:
        return load_days(session, detector, version), current
    zone = detector.zone
    days = count_known_days(session, detector.id, version.id, zone, known_at)
    known = pool(days.values())
    known.shares = known_shares(detector, current.shares, known)
    return days, known


def _add_up(
    days: dict[date, Counts], classes: Sequence[str], standings: Standings
) -> Iterator[tuple[date, list[list[int]]]]:
    """Yield the correct, labelled and predicted ones of all days up to each."""
    sums = [[0] * len(classes) for _ in range(3)]
    for day in sorted(days):
        found = days[day].select(standings)
        if not found.confusion:
            continue
        said = dict.fromkeys(classes, 0)
        for (_, name), number in found.confusion.items():
            if name in said:
                said[name] += number
        new = (*found.by_class(classes), said.values())
        sums = [
            [a + b for a, b in zip(*both, strict=True)]
            for both in zip(sums, new, strict=True)
        ]
        yield day, sums


def dump_rows(rows: Iterable[PlacedRow]) -> Iterator[dict[str, Any]]:
    """Yield *rows* as they stand in JSON, without their places."""
    left = (row for _, row in rows)
    # Many at once, which takes less long than one by one.
    while chunk := list(islice(left, _ROWS_AT_ONCE)):
        yield from _ROWS.dump_python(chunk, mode="json")


def _place_rows(
    rows: Iterable[Any], detector: Detector, versions: Iterable[Version], measure: str
) -> Iterator[PlacedRow]:
    name, scopes = detector.name, list_scopes(detector, measure)
    names = {one.id: one.name for one in versions}
    for row in rows:
        # By their order: of thousands of rows a column by its name costs as much as
        # the whole shape.
        version_id, sequence, _, computed_at, level, labels, method, *rest = row
        position, correct, labelled, accuracy, low, high, formula, population = rest
        found = HistoryRow(
            computed_at=computed_at,
            detector=name,
            version=names[version_id],
            labels=labels,
            scope=scopes[position],
            correct=correct,
            labelled=labelled,
            accuracy=accuracy,
            low=low,
            high=high,
            confidence_level=level,
            method=method,
            formula=formula,
            measure=measure,
            population=population,
        )
        yield (version_id, sequence), found


def _stored_methods(measure: str) -> Sequence[str]:
    return words.STORED_METHODS if measure == words.RECALL else (words.EXACT,)


def list_scopes(detector: Detector, measure: str = words.RECALL) -> list[str]:
    if measure == words.OVERALL:
        return [words.OVERALL]
    return [
        words.BALANCED if measure == words.RECALL else words.MACRO,
        *detector.classes,
    ]


def _recomputed(
    rows: Iterator[PlacedRow], detector: Detector, measure: str, method: str
) -> Iterator[PlacedRow]:
    """Yield *rows* of the exact method with the bounds of another *method*."""
    formula = stats.get_method(method).formula
    at_once = intervals.max_snapshots(
        method, len(detector.classes), of=_SNAPSHOTS_AT_ONCE
    )
    snapshots = (list(one) for _, one in groupby(rows, key=itemgetter(0)))
    while chunk := list(islice(snapshots, at_once)):
        scores: list[Score] = []
        # Classes may have been added since, so that some rows are longer than others.
        for (_, at, population), same in groupby(chunk, key=_kind_of):
            # Of overall accuracy the whole is all there is.
            rows_of = [[row for _, row in one[1:] or one] for one in same]
            correct = [[row.correct for row in one] for one in rows_of]
            labelled = [[row.labelled for row in one] for one in rows_of]
            level = method_level(method, at, population)
            scores += chain.from_iterable(
                intervals.score(correct, labelled, method, level, measure=measure)
            )
        for (place, row), one in zip(chain(*chunk), scores, strict=True):
            bounds = {"low": one.low, "high": one.high, "method": method}
            yield place, row.model_copy(update={**bounds, "formula": formula})


def _kind_of(rows: Sequence[PlacedRow]) -> tuple[int, float, str]:
    return len(rows), rows[0][1].confidence_level, rows[0][1].population


def list_rows(  # noqa: PLR0913 - what to read, and how.
    session: Session,
    detector: Detector,
    version: Version,
    sequences: Sequence[int],
    *,
    measure: str = words.RECALL,
    method: str,
    scopes: Sequence[str],
) -> list[PlacedRow]:
    """Return what *method* says of *scopes* in these snapshots of *version*, in order.

    Snapshots for which a method or *measure* was not stored are left out.
    """
    names = list_scopes(detector, measure)
    is_stored = method in _stored_methods(measure)
    found = list_intervals_of(
        session,
        version,
        sequences,
        measure=measure,
        method=method if is_stored else words.EXACT,
        positions=[names.index(scope) for scope in scopes] if is_stored else None,
    )
    rows = _place_rows(found, detector, [version], measure)
    if not is_stored:
        rows = _recomputed(rows, detector, measure, method)
    return [(at, row) for at, row in rows if row.scope in scopes]


def iter_labels(
    session: Session, detector: Detector, conditions: Sequence[Condition] = ()
) -> Iterator[dict[str, Any]]:
    """Stream every label ever given to queries that meet all *conditions*, in order."""
    tests = [one.test(session) for one in conditions]
    for values in iter_label_rows(session, detector.id, tests):
        row = dict(zip(LABEL_COLUMNS, values, strict=True))
        row["query"] = f"iq_{row['query']}"
        row["asked_at"] = dump_instant(row["asked_at"])
        if row["metadata"] is not None:
            row["metadata"] = json.loads(row["metadata"])
        row["labelled_at"] = dump_instant(row["labelled_at"])
        row["tags"] = load_tags(row["tags"])
        for name in ("is_current", "is_repeat", "is_grouped"):
            row[name] = bool(row[name])
        yield row
