"""Erasing a query or its image: what it held goes, what was counted of it stays."""

from sqlalchemy.orm import Session

from tracker.errors import ConflictError, NotFoundError
from tracker.services.by import By
from tracker.services.evidence.units import erased_name
from tracker.services.queries.queries import check_is_there, get_query, was_erased
from tracker.storage.base import delete_rows
from tracker.storage.detectors import Detector
from tracker.storage.estimates.slices import count_slices_again
from tracker.storage.labelling import audits, golds, inputs, labelers, rechecks
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.labels import Label, erase_notes
from tracker.storage.queries import waiting as storage
from tracker.storage.queries.queries import (
    Query,
    delete_about,
    find_query_by_key,
    lock_query,
)


def erase_query(session: Session, query_id: str, by: By) -> str | None:
    """Take away what a query holds; return an image that nothing shows any more.

    Its content, image, metadata and input go, and the notes of its labels and what
    judges said of it.  Its prediction and its label stay, without which the counts and
    the history would no longer follow from what is stored.  Its key stays too, so that
    a file that is sent once more does not bring it back, and hashes of its group and of
    its input, which stay counted by it.

    Raises GoneError if it was erased before, and ConflictError while an audit waits
    for its label.
    """
    query, detector = _lock(session, query_id)
    if query.label is None and audits.is_awaited(session, query):
        raise ConflictError(
            "an audit that is open may ask for the label of this query; label it or "
            "close the audit first"
        )
    name, seed = query.image, detector.queue_seed
    if query.input is not None:
        # Queries that have taken it over keep their labels.
        own = {"detector_id": detector.id, "input": query.input}
        delete_rows(session, inputs.Reference, **own)
    # An input without a label is not spent.
    spent = None if query.label is None else query.input
    storage.erase_content(
        session,
        query,
        group=None if query.group is None else erased_name(seed, query.group),
        name=None if spent is None else erased_name(seed, spent),
        erased_at=by.at,
    )
    for rows_of in (Label, rechecks.Recheck, golds.GoldAnswer):
        erase_notes(session, rows_of, query)
    delete_about(session, query, labelers.Judgement, Reservation, Skip)
    count_slices_again(session, detector, created_at=by.at)
    by.record(session, "query erased", query_id, detector=detector.name)
    return _find_unshown(session, name)


def erase_image(session: Session, query_id: str, by: By) -> str | None:
    """Take away the image of a query alone; return it if nothing shows it any more.

    An address of an image elsewhere goes too, and everything else stays.

    Raises NotFoundError if the query never had an image, and GoneError if that or the
    query was erased before.
    """
    query, detector = _lock(session, query_id)
    if query.image_erased_at is not None:
        raise was_erased("image of the query", query, query.image_erased_at)
    if query.image is None and query.image_url is None:
        raise NotFoundError("the query has no image")
    name = query.image
    storage.erase_image(session, query, erased_at=by.at)
    by.record(session, "image erased", query_id, detector=detector.name)
    return _find_unshown(session, name)


def is_image_erased(session: Session, detector: Detector, key: str) -> bool:
    """Return whether the query with that key, or its image alone, was erased."""
    query = find_query_by_key(session, detector.id, key)
    return query is not None and bool(query.erased_at or query.image_erased_at)


def _lock(session: Session, query_id: str) -> tuple[Query, Detector]:
    query = get_query(session, query_id)
    detector = session.get_one(Detector, query.detector_id)
    query = lock_query(session, detector.id, query.id) or query
    check_is_there(query)
    return query, detector


def _find_unshown(session: Session, name: str | None) -> str | None:
    """Return the image of what was erased, None if there is none or others show it."""
    return None if name is None or storage.has_image(session, name) else name
