"""The history of a detector as series for its chart."""

from collections.abc import Iterator, Sequence
from datetime import date, datetime
from itertools import chain
from operator import attrgetter
from typing import Any

from sqlalchemy.orm import Session

from tracker import words
from tracker.charts.axes import Axis, Layout, Series
from tracker.charts.panels import NOTHING, Mark, Overlay, State
from tracker.charts.themes import Theme
from tracker.charts.tightening import tightening_chart
from tracker.services.estimates import decision, intervals
from tracker.services.estimates.counts import (
    current_counts,
    find_shares,
    pick_population,
)
from tracker.services.estimates.estimate import get_estimate
from tracker.services.estimates.history import iter_asked_days, list_rows
from tracker.services.estimates.missing import is_all
from tracker.services.estimates.windows import roll
from tracker.services.evidence.measure import Measure, read_measure
from tracker.services.evidence.populations import LIVE
from tracker.services.versions import choose_versions
from tracker.shapes import Moment
from tracker.stats import class_intervals, shared_level
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates import snapshots as storage
from tracker.storage.estimates.cells import Counts
from tracker.storage.estimates.replay import list_corrections
from tracker.storage.telling import Event, list_detector_events

# More points than these cannot be told apart on a screen.
_MOST_POINTS = 250
# Those of days are computed when they are asked for.
_MOST_DAYS = 100
_MOST_CLASSES = 12
_MOST_CHANGES = 5
_MOST_EVENTS = 50
_MOST_CORRECTIONS = 200
_MOST_BETWEEN = 1_000
_COUNTS = attrgetter("labels", "correct", "labelled")
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}


def build_chart(  # noqa: PLR0913 - the choices that a page offers.
    session: Session,
    detector: Detector,
    *,
    version: str | None = None,
    method: str = "exact",
    x: Axis = "labels",
    theme: Theme = "light",
    layout: Layout = "wide",
    is_nameless: bool = False,
    is_whole: bool = False,
    as_known_at: datetime | None = None,
    window: str | None = None,
    then: datetime | None = None,
    computed_at: datetime | None = None,
) -> dict[str, Any]:
    """Return the tightening chart of one version as a Vega-Lite specification.

    A nameless one shows the balanced accuracy alone, and no name of the detector, its
    version or its classes.  With a *window*, at *computed_at*, the accuracy of the last
    labels or days at each moment is drawn too, and what happened, and a line at *then*.
    """
    intervals.check_method(method)
    newest = next(reversed(choose_versions(session, detector, version)), None)
    series: list[Series] = []
    if newest is not None:
        most = 0 if is_nameless else _MOST_CLASSES
        load = _load_asked if x == "asked_at" else _load_series
        series = load(session, detector, newest, method, most, as_known_at)
    overlay = NOTHING
    # What happened while labels came has no place along the days asked.
    if newest is not None and series and window and computed_at and x != "asked_at":
        where, points = (session, detector, newest), series[0].points
        overlay = Overlay(
            lately=_roll(*where, points, window, computed_at),
            lately_name=_name_window(window),
            marks=_list_marks(*where, points, then),
            states=list_states(*where),
        )
    title = "Balanced accuracy"
    if not is_nameless:
        title = detector.name + (f", version {newest.name}" if newest else "")
    return tightening_chart(
        series,
        title=title,
        confidence_level=detector.confidence_level,
        method=method,
        target=detector.target if detector.measure == words.BALANCED else None,
        note="" if newest is None else _name_labels(session, detector, newest),
        x=x,
        theme=theme,
        layout=layout,
        is_whole=is_whole,
        overlay=overlay,
        class_count=0 if is_nameless else len(detector.classes),
    )


def _name_labels(session: Session, detector: Detector, version: Version) -> str:
    counts = current_counts(session, [version])[version.id]
    population, _ = pick_population(detector, counts)
    note = f"{population} labels"
    if population == LIVE and is_all(detector):
        note += " so far, queries without one left out"
    return note


def _roll(  # noqa: PLR0913, PLR0917 - which labels, and at which moments.
    session: Session,
    detector: Detector,
    version: Version,
    points: Sequence[Moment],
    window: str,
    at: datetime,
) -> list[Moment]:
    """Return the line of a window, which ends with the estimate that a page says."""
    line = roll(session, detector, version, points, window=window, at=at)
    last = get_estimate(
        session, detector, version=version.name, window=window, computed_at=at
    )
    if not line or not last.labels:
        return line
    now = {"labels": points[-1].labels, "computed_at": points[-1].computed_at}
    return [*line[:-1], Moment.model_validate(dict(last.whole) | now)]


