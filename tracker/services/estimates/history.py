"""The history of a detector's estimates."""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import partial
from itertools import chain, groupby, islice
from operator import attrgetter, itemgetter
from typing import Any, Literal

from pydantic import Field, TypeAdapter
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.estimates.asked import iter_asked_days
from tracker.services.estimates.decision import method_level
from tracker.services.estimates.intervals import (
    ALL,
    ClassCounts,
    MethodWord,
    check_method,
    max_snapshots,
    score,
    score_moments,
)
from tracker.services.estimates.measures import score_measure
from tracker.services.evidence.populations import PopulationWord
from tracker.services.fields import Instant
from tracker.services.versions import choose_versions
from tracker.services.wording import dump_instant
from tracker.shapes import Moment, Score, Shape
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.snapshots import (
    iter_intervals,
    list_intervals_of,
)
from tracker.storage.labels import iter_label_rows
from tracker.storage.queries.finding import Condition
from tracker.storage.queries.queries import load_tags
from tracker.words import (
    BALANCED,
    EXACT,
    MACRO,
    OVERALL,
    RECALL,
    STORED_METHODS,
    MeasureWord,
    SamplingWord,
)

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
    method: MethodWord
    formula: int = Field(
        description="The formula of the method; that of anytime is the third."
    )
    measure: MeasureWord = RECALL
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
    measure: str = RECALL, by: HistoryOrder = "arrival"
) -> tuple[str, ...]:
    """Return the columns of a file with the history of *measure* in an order."""
    *columns, population = HISTORY_COLUMNS
    if measure != RECALL:
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
    sampling: SamplingWord
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
    measure: str = RECALL,
    method: str = "exact",
    since: datetime | None = None,
    until: datetime | None = None,
    after: tuple[int, int] | None = None,
    by: HistoryOrder = "arrival",
    known_at: datetime | None = None,
) -> Iterator[PlacedRow]:
    """Stream the rows of the history in order, each after its place in it.

    A place is (version, sequence); *after* one, the history goes on behind it.
    Version ``*`` gives the history of every version, one after the other; they
    are not pooled.  Method ``*`` gives every one that was stored, and one that was
    not is computed from the stored counts; of another *measure* than recall that is
    every method but exact.  By when queries were *asked_at* there is a snapshot for
    each day, of all queries asked up to its end.
    """
    check_method(method, or_all=True)
    if by == ASKED_AT:
        return _iter_asked(
            session,
            detector,
            choose_versions(session, detector, version),
            measure=measure,
            methods=_stored_methods(measure) if method == ALL else [method],
            after=after or (0, 0),
            limits={"since": since, "until": until, "known_at": known_at},
        )
    if known_at is not None:
        # No snapshot is ever changed, so it is what was stored by then.
        ends = [known_at + timedelta(microseconds=1), *([until] if until else [])]
        until = min(ends)
    is_stored = method in (ALL, *_stored_methods(measure))
    rows = _iter_stored(
        session,
        detector,
        version=version,
        measure=measure,
        method=None if method == ALL else method if is_stored else EXACT,
        since=since,
        until=until,
        after=after,
    )
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
        for method, day in chain.from_iterable(
            zip(methods, same, strict=True) for same in zip(*by_method, strict=True)
        ):
            scopes = list_scopes(detector, measure)
            for scope, one in zip(scopes, day.scores, strict=True):
                row = HistoryRow(
                    computed_at=day.known_at,
                    detector=detector.name,
                    version=version.name,
                    labels=day.labels,
                    scope=scope,
                    confidence_level=detector.confidence_level,
                    method=method,
                    formula=stats.get_method(method).formula,
                    measure=measure,
                    asked_at=day.asked_at,
                    population=day.population,
                    **dict(one),
                )
                yield (version.id, day.number), row


def dump_rows(rows: Iterable[PlacedRow]) -> Iterator[dict[str, Any]]:
    """Yield *rows* as they stand in JSON, without their places."""
    left = (row for _, row in rows)
    # Many at once, which takes less long than one by one.
    while chunk := list(islice(left, _ROWS_AT_ONCE)):
        yield from _ROWS.dump_python(chunk, mode="json")


def _iter_stored(  # noqa: PLR0913 - every filter that the API offers.
    session: Session,
    detector: Detector,
    *,
    version: str | None,
    measure: str,
    method: str | None,
    since: datetime | None,
    until: datetime | None,
    after: tuple[int, int] | None,
) -> Iterator[PlacedRow]:
    versions = choose_versions(session, detector, version)
    names = {chosen.id: chosen.name for chosen in versions}
    rows = iter_intervals(
        session,
        versions,
        measure=measure,
        method=method,
        since=since,
        until=until,
        after=after,
    )
    place = _Placing(detector.name, list_scopes(detector, measure), measure)
    return (place(row, names[row.version_id]) for row in rows)


