"""Labelling queries, one at a time."""

from collections.abc import Mapping
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any, NamedTuple

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ForbiddenError
from tracker.services.by import By
from tracker.services.detectors import check_class, check_is_open
from tracker.services.evidence import standing
from tracker.services.evidence.truths import Truth, Truths
from tracker.services.fields import (
    Input,
    Instant,
    KeyName,
    LabelText,
    Note,
    Sampling,
    StoredInstant,
)
from tracker.services.labelling import golds
from tracker.services.queries.queries import check_is_there, label_row, no_query
from tracker.services.wording import missing
from tracker.shapes import Shape
from tracker.storage import labels as storage
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.estimates.pending import add_batch, first_id
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling.audits import is_awaited
from tracker.storage.labelling.current import (
    FIND,
    LOCK_ALONE,
    Labelled,
    find_labelled,
    lock_labelled,
    set_current_labels,
)
from tracker.storage.labelling.golds import count_answers
from tracker.storage.labelling.labelers import count_assigned_label
from tracker.storage.labelling.rechecks import find_recheck
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.queries.queries import (
    LabelledQuery,
    Query,
    delete_about,
    find_owner,
)
from tracker.words import EDITOR, RANDOM, TARGETED, SamplingWord


class NewLabel(Input):
    """A new label for a query."""

    label: LabelText = Field(description="A class of the detector, or UNCLEAR.")
    sampling: Sampling | None = Field(
        default=None,
        description="Why the query was chosen; by default the query's own value.",
    )
    note: Note | None = Field(default=None, description="A note by the labeler.")
    labeler: KeyName | None = Field(
        default=None, description="The labeler, if not the caller; editors only."
    )
    labelled_at: Instant | None = Field(
        default=None, description="The instant; by default now."
    )
    settles: bool = Field(
        default=False,
        description="Whether this label settles a disagreement; editors only.",
    )


class Label(Shape):
    """The ground truth that somebody gave to a query."""

    id: str = Field(description="lab_ and a number.")
    query: str = Field(description="The id of the query.")
    label: str = Field(description="A class of the detector, or UNCLEAR.")
    sampling: SamplingWord
    note: str | None
    labeler: str
    labelled_at: StoredInstant
    created_at: StoredInstant
    is_current: bool = Field(description="False once another label has replaced it.")
    source: str | None = Field(
        description="The id of the label of another query with the same input that it "
        "was taken over from."
    )


def describe_label(label: Any, *, is_current: bool) -> Label:
    """Return a label as it is answered."""
    return Label.from_row(
        label,
        id=dump_id("lab", label.id),
        query=dump_id("iq", label.query_id),
        is_current=is_current,
        source=label.source_label_id and dump_id("lab", label.source_label_id),
    )


def add_label(session: Session, query_id: int, new: NewLabel, by: By) -> Label:
    """Give the query of that number a label, which becomes the current one.

    Every query with the same input is given the label too.  What answers a gold query
    is no label of it, and only looks like one.  Raises ForbiddenError for a label that
    settles, and SettledError for a query that is settled, where the labeler is no
    editor; ConflictError if the detector is archived.
    """
    if new.settles and not by.may(EDITOR):
        raise ForbiddenError("settling needs the role editor; leave out settles")
    if new.labeler is not None and not by.may(EDITOR):
        raise ForbiddenError("naming the labeler needs the role editor")
    by = by.credit(new.labeler)
    labelled, truths = _lock(session, query_id, by)
    current, detector = labelled.query, labelled.detector
    check_class(detector, new.label, field="label", may_be_unclear=True)
    if standing.is_closed(current, by.actor):
        raise standing.SettledError
    said = RANDOM if labelled.is_drawn else new.sampling
    # An audit that asks for a gold query gets its label, which ends the gold query.
    if current.is_gold and not is_awaited(session, current):
        said = said or golds.last_sampling(session, current, by.name)
        row = _build_row(session, current, new, by, said or current.sampling)
        golds.add_answer(session, current, row, by)
        return describe_label(SimpleNamespace(**row), is_current=True)
    known = current._asdict()
    compares = standing.are_compared(detector, current.agreement)
    sampling = standing.choose_label_sampling(known, said, are_compared=compares)
    row = _build_row(session, current, new, by, sampling)
    others = _find_words(session, current, row) if compares else {"words": {}}
    others |= {"units": None if truths is None else truths.units}
    decision = standing.decide_standing(
        known, detector, new.label, said=said, settles=new.settles, **others
    )
    is_said = decision.label == new.label
    row |= {"standing": decision.standing, "truth": None if is_said else decision.label}
    insert_rows(session, storage.Label, [row])
    if labelled.is_assigned:
        count_assigned_label(session, row)
    counts = standing.dump_decision(decision, detector)
    current_label = {"query_id": current.id, "label_id": row["id"]} | counts
    set_current_labels(session, detector.id, [current_label])
    if labelled.is_held:
        delete_about(session, current, Reservation, Skip)
    # One that is alone has no input and no group.
    if truths is not None:
        truths.units.write()
    if truths is not None and current.input is not None:
        truths.pass_on(
            {current.input: Truth(row, decision)},
            # The queries of an input have their labels together.
            first_of=[current.input] if current.label_id is None else [],
            says_more=True,
        )
    return describe_label(SimpleNamespace(**row), is_current=True)