def _name_window(window: str) -> str:
    number, unit = window[:-1], _UNITS.get(window[-1:])
    return f"last {number} {unit}" if unit else f"last {int(window):,}"


def _list_marks(
    session: Session,
    detector: Detector,
    version: Version,
    points: Sequence[Moment],
    then: datetime | None,
) -> list[Mark]:
    marks = [
        Mark(
            "correction",
            _labels_at(points, one.created_at),
            one.created_at,
            f"{one.before} to {one.label}, {one.created_at:%-d %b}",
        )
        for one in list_corrections(
            session, detector.id, version.id, limit=_MOST_CORRECTIONS
        )
    ]
    marks += [
        Mark(
            "change",
            _labels_at(points, event.happened_at),
            event.happened_at,
            f"{read_measure(event.data['measure']).name} {event.data['state']}, "
            f"{date.fromisoformat(event.data['since']):%-d %b}",
        )
        for event in list_changes(session, detector, version)[:_MOST_CHANGES]
    ]
    if then is not None:
        known = storage.find_newest_snapshot(session, version, by=then)
        number = points[0].labels if known is None else known.labels
        marks.append(Mark("then", number, then, "as known then"))
    return marks


def _labels_at(points: Sequence[Moment], at: datetime) -> int:
    known = [one.labels for one in points if one.computed_at <= at]
    return known[-1] if known else points[0].labels


def list_changes(session: Session, detector: Detector, version: Version) -> list[Event]:
    """Return the newest told changes of a version, the newest first."""
    events = [
        event
        for kind in words.CHANGE_EVENTS.values()
        for event in list_detector_events(
            session, detector.id, kind=kind, limit=_MOST_EVENTS
        )
        if event.version_id == version.id
    ]
    return sorted(events, key=lambda event: event.id, reverse=True)


def list_states(session: Session, detector: Detector, version: Version) -> list[State]:
    """Return the verdicts of a version by the target of today, each with since when."""
    if detector.target is None:
        return []
    found: list[State] = []
    before = 0
    marks = storage.list_marks(session, version)
    for row, verdict in _iter_verdicts(session, detector, version, marks):
        is_new = not found or found[-1].verdict != verdict
        if verdict is not None and row.labels and is_new:
            # Of the runs that ended between two checkpoints the first thousand.
            most = min(row.sequence - before - 1, _MOST_BETWEEN)
            skipped: Sequence[Any] = ()
            if most:
                skipped = storage.list_snapshots(
                    session, version, beyond=before, is_oldest_first=True, limit=most
                )
            rows = _iter_verdicts(session, detector, version, skipped)
            since = next((one for one, said in rows if said == verdict), row)
            found.append(State(verdict, since.labels, since.computed_at))
        before = row.sequence
    return found


def _iter_verdicts(
    session: Session, detector: Detector, version: Version, snapshots: Sequence[Any]
) -> Iterator[tuple[Any, words.Verdict | None]]:
    chosen = [one.sequence for one in snapshots]
    method, target = words.DECIDING_METHOD, detector.target
    if not chosen or target is None:
        return
    # Another measure or more of them have an interval of their own, as where every
    # query gets its label, and labels of other populations decide nothing.
    is_stored = detector.measure == words.BALANCED and not detector.also
    for row in storage.list_intervals_of(
        session, version, chosen, method=method, positions=[0]
    ):
        if is_stored and row.population == LIVE and not is_all(detector):
            yield row, decision.compare_with_target(row.low, row.high, target)
        else:
            yield row, None