@dataclass(frozen=True, slots=True)
class _Placing:
    """How rows of the database become those of a history."""

    detector: str
    scopes: Sequence[str]
    measure: str

    def __call__(self, row: Any, version: str) -> PlacedRow:
        # By their order: of thousands of rows a column by its name costs as much as
        # the whole shape.
        version_id, sequence, _, computed_at, level, labels, method, *rest = row
        position, correct, labelled, accuracy, low, high, formula, population = rest
        found = HistoryRow(
            computed_at=computed_at,
            detector=self.detector,
            version=version,
            labels=labels,
            scope=self.scopes[position],
            correct=correct,
            labelled=labelled,
            accuracy=accuracy,
            low=low,
            high=high,
            confidence_level=level,
            method=method,
            formula=formula,
            measure=self.measure,
            population=population,
        )
        return (version_id, sequence), found


def _stored_methods(measure: str) -> Sequence[str]:
    return STORED_METHODS if measure == RECALL else (EXACT,)


def list_scopes(detector: Detector, measure: str = RECALL) -> list[str]:
    if measure == OVERALL:
        return [OVERALL]
    return [BALANCED if measure == RECALL else MACRO, *detector.classes]


def _recomputed(
    rows: Iterator[PlacedRow], detector: Detector, measure: str, method: str
) -> Iterator[PlacedRow]:
    """Yield *rows* of the exact method with the bounds of another *method*."""
    formula = stats.get_method(method).formula
    at_once = max_snapshots(method, len(detector.classes), of=_SNAPSHOTS_AT_ONCE)
    snapshots = (list(one) for _, one in groupby(rows, key=itemgetter(0)))
    while chunk := list(islice(snapshots, at_once)):
        counts = [_counts_of([row for _, row in one], method) for one in chunk]
        moments = score_moments(counts, method, partial(_score, measure))
        scores = (one for row in moments for one in row)
        for (place, row), one in zip(chain(*chunk), scores, strict=True):
            bounds = {"low": one.low, "high": one.high, "method": method}
            yield place, row.model_copy(update={**bounds, "formula": formula})


def _score(measure: str, *counts: Any) -> list[list[Score]]:
    return score(*counts) if measure == RECALL else score_measure(measure, *counts)


def _counts_of(rows: Sequence[HistoryRow], method: str) -> ClassCounts:
    # Of overall accuracy the whole is all there is.
    of_classes = rows[1:] or rows
    return ClassCounts(
        method_level(method, rows[0].confidence_level, rows[0].population),
        [row.correct for row in of_classes],
        [row.labelled for row in of_classes],
    )


def list_rows(  # noqa: PLR0913 - what to read, and how.
    session: Session,
    detector: Detector,
    version: Version,
    sequences: Sequence[int],
    *,
    measure: str = RECALL,
    method: str,
    scopes: Sequence[str],
) -> list[PlacedRow]:
    """Return what *method* says of *scopes* in these snapshots of *version*, in order.

    Snapshots for which a method was not stored, because it is costly, are left out,
    and those that were stored before *measure* was kept.
    """
    names = list_scopes(detector, measure)
    is_stored = method in _stored_methods(measure)
    found = list_intervals_of(
        session,
        version,
        sequences,
        measure=measure,
        method=method if is_stored else EXACT,
        positions=[names.index(scope) for scope in scopes] if is_stored else None,
    )
    place = _Placing(detector.name, names, measure)
    placed = [place(row, version.name) for row in found]
    rows = placed if is_stored else _recomputed(iter(placed), detector, measure, method)
    return [(at, row) for at, row in rows if row.scope in scopes]


def iter_labels(
    session: Session, detector: Detector, conditions: Sequence[Condition] = ()
) -> Iterator[dict[str, Any]]:
    """Stream every label ever given to a query of *detector*, in order.

    Or to those queries that meet all *conditions*.
    """
    tests = [one.test(session) for one in conditions]
    for values in iter_label_rows(session, detector.id, tests):
        row = dict(zip(LABEL_COLUMNS, values, strict=True))
        row["query"] = f"iq_{row['query']}"
        row["asked_at"] = dump_instant(row["asked_at"])
        if row["metadata"] is not None:
            row["metadata"] = json.loads(row["metadata"])
        row["labelled_at"] = dump_instant(row["labelled_at"])
        row["is_current"] = bool(row["is_current"])
        row["is_repeat"] = bool(row["is_repeat"])
        row["tags"] = load_tags(row["tags"])
        row["is_grouped"] = bool(row["is_grouped"])
        yield row
