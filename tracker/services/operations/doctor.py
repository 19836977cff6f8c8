"""Problems of the stored data, in plain words, and how to fix them."""

from collections.abc import Iterator
from datetime import datetime, timedelta

from sqlalchemy.orm import Session

from tracker.services.estimates.counts import pick_population
from tracker.services.estimates.recount import recount
from tracker.storage.base import dump_id, list_rows
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.estimates.projections import load_counts
from tracker.storage.estimates.snapshots import find_newest_snapshot, list_intervals_of
from tracker.storage.images import ImageStore, is_whole, place_of
from tracker.storage.imports import FAILED, FileImport, list_waiting
from tracker.storage.tasks import RECOMPUTE, find_failures
from tracker.words import EXACT

_PATIENCE = timedelta(minutes=10)
# A failed import is reported for a day; its page shows the failure for ever.
_FAILED_FOR = timedelta(days=1)


# What is wrong, and how to fix it.
Problem = tuple[str, str]


def check_detector(session: Session, detector: Detector) -> Iterator[Problem]:
    """Yield the problems of the counts, snapshots and runs of *detector*."""
    for wrong in recount(session, detector):
        yield (
            f"{detector.name}, version {wrong.version}, {wrong.what}: "
            f"{wrong.running:,} queries are counted, a recount finds "
            f"{wrong.recounted:,}",
            "the labels are complete: restore a backup in which the counts agree, or "
            "export the labels and import them into a new detector",
        )
    yield from _check_snapshots(session, detector)
    failure = find_failures(session, RECOMPUTE, [detector.id]).get(detector.id)
    if failure is not None:
        yield (
            f"{detector.name}: new labels wait, because the run over them failed "
            f"{failure.attempts:,} times in a row, at last with "
            f"{str(failure.error).partition(chr(10))[0]}",
            "fix the cause, then run tracker recompute, which tries at once; the "
            f"worker tries again at {failure.due_at:%Y-%m-%d %H:%M:%S} UTC",
        )


def _check_snapshots(session: Session, detector: Detector) -> Iterator[Problem]:
    versions = list_versions(session, detector.id)
    # Like the snapshots, these lack the labels that wait for the job.
    counts = load_counts(session, versions)
    for version in versions:
        if version.run_due_at is not None:
            # Its newest labels have no snapshot yet.
            continue
        _, standings = pick_population(detector, counts[version.id])
        scored = counts[version.id].select(standings)
        by_class = scored.by_class(detector.classes)
        snapshot = find_newest_snapshot(session, version)
        newest = [] if snapshot is None else [snapshot.sequence]
        stored = dict.fromkeys(detector.classes, (0, 0))
        for row in list_intervals_of(session, version, newest, method=EXACT):
            if row.position:
                name = detector.classes[row.position - 1]
                stored[name] = (row.correct, row.labelled)
        for name, correct, labelled in zip(detector.classes, *by_class, strict=True):
            if stored[name] != (correct, labelled):
                said = "{:,} of {:,}".format(*stored[name])
                yield (
                    f"{detector.name}, version {version.name}: the newest snapshot "
                    f"says {said} correct for {name}, the counts {correct:,} of "
                    f"{labelled:,}",
                    "once the counts agree with a recount, the next scored label adds "
                    "a correct snapshot; the history keeps the wrong one",
                )


def check_imports(session: Session, *, at: datetime) -> Iterator[Problem]:
    """Yield imports that wait long for a worker, or failed in the day before *at*."""
    for waiting in list_waiting(session, since=at - _PATIENCE):
        minutes = (at - waiting.created_at) // timedelta(minutes=1)
        yield (
            f"the import {dump_id('imp', waiting.id)} has waited for {minutes:,} "
            "minutes",
            "check that a worker runs; it imports one file after the other, and the "
            "file is safe",
        )
    are_new = FileImport.finished_at >= at - _FAILED_FOR
    for failed in list_rows(session, FileImport, FileImport.state == FAILED, are_new):
        yield (
            f"the import {dump_id('imp', failed.id)} failed: {failed.error}",
            "fix the cause, then send the file again",
        )


def check_image(name: str, images: ImageStore) -> Problem | None:
    """Return the problem of the image *name* of a query, if it has one."""
    try:
        if is_whole(name, images.get(name)):
            return None
        wrong = "damaged"
    except FileNotFoundError:
        wrong = "missing"
    return (
        f"the image {name} of a query is {wrong}",
        "copy it from a backup, where the folder images has it under that name, to "
        f"{place_of(name)} where images are kept",
    )