def _find_words(
    session: Session, query: LabelledQuery, new: Mapping[str, Any]
) -> dict[str, Any]:
    words = {} if new["sampling"] == TARGETED else {new["labeler"]: new["label"]}
    for label in storage.list_labels(session, query):
        if label.sampling != TARGETED:
            words.setdefault(label.labeler, label.label)
    second = find_recheck(session, query)
    return {"words": words, "second": None if second is None else second.answer}


def _build_row(
    session: Session, query: LabelledQuery, new: NewLabel, by: By, sampling: str
) -> dict[str, Any]:
    batch = add_batch(session, query.detector_id, created_at=by.at)
    return label_row(
        first_id(batch),
        query.id,
        query.detector_id,
        new.label,
        sampling,
        by,
        replaces_id=query.label_id,
        note=new.note,
        labelled_at=new.labelled_at,
        is_repeat=query.is_repeat,
    )


def _lock(session: Session, query_id: int, by: By) -> tuple[Labelled, Truths | None]:
    # Nor can anybody label another one with its input, or of its group, meanwhile.
    # The lock goes first: of two people who label at once, the second waits here
    # and then replaces what the first one gave.
    owner = find_owner(session, query_id)
    if owner is None:
        raise no_query(session, query_id)
    detector_id, is_alone = owner
    key = detector_id, query_id
    labelled = find_labelled(session, key, by.name, LOCK_ALONE) if is_alone else None
    found = labelled or find_labelled(session, key, by.name, FIND)
    if found is None:
        raise missing("query", dump_id("iq", query_id))
    truths = None
    if labelled is None:
        truths = Truths(session, found.detector, by)
        truths.lock([found.query.input], [found.query.group])
        labelled = lock_labelled(session, found, by.name)
        if labelled is None:
            raise missing("query", dump_id("iq", query_id))
        # It may have got another group meanwhile.
        truths.lock((), [labelled.query.group])
    check_is_there(labelled.query)
    check_is_open(labelled.detector)
    return labelled, truths


def list_label_history(
    session: Session, query: Query, name: str
) -> list[storage.Label]:
    """Return every label ever given to *query*, the current one first.

    Each names the one it replaced; ids alone would not do, because a long import
    draws its ids when it begins and replaces what came in meanwhile.
    """
    if query.is_gold:
        return golds.list_own_labels(session, query, name)
    labels = {label.id: label for label in storage.list_labels(session, query)}
    history: list[storage.Label] = []
    label_id = query.label_id
    while label_id is not None:
        history.append(labels[label_id])
        label_id = labels[label_id].replaces_id
    return history


class Today(NamedTuple):
    """How many labels a detector was given since midnight, in UTC.

    So many at least, unless all labels of the day were looked at.  *a_minute* is the
    labeler's pace over the last five minutes.
    """

    by_labeler: int
    by_all: int
    is_all: bool = True
    a_minute: int = 0


def count_today(
    session: Session, detector: Detector, *, labeler: str, at: datetime
) -> Today:
    """Count the labels of the day of *at*, those of *labeler* and those of all."""
    since = at.replace(hour=0, minute=0, second=0, microsecond=0)
    own, total, is_all, recent, first_at = storage.count_since(
        session, detector.id, labeler, since, at - timedelta(minutes=5)
    )
    # From the first of them, so that a pause before does not count.
    minutes = (at - (first_at or at)).total_seconds() / 60
    a_minute = round(recent / minutes) if minutes >= 1 else 0
    # Who watches the numbers is not to see which answers are no labels.
    own += count_answers(session, detector.id, labeler, since=since)
    total += count_answers(session, detector.id, None, since=since)
    # Nobody labels faster by hand: that was an import.
    return Today(own, total, is_all, a_minute if a_minute <= 200 else 0)
