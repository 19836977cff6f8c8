"""Erasing a query: what it held goes, what was counted of it stays."""

from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.by import By
from tracker.services.queries.queries import check_is_there, get_query
from tracker.storage.detectors import Detector
from tracker.storage.estimates.slices import count_slices_again
from tracker.storage.labelling.auditing.audits import is_awaited
from tracker.storage.labelling.golds import erase_answers
from tracker.storage.labelling.judgements import delete_judgements
from tracker.storage.labelling.labels import erase_notes
from tracker.storage.labelling.rechecks import erase_recheck
from tracker.storage.labelling.reservations import delete_of_query
from tracker.storage.queries.erasing import erase_content, has_image
from tracker.storage.queries.queries import lock_query


def erase_query(session: Session, query_id: str, by: By) -> str | None:
    """Take away what a query holds; return an image that nothing shows any more.

    Its content, image, metadata and input go, and the notes of its labels and what
    judges said of it.  Its prediction and its label stay, without which the counts and
    the history would no longer follow from what is stored.  Its key stays too, so that
    a file that is sent once more does not bring it back.

    Raises GoneError if it was erased before, and ConflictError while an audit waits
    for its label.
    """
    query = get_query(session, query_id)
    detector = session.get_one(Detector, query.detector_id)
    query = lock_query(session, detector.id, query.id) or query
    check_is_there(query)
    if query.label is None and is_awaited(session, query.id):
        raise ConflictError(
            "an audit that is open may ask for the label of this query; label it or "
            "close the audit first"
        )
    name = query.image
    erase_content(session, query, erased_at=by.at)
    erase_notes(session, query)
    erase_recheck(session, query)
    erase_answers(session, query)
    delete_judgements(session, query)
    delete_of_query(session, query.id)
    count_slices_again(session, detector, created_at=by.at)
    by.record(session, "query erased", query_id, detector=detector.name)
    return None if name is None or has_image(session, name) else name
