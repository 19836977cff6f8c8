"""Gold queries: their answer is known, and tells how often each person errs.

They are mixed into the random queue, unmarked.  People see only their own answers to
them, which change no truth and are never scored.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import zip_longest
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError
from tracker.services.by import By
from tracker.services.detectors import check_class, check_is_open
from tracker.services.evidence.random_queue import hash_to_unit
from tracker.services.fields import Input, Instant, LabelText
from tracker.services.labelling.rechecks import MAY_CHANGE
from tracker.services.queries.queries import get_query, lock_query
from tracker.services.wording import missing
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.labelling import golds as storage
from tracker.storage.labelling.audits import is_awaited
from tracker.storage.labelling.golds import GoldAnswer
from tracker.storage.labelling.labelers import count_assigned_label
from tracker.storage.labelling.queues import RandomQueue
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.labels import Label
from tracker.storage.queries.queries import (
    AnyQuery,
    LabelledQuery,
    Query,
    delete_about,
    find_query_of,
)

# What an answer to a gold query keeps of the label that it was given as.
_OF_ANSWER = (
    *("query_id", "detector_id", "labeler", "label"),
    *("sampling", "note", "labelled_at"),
)


class NewGold(Input):
    """The known answer of a query."""

    label: LabelText = Field(description="A class of the detector, or UNCLEAR.")


class Gold(Shape):
    """A query whose answer is known, and how people answered."""

    query: str = Field(description="The id of the query.")
    key: str | None = Field(description="The key of the query.")
    label: str = Field(description="The known answer.")
    marked_by: str
    marked_at: Instant
    active: bool = Field(
        description="Whether people are given it; false once it has a label or is no "
        "longer marked."
    )
    answers: int = Field(description="How many people have answered it.")
    wrong: int = Field(description="How many of them answered otherwise.")


def mark_gold(session: Session, query_id: str, new: NewGold, by: By) -> Gold:
    """Say what the answer of a query is known to be, or change what was said.

    Raises ConflictError for a query that anybody could look the answer up of, because
    it has a label, and for one that an open audit may ask for.
    """
    query, detector = lock_query(session, query_id)
    check_is_open(detector)
    check_class(detector, new.label, field="label", may_be_unclear=True)
    if not query.is_gold:
        if query.label is not None:
            raise ConflictError(
                "this query has a label, which people can look up; choose one without"
            )
        if query.is_repeat:
            raise ConflictError(
                "its version was put to the same input before; choose the first query "
                "with that input"
            )
        if is_awaited(session, query):
            raise ConflictError(
                "an audit that is open may ask for the label of this query; close the "
                "audit first or choose another query"
            )
        query.is_gold = True
        delete_about(session, query, Reservation, Skip)
    before = session.get(storage.Gold, (detector.id, query.id))
    label = {"old": before and before.label, "new": new.label}
    found = before or storage.Gold(query_id=query.id, detector_id=detector.id)
    found.label, found.marked_by, found.marked_at = new.label, by.name, by.at
    session.add(found)
    session.flush()
    by.record(session, "gold query set", query_id, detector=detector.name, label=label)
    return get_gold(session, query_id)


def unmark_gold(session: Session, query_id: str, by: By) -> None:
    """Put a query back where it was before it was gold; its answers still count."""
    query, detector = lock_query(session, query_id)
    check_is_open(detector)
    if not query.is_gold:
        raise missing("gold query", query_id)
    query.is_gold = False
    delete_about(session, query, Reservation, Skip)
    by.record(session, "gold query ended", query_id, detector=detector.name)


def get_gold(session: Session, query_id: str) -> Gold:
    query = get_query(session, query_id)
    found = session.get(storage.Gold, (query.detector_id, query.id))
    if found is None:
        raise missing("gold query", query_id)
    answers = list_counted(session, query.detector_id)
    return _describe(found, query.key, answers, is_gold=query.is_gold)


def list_golds(
    session: Session, detector: Detector, *, before: int | None, limit: int
) -> list[Gold]:
    answers = list_counted(session, detector.id)
    return [
        _describe(row.Gold, row.key, answers, is_gold=row.is_gold)
        for row in storage.list_golds(session, detector.id, before=before, limit=limit)
    ]


def _describe(
    found: storage.Gold, key: str | None, answers: Iterable[Any], *, is_gold: bool
) -> Gold:
    given = [one.label for one in answers if one.query_id == found.query_id]
    return Gold.from_row(
        found,
        query=dump_id("iq", found.query_id),
        key=key,
        active=is_gold,
        answers=len(given),
        wrong=sum(label != found.label for label in given),
    )


def list_counted(session: Session, detector_id: int) -> list[Any]:
    """Return the answers that count, one for each person and query, in order.

    It is the last one that came shortly after the first: a finger slips; but what is
    found out later about a query changes nothing.
    """
    first: dict[tuple[int, str], datetime] = {}
    found: dict[tuple[int, str], Any] = {}
    for row in storage.list_answers(session, detector_id):
        place = row.query_id, row.labeler
        if row.answered_at <= first.setdefault(place, row.answered_at) + MAY_CHANGE:
            found[place] = row
    return list(found.values())


def choose_gold(
    session: Session, queue: RandomQueue, own: Sequence[Query], instead: Query, by: By
) -> Query | None:
    """Return a gold query to give in the place of *instead*, None for most.

    Chance decides by a hash that nobody can foresee, and the same until one query more
    has been answered.  *own* are those that the person holds already.
    """
    detector = session.get_one(Detector, queue.detector_id)
    if not detector.gold_rate:
        return None
    names = {by.name, by.person, by.actor.name}
    used = storage.count_used(session, detector.id, names)
    used += sum(query.is_gold for query in own)
    seed = f"gold:{detector.queue_seed}"
    chance = hash_to_unit(seed, f"{by.person} {instead.id} {used}")
    if chance >= detector.gold_rate:
        return None
    found = storage.list_open(
        session, detector.id, version_id=queue.version_id, names=names, at=by.at
    )
    if not found:
        return None
    number = min(found, key=lambda one: hash_to_unit(seed, f"{by.person} {one}"))
    return find_query_of(session, detector.id, number)


def last_sampling(session: Session, query: AnyQuery, name: str) -> str | None:
    own = storage.list_answers_of(session, query, name) if query.is_gold else []
    return own[0].sampling if own else None


def add_answer(
    session: Session, query: LabelledQuery, row: Mapping[str, Any], by: By
) -> None:
    if last_sampling(session, query, row["labeler"]) is None:
        count_assigned_label(session, row)
    given = {name: row[name] for name in _OF_ANSWER}
    session.add(GoldAnswer(label_id=row["id"], answered_at=by.at, **given))
    session.flush()
    delete_about(session, query, Reservation)


def see_as(session: Session, query: Query, name: str) -> Query:
    """Return *query* as *name* sees it: a gold query with their answer as its label.

    Only for reading: what is returned is no longer the session's.
    """
    if query.is_gold and (own := storage.list_answers_of(session, query, name)):
        session.expunge(query)
        query.label, query.label_id = own[0].label, own[0].label_id
        query.sampling = own[0].sampling
    return query


def list_own_labels(session: Session, query: Query, name: str) -> list[Label]:
    """Return what *name* answered to a gold query as labels, the newest first."""
    own = storage.list_answers_of(session, query, name)
    return [
        Label(
            id=one.label_id,
            replaces_id=None if before is None else before.label_id,
            created_at=one.answered_at,
            source_label_id=None,
            is_repeat=False,
            **{name: getattr(one, name) for name in _OF_ANSWER},
        )
        for one, before in zip_longest(own, own[1:])
    ]
