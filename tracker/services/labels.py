"""Labelling queries, one at a time."""

from dataclasses import dataclass
from datetime import datetime

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.agreement import (
    SettledError,
    choose_sampling,
    is_closed,
    weigh,
)
from tracker.services.detectors import check_class
from tracker.services.fields import Input, Instant, LabelText, Note, Sampling, missing
from tracker.services.queries import label_row
from tracker.storage import labels as storage
from tracker.storage.base import dump_id
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
    settles: bool = Field(
        default=False,
        description="Whether it decides between labelers who disagree; editors only.",
    )


def add_label(  # noqa: PLR0913 - what is given, to which, by whom and when.
    session: Session,
    detector: Detector,
    query: Query,
    new: NewLabel,
    *,
    labeler: str,
    created_at: datetime,
    is_editor: bool = False,
) -> Label:
    """Give *query* a label, which becomes the current one.

    The one before stays in the query's label history, and so does everything
    computed from it.  Raises SettledError for what an editor has settled, unless
    *is_editor* says that the labeler is one too.
    """
    check_class(detector, new.label, field="label", may_be_unclear=True)
    # The lock goes first: of two people who label at once, the second waits here
    # and then replaces what the first one gave.
    current = lock_query(session, detector.id, query.id)
    if current is None:
        raise missing("query", dump_id("iq", query.id))
    if is_closed(current, is_editor=is_editor):
        raise SettledError
    batch = add_batch(session, detector.id, created_at=created_at)
    sampling = new.sampling or choose_sampling(session, current, settles=new.settles)
    row = label_row(
        first_id(batch),
        current.id,
        detector.id,
        new.label,
        sampling,
        labeler,
        created_at,
        replaces_id=current.label_id,
        note=new.note,
        labelled_at=new.labelled_at,
    )
    storage.add_labels(session, [row])
    standing = weigh(session, detector, current, settles=new.settles)
    set_current_labels(
        session,
        detector.id,
        [
            {
                "query_id": current.id,
                "label_id": row["id"],
                "label": new.label,
                "sampling": sampling,
                "is_open": standing.is_open,
                "agreement": standing.agreement,
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
    labels = {label.id: label for label in storage.list_labels(session, query)}
    history: list[Label] = []
    label_id = query.label_id
    while label_id is not None:
        history.append(labels[label_id])
        label_id = labels[label_id].replaces_id
    return history


@dataclass(frozen=True, slots=True)
class Today:
    """How many labels a detector was given since midnight, in UTC.

    So many at least, unless all labels of the day were looked at.
    """

    by_labeler: int
    by_all: int
    is_all: bool = True


def count_today(
    session: Session, detector: Detector, *, labeler: str, at: datetime
) -> Today:
    """Count the labels of the day of *at*, those of *labeler* and those of all."""
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    counts = storage.count_since(session, detector.id, labeler, since=midnight)
    return Today(*counts)
