"""The keys that a detector is cut by, and counts of unlabelled queries."""

from collections.abc import Iterable
from datetime import datetime

from sqlalchemy import func, select
from sqlalchemy.orm import Session
from sqlalchemy.orm.attributes import flag_modified

from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates import projections
from tracker.storage.estimates.pending import add_batch
from tracker.storage.queries.queries import Query

# The projection of the keys, with the labels compared so far; and before the name of
# a key, that of its slices, and that of the evidence on them in each compared measure.
SLICED = "slices"
SLICE = "slices."
EVIDENCE = "slice_evidence."


def delete_slices(session: Session, detector_id: int, names: Iterable[str]) -> None:
    for name in names:
        projections.delete_projections(session, detector_id, SLICE + name)
        projections.delete_projections(session, detector_id, EVIDENCE + name)
        projections.delete_projections(session, detector_id, SLICED, key=name)


def list_uncounted(detector: Detector) -> list[str]:
    return [name for name in detector.slices if name not in detector.counted_slices]


def list_counted(detector: Detector) -> list[str]:
    return [name for name in detector.slices if name in detector.counted_slices]


def count_slices_again(
    session: Session, detector: Detector, *, created_at: datetime
) -> None:
    """Let the job count all slices of a detector from its labels, in the background.

    For a change of what was counted already, such as metadata that are erased.
    """
    if detector.slices:
        leave_uncounted(detector)
        # The job takes up a detector that has a batch, be it an empty one.
        add_batch(session, detector.id, created_at=created_at)


def leave_uncounted(detector: Detector) -> None:
    detector.counted_slices = []
    # Also if a recount that began before stores its keys meanwhile.
    flag_modified(detector, "counted_slices")


def count_unlabelled(session: Session, version: Version) -> dict[str, int]:
    """Count the queries of *version* that have no label by their prediction."""
    statement = (
        select(Query.predicted, func.count())
        .filter_by(detector_id=version.detector_id, version_id=version.id, label=None)
        .group_by(Query.predicted)
    )
    return {str(value): number for value, number in session.execute(statement)}


def count_span(
    session: Session, version: Version, since: datetime, until: datetime
) -> tuple[int, datetime | None]:
    """Count the queries asked in a span, and find when the first one after it was.

    The index on when queries were asked has all of it, labelled or not.
    """
    own = {"detector_id": version.detector_id, "version_id": version.id}
    after = select(Query.asked_at).filter_by(**own).where(Query.asked_at >= until)
    following = after.order_by(Query.asked_at).limit(1).scalar_subquery()
    counted = select(func.count(), following).select_from(Query).filter_by(**own)
    is_in = Query.asked_at >= since, Query.asked_at < until
    number, asked_at = session.execute(counted.where(*is_in)).one()
    return number, asked_at