def _load_series(  # noqa: PLR0913, PLR0917 - which part of the history, and how.
    session: Session,
    detector: Detector,
    version: Version,
    method: str,
    most_classes: int,
    by: datetime | None,
) -> list[Series]:
    most = intervals.max_snapshots(method, len(detector.classes), of=_MOST_POINTS)
    chosen = _choose_snapshots(session, version, most=most, by=by)
    if not chosen:
        return []
    last = storage.list_intervals_of(session, version, chosen[-1:], method="exact")
    names = _choose_classes(detector, last[1:], most_classes)
    points: dict[str, list[Moment]] = {scope: [] for scope in (words.BALANCED, *names)}
    rows = list_rows(
        session, detector, version, chosen, method=method, scopes=list(points)
    )
    for _, row in rows:
        points[row.scope].append(row)
    counts = Counts()
    if by is None:
        counts = current_counts(session, [version])[version.id]
    if counts.last_label_at is not None:
        population, standings = pick_population(detector, counts)
        correct, labelled = counts.select(standings).by_class(detector.classes)
        bets = [find_shares(detector, counts, standings)]
        level = decision.method_level(method, detector.confidence_level, population)
        scores = intervals.score([correct], [labelled], method, level, bets)[0]
        when = {"labels": sum(labelled), "computed_at": counts.last_label_at}
        for scope, one in zip([words.BALANCED, *detector.classes], scores, strict=True):
            known, now = points.get(scope), Moment.model_validate(dict(one) | when)
            # Unless the newest snapshot has all labels.
            if known and now.labels and _COUNTS(now) != _COUNTS(known[-1]):
                known.append(now)
    return [Series(scope, moments) for scope, moments in points.items()]


def _choose_classes(detector: Detector, last: Sequence[Any], most: int) -> list[str]:
    widest = sorted(
        range(len(last)), key=lambda place: (last[place].low - last[place].high, place)
    )
    return [detector.classes[place] for place in sorted(widest[:most])]


def _load_asked(  # noqa: PLR0913, PLR0917 - which part of the history, and how.
    session: Session,
    detector: Detector,
    version: Version,
    method: str,
    most_classes: int,
    by: datetime | None,
) -> list[Series]:
    most = intervals.max_snapshots(method, len(detector.classes), of=_MOST_DAYS)
    chosen: dict[str, Any] = {"measure": words.RECALL, "method": method, "known_at": by}
    days = list(iter_asked_days(session, detector, version, most=most, **chosen))
    if not days:
        return []
    classes = _choose_classes(detector, [row for _, row in days[-1][1:]], most_classes)
    points: dict[str, list[Moment]] = {name: [] for name in (words.BALANCED, *classes)}
    for _, row in chain(*days):
        if row.scope in points:
            points[row.scope].append(
                row.model_copy(update={"computed_at": row.asked_at})
            )
    return [Series(scope, moments) for scope, moments in points.items()]


def list_curve(
    session: Session,
    detector: Detector,
    version: Version,
    measure: Measure,
    method: str = words.DECIDING_METHOD,
) -> list[Moment]:
    """Return what *method* says of *measure* at each moment that was kept."""
    chosen = _choose_snapshots(session, version)
    where = (session, detector, version, chosen)
    if measure.kind in {words.BALANCED, words.RECALL}:
        scope = measure.of or words.BALANCED
        return [row for _, row in list_rows(*where, method=method, scopes=[scope])]
    scope = measure.of or words.OVERALL
    found = list_rows(*where, measure=measure.kind, method=words.EXACT, scopes=[scope])
    rows = [row for _, row in found]
    if method == words.EXACT or not rows:
        return list(rows)
    level = shared_level(detector.confidence_level, 1 + len(detector.also))
    right, counted = [row.correct for row in rows], [row.labelled for row in rows]
    level = decision.method_level(method, level, rows[-1].population)
    ends = class_intervals(method, right, counted, level)
    return [
        row.model_copy(update={"low": float(low), "high": float(high)})
        for row, low, high in zip(rows, ends.low, ends.high, strict=True)
    ]


def _choose_snapshots(
    session: Session,
    version: Version,
    *,
    most: int = _MOST_POINTS,
    by: datetime | None = None,
) -> list[int]:
    # A log axis has no place for zero labels.
    marks = [
        mark for mark in storage.list_marks(session, version, by=by) if mark.labels > 0
    ]
    return [mark.sequence for mark in _spread(marks, most)]


def _spread(marks: Sequence[Any], most: int) -> list[Any]:
    """Return at most so many marks, evenly along the log of their labels.

    Checkpoints above a hundred labels are spread so already.  Marks below stay where
    there is room, which corrections may leave none of: they make checkpoints too.
    """
    if len(marks) <= most:
        return list(marks)
    half = most // 2
    few = sum(mark.labels <= half for mark in marks)
    sparse = marks[few:]
    dense = intervals.thin_evenly(marks[:few], max(half, most - len(sparse)))
    return [*dense, *intervals.thin_evenly(sparse, most - len(dense))]
