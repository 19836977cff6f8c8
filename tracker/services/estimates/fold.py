"""The fold: new labels move the projections, and make snapshots on the way.

It goes in three steps, so that nothing is locked or open while intervals are computed:
``read_folds`` reads one snapshot of the database, ``score_folds`` computes without it,
and ``store_folds`` claims the next revision of each detector and writes everything in
one transaction, or nothing if another worker was faster.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from itertools import chain, islice, repeat
from typing import Protocol

from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.estimates import calendar
from tracker.services.estimates.intervals import bound_all
from tracker.services.estimates.missing import find_awaited, is_all
from tracker.services.estimates.projections import (
    Cells,
    Checkpoints,
    Confidences,
    Days,
    Known,
    Place,
    Point,
    Projection,
    VersionFold,
)
from tracker.services.estimates.slice_counts import SliceCounts
from tracker.services.estimates.snapshots import (
    Scored,
    compute_intervals,
    store_snapshots,
)
from tracker.services.estimates.warnings import Look, read_looks
from tracker.services.versions import Traffic, follow_traffic
from tracker.storage.detectors import (
    Detector,
    Version,
    list_due_versions,
    load_detectors,
    load_versions,
    zone_of,
)
from tracker.storage.estimates import label_changes, pending
from tracker.storage.estimates import projections as storage
from tracker.storage.estimates.cells import Change
from tracker.storage.estimates.counts import count_pending_rows
from tracker.storage.estimates.job_runs import JobRun, add_job_runs
from tracker.storage.estimates.projections import Kept, Row
from tracker.storage.estimates.slices import delete_slices, list_counted, list_uncounted
from tracker.storage.estimates.thresholds import Bin, count_pending_confidences
from tracker.storage.estimates.weeks import count_hours
from tracker.storage.imports import is_importing
from tracker.storage.queries.finding import index_metadata

# In this order: a checkpoint has the counts as the same label left them.
PROJECTIONS: tuple[type[Projection], ...] = (
    Cells,
    Checkpoints,
    Days,
    Known,
    Confidences,
    SliceCounts,
)
_ENDS: tuple[type[Projection], ...] = (Cells, Checkpoints)
# A piece has at most so many labels, fewer for more classes: it may make a snapshot of
# each, with a score for each class.
_MOST_IN_A_PIECE = 20_000
_FEWEST_IN_A_PIECE = 200
_SCORES = 200_000
# So many run snapshots are taken at once.
_MOST_ENDS = 100
# So many changes are taken at once, after one look for the rows that they touch.
_AT_ONCE = 1_000


class StaleFoldError(ConflictError):
    """Another worker has folded these labels; this result is discarded."""


class Listener(Protocol):
    """Told of each fold, so that events are written in its transaction."""

    def load(self, session: Session, folds: Sequence["Fold"]) -> None:
        """Read what it needs of the snapshot that the folds were read from."""

    def follow(self, folds: Sequence["Fold"]) -> None:
        """Compute what is to be told, without the database."""

    def tell(self, session: Session, fold: "Fold", *, at: datetime) -> None:
        """Write it, before the rows of the versions are moved on."""


@dataclass(slots=True)
class Fold:
    """Work done for a detector and not stored yet."""

    detector: Detector
    kinds: Sequence[type[Projection]]
    # The keys of the metadata that slices are cut by.
    cut_by: Sequence[str]
    batches: Sequence[int] = ()
    # Whether it begins with the first label, whatever is stored, and the zone that its
    # days are in then.
    is_new: bool = False
    time_zone: str | None = None
    # Whether it takes no labels, and only snapshots of where they ended.
    is_end: bool = False
    # The id that the fold ends before, if more labels wait.
    until: int | None = None
    # Whether no more labels wait and no file is being imported, and whether calendars
    # waited for that.
    is_settled: bool = False
    has_due: bool = False
    listeners: Sequence[Listener] = ()
    # Which version answers most new queries, if any came.
    traffic: Traffic | None = None
    versions: dict[int, VersionFold] = field(default_factory=dict)
    # The rows of the versions as they were read.
    rows: dict[int, Version] = field(default_factory=dict)
    looks: list[Look] = field(default_factory=list)
    # The points of versions, and what they come to.
    taken: dict[int, tuple[Sequence[Point], Scored]] = field(default_factory=dict)
    # Of the versions whose labels have ended for now.
    calendars: dict[int, calendar.Calendar] = field(default_factory=dict)

    def of_version(self, version_id: int) -> VersionFold:
        """Return the projections of a version, which are begun if they are not yet."""
        found = self.versions.get(version_id)
        if found is None:
            which = (self.detector, self.kinds, self.cut_by)
            found = VersionFold(*which, is_new=self.is_new)
            self.versions[version_id] = found
        return found

    @property
    def labels(self) -> int:
        return sum(one.labels for one in self.versions.values())

    def advance(self) -> None:
        """Note in the rows of the versions how far the job has come with them."""
        for key, version in self.versions.items():
            row = self.rows[key]
            row.sequence += len(self.taken[key][0])
            row.queries += version.queries
            row.last_label_at = version.last_label_at or row.last_label_at
            if row.last_label_at is not None and (version.labels or self.is_end):
                row.run_due_at = version.of(Checkpoints).find_run_due(row.last_label_at)


def read_folds(
    session: Session,
    detectors: Iterable[Detector],
    *,
    below: int,
    listeners: Sequence[Listener] = (),
) -> list[Fold]:
    """Fold the new labels of *detectors* that have fewer than *below* new rows."""
    by_id = {detector.id: detector for detector in detectors}
    found = pending.list_pending_batches(session, by_id)
    rows = count_pending_rows(session, found) if found else {}
    batches = {one: some for one, some in found.items() if rows[one] < below}
    return _read(session, by_id, batches, listeners=listeners)


def read_piece(
    session: Session, detector: Detector, *, listeners: Sequence[Listener] = ()
) -> Fold | None:
    """Fold the first of the labels that wait for *detector*; None if none do.

    A piece is bounded, so that no transaction and no list of intervals grows with what
    waits: of a thousand classes it has fewer labels than of two.
    """
    batches = pending.list_pending_batches(session, [detector.id])
    if not batches:
        return None
    most = min(_MOST_IN_A_PIECE, _SCORES // len(detector.classes))
    until = label_changes.find_cut(session, batches, most=max(_FEWEST_IN_A_PIECE, most))
    if until is not None:
        some = [one for one in batches[detector.id] if pending.first_id(one) < until]
        batches = {detector.id: some}
    folds = _read(
        session, {detector.id: detector}, batches, until=until, listeners=listeners
    )
    return folds[0]


def _read(
    session: Session,
    by_id: Mapping[int, Detector],
    batches: pending.Pending,
    *,
    until: int | None = None,
    listeners: Sequence[Listener],
) -> list[Fold]:
    if not batches:
        return []
    folds: dict[int, Fold] = {}
    for key, some in batches.items():
        cut_by = list_counted(by_id[key])
        folds[key] = Fold(by_id[key], PROJECTIONS, cut_by, some)
    logged = count_hours(session, batches, until=until)
    for one in logged:
        folds[one.detector_id].of_version(one.version_id).queries += one.queries
    new = {one.detector_id for one in logged}
    known = {key: Traffic.load(by_id[key]) for key in new}
    for detector_id, traffic in follow_traffic(known, logged).items():
        folds[detector_id].traffic = traffic
    cut = {one: some for one, some in batches.items() if folds[one].cut_by}
    queries: Iterator[Change] = iter(())
    if cut:
        queries = label_changes.iter_pending_queries(session, cut, until=until)
    confidences = [*count_pending_confidences(session, batches, until=until)]
    starts = {pending.first_id(batch) for some in batches.values() for batch in some}
    zones = {one: by_id[one].zone for one in batches}
    changes = label_changes.iter_pending_changes(
        session, batches, zones=zones, until=until, has_metadata=bool(cut)
    )
    with closing(changes):
        ordered = label_changes.in_order_of_replacement(changes, starts)
        _replay(session, folds, chain(queries, ordered), confidences)
    _settle(session, folds, until)
    for fold in folds.values():
        fold.listeners, fold.until = listeners, until
    for listener in listeners:
        listener.load(session, [*folds.values()])
    return [*folds.values()]


def _settle(session: Session, folds: Mapping[int, Fold], until: int | None) -> None:
    """Freeze class shares, find calendars and look for bursts, once all labels are in.

    Not while a file is being imported: it may be in the order of its classes, or of
    right and wrong.  Versions that have enough labels freeze their class shares, and
    the snapshots of this fold have them too, for none of them was looked at yet.
    """
    ids = {one for fold in folds.values() for one in fold.versions}
    settled: list[Version] = []
    test = is_importing(Version.detector_id)
    for row, is_due, waits in storage.load_due_versions(session, folds, ids, test):
        fold = folds[row.detector_id]
        fold.is_settled = not (until or waits)
        fold.has_due |= fold.is_settled and is_due
        if row.id in ids or fold.is_settled:
            fold.rows[row.id] = row
        new = fold.versions.get(row.id)
        # Where every query gets its label, one without may end a verdict.
        is_moved = new and (new.labels or (new.queries and is_all(fold.detector)))
        if fold.is_settled and (is_due or is_moved):
            settled.append(row)
    names = storage.CALENDAR, storage.DAYS, storage.BURSTS
    dated = storage.load_states(session, settled, names)
    _load(session, folds, {(one.detector_id, one.id): [] for one in settled})
    for row in settled:
        fold, kept = folds[row.detector_id], dated.get(row.id, {})
        version = fold.of_version(row.id)
        version.of(Checkpoints).freeze_shares()
        days = {
            key: state for (name, key), state in kept.items() if name == storage.DAYS
        }
        dated_now = version.of(Days).dump()
        days |= {key: one.state for (_, key), one in dated_now.items()}
        state = kept.get((storage.CALENDAR, ""), {})
        found = fold.calendars[row.id] = calendar.Calendar(
            calendar.Terms.of(fold.detector),
            calendar.find_birth(session, row, state, fold.detector.zone),
            state,
            calendar.add_days(days, {}),
            version.of(Cells).shares,
        )
        fold.looks += read_looks(
            session, fold.detector, row, version.of(Cells).counts, kept
        )
        last = version.last_label_at or row.last_label_at
        if is_all(fold.detector) and last is not None:
            awaited = find_awaited(session, fold.detector, row, last)
            found.awaited, found.waits_from = awaited


def replay(
    session: Session,
    detector: Detector,
    kinds: Sequence[type[Projection]],
    cut_by: Sequence[str],
    *,
    time_zone: str | None = None,
) -> Fold:
    """Return projections of all folded changes, days in *time_zone* or as counted."""
    fold = Fold(detector, kinds, cut_by, is_new=True, time_zone=time_zone)
    zone = detector.zone if time_zone is None else zone_of(time_zone)
    queries: Iterator[Change] = iter(())
    if cut_by:
        queries = label_changes.iter_folded_queries(session, detector.id)
    changes = label_changes.iter_folded_changes(
        session, detector.id, zone=zone, has_metadata=bool(cut_by)
    )
    with closing(changes):
        ordered = label_changes.in_order_of_replacement(changes)
        _replay(session, {detector.id: fold}, chain(queries, ordered))
    return fold


def read_again(
    session: Session,
    detector: Detector,
    *,
    time_zone: str | None = None,
    listeners: Sequence[Listener] = (),
) -> Fold | None:
    """Count slices by new keys, or days in another *time_zone*; None if there are none.

    It takes what was folded in already, and no lock: writers go on meanwhile.
    """
    names = list_uncounted(detector)
    if names:
        fold = replay(session, detector, [SliceCounts], names)
    elif time_zone not in {None, detector.time_zone}:
        fold = replay(session, detector, [Days, Known], (), time_zone=time_zone)
    else:
        return None
    fold.listeners = listeners
    return fold


def _replay(
    session: Session,
    folds: Mapping[int, Fold],
    changes: Iterator[Change],
    confidences: Sequence[tuple[int, int, int, Bin]] = (),
) -> None:
    """Add summed *confidences* and *changes* in order, and close the projections."""
    while (chunk := list(islice(changes, _AT_ONCE))) or confidences:
        by_version: dict[tuple[int, int], list[Change]] = {}
        new = (Change(*one[:2], 0, step=one[2]) for one in confidences)
        for change in chain(new, chunk):
            place = change.detector_id, change.version_id
            by_version.setdefault(place, []).append(change)
        versions = _load(session, folds, by_version)
        for detector_id, version_id, step, queries in confidences:
            versions[detector_id, version_id].of(Confidences).at(step).add(queries)
        confidences = ()
        for change in chunk:
            versions[change.detector_id, change.version_id].add(change)
    for fold in folds.values():
        for version_id, version in fold.versions.items():
            row = Version(id=version_id, detector_id=fold.detector.id)
            for one in version.projections:
                one.close(partial(storage.list_projections, session, row))


def _load(
    session: Session,
    folds: Mapping[int, Fold],
    changes: Mapping[tuple[int, int], Sequence[Change]],
) -> dict[tuple[int, int], VersionFold]:
    versions = {one: folds[one[0]].of_version(one[1]) for one in changes}
    wanted = {
        (*one, *place)
        for one, version in versions.items()
        for place in version.missing(changes[one])
    }
    rows: dict[tuple[int, int], dict[Place, Kept]] = {}
    for row, kept in storage.load_projections(session, wanted).items():
        rows.setdefault(row[:2], {})[row[2:]] = kept
    for place, of_version in rows.items():
        for projection in versions[place].projections:
            projection.load(of_version)
    return versions


def read_ends(
    session: Session, *, at: datetime, listeners: Sequence[Listener] = ()
) -> list[Fold]:
    """Take the run snapshots that are due: of where the labels of versions ended."""
    folds: dict[int, Fold] = {}
    rows: dict[tuple[int, int], list[Change]] = {}
    due = list_due_versions(session, at=at, limit=_MOST_ENDS)
    ids = {version.detector_id for version in due}
    by_id = {one.id: one for one in load_detectors(session, ids)} if ids else {}
    for version in due:
        detector = by_id[version.detector_id]
        fold = folds.setdefault(
            detector.id, Fold(detector, _ENDS, (), is_end=True, listeners=listeners)
        )
        fold.of_version(version.id)
        fold.rows[version.id] = version
        rows[detector.id, version.id] = []
    _load(session, folds, rows)
    for fold in folds.values():
        for one in fold.versions.values():
            one.of(Checkpoints).end_run(at)
    for listener in listeners:
        listener.load(session, [*folds.values()])
    return [*folds.values()]


def score_folds(folds: Sequence[Fold]) -> None:
    """Compute the intervals of all snapshots of *folds*, and what is to be told."""
    listeners = folds[0].listeners if folds else ()
    for level in {fold.detector.confidence_level for fold in folds}:
        same = [one for one in folds if one.detector.confidence_level == level]
        points = {
            key: version.of(Checkpoints).points
            for fold in same
            for key, version in fold.versions.items()
        }
        scored = compute_intervals(points, level)
        for fold in same:
            fold.taken = {key: (points[key], scored[key]) for key in fold.versions}
    calendars = [one for fold in folds for one in fold.calendars.values()]
    intervals = bound_all([one.find_claim() for one in calendars])
    for one, interval in zip(calendars, intervals, strict=True):
        if one.awaited is None:
            one.interval = interval
    for fold in folds:
        for look in fold.looks:
            look.find(changes=fold.calendars[look.place[1]].now.starts)
    for listener in listeners:
        listener.follow(folds)


def _dump(fold: Fold, at: datetime) -> Iterator[tuple[Row, Kept]]:
    """Yield the rows to store, of the versions whose rows were read or begun."""
    for version_id, version in fold.versions.items():
        place = fold.detector.id, version_id
        if version.is_new or version.known:
            for name, kept in version.dump().items():
                yield (*place, *name), kept
        if version_id in fold.calendars:
            yield (*place, storage.CALENDAR, ""), fold.calendars[version_id].dump(at)
        elif version.labels and not fold.is_settled:
            # It is found once all labels are in.
            yield (*place, storage.CALENDAR, storage.DUE), Kept(storage.DUE, {})
    for look in fold.looks:
        yield look.place, look.dump()


def store_folds(
    session: Session,
    folds: Sequence[Fold],
    *,
    worker: str,
    computed_at: datetime,
    seconds: float,
) -> list[JobRun]:
    """Write folds that took so many *seconds* each, and return the run of each.

    Raises StaleFoldError if another worker was faster with one of them.
    """
    seen = {one.detector.id: one.detector.revision for one in folds}
    traffic = {one.detector.id: one.traffic.dump() for one in folds if one.traffic}
    if not pending.advance_revisions(session, seen, traffic):
        raise StaleFoldError("another worker has folded these labels")
    ended = [(one.detector.id, one.batches, one.until) for one in folds]
    if not pending.end_batches(session, ended):
        raise StaleFoldError("another worker has taken these batches")
    runs = [
        JobRun(
            detector_id=one.detector.id,
            worker=worker,
            started_at=computed_at,
            seconds=seconds,
            outcome="done",
            batches=len(one.batches),
            labels=one.labels,
            snapshots=sum(len(points) for points, _ in one.taken.values()),
        )
        for one in folds
    ]
    add_job_runs(session, runs)
    dumped = map(_dump, folds, repeat(computed_at))
    storage.store_projections(session, dict(chain.from_iterable(dumped)))
    taken = [
        (fold.rows[key], run.id, fold.detector.confidence_level, *some)
        for fold, run in zip(folds, runs, strict=True)
        for key, some in fold.taken.items()
    ]
    store_snapshots(session, taken, computed_at=computed_at)
    for fold in folds:
        if fold.has_due:
            storage.delete_projections(
                session, fold.detector.id, storage.CALENDAR, key=storage.DUE
            )
        for listener in fold.listeners:
            listener.tell(session, fold, at=computed_at)
        # Their progress is only written by who claims the revision they were read at.
        session.add_all(fold.rows.values())
        fold.advance()
    session.flush()
    return runs


def store_again(session: Session, fold: Fold, *, computed_at: datetime) -> None:
    """Replace the stored slices or days by those counted again.

    Raises StaleFoldError if labels were folded in or the measure was set meanwhile.
    """
    seen = {fold.detector.id: fold.detector.revision}
    is_mine = pending.advance_revisions(session, seen)
    detector = session.get_one(Detector, fold.detector.id)
    if not is_mine or detector.measure != fold.detector.measure:
        raise StaleFoldError("labels were folded in or the measure set meanwhile")
    delete_slices(session, fold.detector.id, fold.cut_by)
    if fold.time_zone is not None:
        detector.time_zone = fold.time_zone
        for name in (storage.DAYS, storage.KNOWN):
            storage.delete_projections(session, fold.detector.id, name)
        storage.find_calendars_again(session, fold.detector.id)
        pending.add_batch(session, fold.detector.id, created_at=computed_at)
    counted_again = {
        (fold.detector.id, version_id, *place): kept
        for version_id, version in fold.versions.items()
        for place, kept in version.dump().items()
    }
    storage.store_projections(session, counted_again)
    fold.rows = load_versions(session, [fold.detector.id], fold.versions)
    for listener in fold.listeners:
        listener.tell(session, fold, at=computed_at)
    counted = {*detector.counted_slices, *fold.cut_by}
    detector.counted_slices = [name for name in detector.slices if name in counted]
    index_metadata(session, detector.id, detector.counted_slices)
