"""The current label of a query: locked, then set."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import Boolean, Text, bindparam, case, false, func, select
from sqlalchemy.orm import Session

from tracker.storage.base import Key, columns_of
from tracker.storage.detectors import Detector, LabelledDetector
from tracker.storage.dialect import is_sqlite
from tracker.storage.inserting import Prepared
from tracker.storage.labelling.labelers import Assignment
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.queries.queries import LabelledQuery, Query, has, update_each
from tracker.words import RANDOM


@dataclass(frozen=True, slots=True)
class Labelled:
    """A query that is about to be given a label, with what that touches."""

    query: LabelledQuery
    detector: LabelledDetector
    # Whether its labeler is asked for so many labels.
    is_assigned: bool
    # Whether it is reserved for somebody, or was set aside.
    is_held: bool
    # Whether the random queue gave it to the labeler.
    is_drawn: bool


_IS_ASSIGNED = (
    select(Assignment.labels)
    .where(
        Assignment.detector_id == Query.detector_id,
        Assignment.labeler == bindparam("labeler"),
    )
    .exists()
)
_IS_HELD = has(Reservation) | has(Skip)
# Drawn by the random queue for this labeler, whatever the label says of it.
_IS_DRAWN = has(
    Reservation,
    Reservation.labeler == bindparam("labeler"),
    Reservation.queue == RANDOM,
)
_OF_QUERY = columns_of(Query, *LabelledQuery._fields)
_OF_DETECTOR = columns_of(Detector, *LabelledDetector._fields)
_SELECT = (
    select(*_OF_QUERY, *_OF_DETECTOR, _IS_ASSIGNED, _IS_HELD, _IS_DRAWN)
    .join(Detector.__table__, Detector.id == Query.detector_id)
    .where(
        Query.detector_id == bindparam("detector_id"), Query.id == bindparam("query_id")
    )
)
_LOCK = _SELECT.with_for_update(of=Query, key_share=True)
# Which queries are found, and whether nobody else can label them meanwhile.  One that
# is alone has no input and no group, which would have to be locked before it.
FIND, _FIND_LOCKED = Prepared(_SELECT), Prepared(_LOCK)
LOCK_ALONE = Prepared(_LOCK.where(Query.input.is_(None), Query.group.is_(None)))


def find_labelled(
    session: Session, key: Key, labeler: str, which: Prepared
) -> Labelled | None:
    """Return a query that *which* of the statements finds for a labeler."""
    values = {"detector_id": key[0], "query_id": key[1], "labeler": labeler}
    row = which.first(session, values)
    if row is None:
        return None
    *columns, is_assigned, is_held, is_drawn = row
    return Labelled(
        LabelledQuery(*columns[: len(_OF_QUERY)]),
        LabelledDetector(*columns[len(_OF_QUERY) :]),
        is_assigned,
        is_held,
        is_drawn,
    )


def lock_labelled(session: Session, found: Labelled, labeler: str) -> Labelled | None:
    """Return a query that was *found* as it is now, while nobody else can label it."""
    if is_sqlite(session):
        return found
    key = found.query.detector_id, found.query.id
    return find_labelled(session, key, labeler, _FIND_LOCKED)


_RANK, _AGREEMENT = Query.__table__.c.queue_rank, Query.__table__.c.agreement
_AS_GIVEN = ("label", "label_id", "sampling", "standing", "is_replayed")
_SET = Prepared(
    update_each().values(
        **{name: bindparam(name) for name in _AS_GIVEN},
        queue_rank=case((bindparam("keeps_rank", type_=Boolean), _RANK)),
        is_gold=false(),
        agreement=func.coalesce(bindparam("agreement", type_=Text), _AGREEMENT),
    )
)


def set_current_labels(
    session: Session, detector_id: int, rows: Sequence[dict[str, Any]]
) -> None:
    """Set the current label of the queries ``query_id`` and what it counts for.

    ``agreement`` None leaves it as it is.  A query leaves the random queue unless it
    ``keeps_rank``, and is gold no longer.
    """
    _SET.run(session, *({"of_detector": detector_id} | row for row in rows))
