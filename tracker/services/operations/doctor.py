"""What may be wrong with stored data, in plain words, and how to fix it."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.services.estimates.stream.recount import recount
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.estimates.projections import load_counts
from tracker.storage.estimates.snapshots import find_newest_snapshot, list_intervals_of
from tracker.storage.images import ImageStore, is_whole, place_of
from tracker.storage.imports.files import list_failed, list_waiting
from tracker.storage.operations.leases import find_failure
from tracker.words import EXACT

_MEND_COUNTS = (
    "the labels are the evidence and are whole: restore a backup in which the counts "
    "agree, or export the labels and import them into a new detector"
)
_MEND_SNAPSHOT = (
    "once the counts agree with a recount, the next scored label adds a snapshot that "
    "is right; the history keeps the wrong one"
)
_MEND_RUN = (
    "see to what it says, then run tracker recompute, which tries at once; the worker "
    "tries again by itself at {until:%Y-%m-%d %H:%M:%S} UTC"
)
_MEND_WAITING = (
    "see that a worker runs; it imports one file after the other, and the file is safe"
)
_MEND_FAILED = "see to what it says, then send the file again"
_MEND_IMAGE = (
    "copy it from a backup, whose folder images holds it under that name, to {place} "
    "where images are kept"
)
_PATIENCE = timedelta(minutes=10)
# Nobody wants to be told for ever; the import itself goes on saying so.
_FAILED_FOR = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Problem:
    """Something that should not be so."""

    what: str
    remedy: str


def check_detector(session: Session, detector: Detector) -> Iterator[Problem]:
    """Yield what is wrong with the counts of *detector*, its snapshots and runs."""
    for wrong in recount(session, detector):
        yield Problem(
            f"{detector.name}, version {wrong.version}, {wrong.what}: "
            f"{wrong.running:,} queries are counted, a recount finds "
            f"{wrong.recounted:,}",
            _MEND_COUNTS,
        )
    yield from _check_snapshots(session, detector)
    failure = find_failure(session, detector.id)
    if failure is not None:
        yield Problem(
            f"{detector.name}: new labels wait, because the run over them failed "
            f"{failure.failures:,} times in a row, at last with "
            f"{str(failure.error).partition(chr(10))[0]}",
            _MEND_RUN.format(until=failure.until),
        )


def _check_snapshots(session: Session, detector: Detector) -> Iterator[Problem]:
    versions = list_versions(session, detector.id)
    # Labels that wait for the job are in no snapshot yet, and not in these either.
    counts = load_counts(session, versions)
    for version in versions:
        if version.run_due_at is not None:
            # Its newest labels are in no snapshot yet.
            continue
        by_class = counts[version.id].select().by_class(detector.classes)
        pairs = zip(detector.classes, *by_class, strict=True)
        scored = {name: [correct, labelled] for name, correct, labelled in pairs}
        snapshot = find_newest_snapshot(session, version)
        stored = {name: [0, 0] for name in detector.classes}
        if snapshot is not None:
            newest = [snapshot.sequence]
            rows = list_intervals_of(session, version, newest, method=EXACT)
            for row in rows:
                if row.position:
                    name = detector.classes[row.position - 1]
                    stored[name] = [row.correct, row.labelled]
        for name in detector.classes:
            if stored[name] != scored[name]:
                yield Problem(
                    f"{detector.name}, version {version.name}: the newest snapshot "
                    f"says {_of(stored[name])} correct for {name}, the counts "
                    f"{_of(scored[name])}",
                    _MEND_SNAPSHOT,
                )


def _of(pair: list[int]) -> str:
    correct, labelled = pair
    return f"{correct:,} of {labelled:,}"


def check_imports(session: Session, *, at: datetime) -> Iterator[Problem]:
    """Yield the imports that have waited long for a worker, and the ones that failed.

    Of the latter those that did in the day before *at*.
    """
    for waiting in list_waiting(session, since=at - _PATIENCE):
        minutes = (at - waiting.created_at) // timedelta(minutes=1)
        yield Problem(
            f"the import {dump_id('imp', waiting.id)} has waited for {minutes:,} "
            "minutes",
            _MEND_WAITING,
        )
    for failed in list_failed(session, since=at - _FAILED_FOR):
        yield Problem(
            f"the import {dump_id('imp', failed.id)} failed: {failed.error}",
            _MEND_FAILED,
        )


def check_image(name: str, images: ImageStore) -> Problem | None:
    """Return what is wrong with the image *name*, which a query points at."""
    try:
        wrong = None if is_whole(name, images.get(name)) else "damaged"
    except FileNotFoundError:
        wrong = "missing"
    if wrong is None:
        return None
    return Problem(
        f"the image {name}, which a query points at, is {wrong}",
        _MEND_IMAGE.format(place=place_of(name)),
    )
