"""Labelling queries, one at a time."""

from datetime import datetime

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.detectors import check_class
from tracker.services.fields import Input, Instant, LabelText, Note, Sampling
from tracker.services.queries import label_row
from tracker.storage import labels as storage
from tracker.storage.detectors import Detector
from tracker.storage.labels import Label
from tracker.storage.pending import add_batch, first_id
from tracker.storage.queries import Query, lock_query, set_current_labels
from tracker.storage.reservations import delete_of_query


class NewLabel(Input):
    """A label to be given to a query."""

    label: LabelText = Field(description="A class of the detector, or UNCLEAR.")
    sampling: Sampling | None = Field(
        default=None,
        description="Why the query was chosen; as the query says unless given.",
    )
    note: Note | None = Field(default=None, description="Why, in the labeler's words.")
    labelled_at: Instant | None = Field(default=None, description="Now unless given.")


def add_label(  # noqa: PLR0913 - what is given, to which, by whom and when.
    session: Session,
    detector: Detector,
    query: Query,
    new: NewLabel,
    *,
    labeler: str,
    created_at: datetime,
) -> Label:
    """Give *query* a label, which becomes the current one.

    The one before stays in the query's label history, and so does everything
    computed from it.
    """
    check_class(detector, new.label, field="label", may_be_unclear=True)
    # The lock goes first: of two people who label at once, the second waits here
    # and then replaces what the first one gave.
    current = lock_query(session, query.id)
    batch = add_batch(session, detector.id, created_at=created_at)
    sampling = new.sampling or current.sampling
    row = label_row(
        first_id(batch),
        current.id,
        new.label,
        sampling,
        labeler,
        created_at,
        replaces_id=current.label_id,
        note=new.note,
        labelled_at=new.labelled_at,
    )
    storage.add_labels(session, [row])
    set_current_labels(
        session,
        [
            {
                "query_id": current.id,
                "label_id": row["id"],
                "label": new.label,
                "sampling": sampling,
            }
        ],
    )
    delete_of_query(session, current.id)
    return Label(**row)


def list_label_history(session: Session, query: Query) -> list[Label]:
    """Return every label ever given to *query*, the current one first.

    Each names the one it replaced; ids alone would not do, because a long import
    draws its ids when it begins and replaces what came in meanwhile.
    """
    labels = {label.id: label for label in storage.list_labels(session, query.id)}
    history: list[Label] = []
    label_id = query.label_id
    while label_id is not None:
        history.append(labels[label_id])
        label_id = labels[label_id].replaces_id
    return history
