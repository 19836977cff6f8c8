"""The next query to label: drawn at random, and reserved for one labeler."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.by import By
from tracker.services.fields import Address, Instant
from tracker.services.labelling.auditing.audit_draws import draw_ahead
from tracker.services.labelling.golds import choose_gold
from tracker.services.queries.queries import load_metadata
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.dialect import lock
from tracker.storage.labelling import reservations as storage
from tracker.storage.labelling.auditing.audit_draws import release_draws
from tracker.storage.labelling.draws import add_draw
from tracker.storage.labelling.queues import (
    AuditQueue,
    DisagreementQueue,
    Queue,
    RandomQueue,
    RecheckQueue,
)
from tracker.storage.labelling.rechecks import is_waiting
from tracker.storage.queries.queries import Query, list_queries
from tracker.words import TARGETED, SamplingWord

RESERVED_FOR = timedelta(minutes=5)
# A page says how many wait; beyond so many the number helps nobody.
MOST_COUNTED = 1_000


class NextQuery(Shape):
    """A query to label, without its prediction."""

    id: str = Field(description="iq_ and a number.")
    detector: str = Field(description="The id of the detector.")
    question: str
    classes: list[str] = Field(description="The label is one of them, or UNCLEAR.")
    key: str | None = Field(description="The caller's own id.")
    input: str | None = Field(description="The input.")
    asked_at: Instant
    metadata: dict[str, Any] | None
    image_url: str | None
    image: Address | None = Field(description="The address of the stored image.")
    sampling: SamplingWord = Field(
        description="How the query was chosen; send it with the label."
    )
    recheck: bool = Field(
        description="Whether this is a re-check, where a label is given a second "
        "time: send the answer to /queries/{id}/recheck."
    )
    reserved_until: Instant = Field(
        description="Until this instant nobody else is offered the query."
    )


def describe_next(
    detector: Detector, query: Query, queue: Queue, by: By, *, image: str | None
) -> NextQuery:
    """Return a query that was reserved just now as its labeler gets it."""
    return NextQuery.from_row(
        query,
        id=dump_id("iq", query.id),
        detector=dump_id("det", detector.id),
        question=detector.question,
        classes=detector.classes,
        metadata=load_metadata(query),
        image=image,
        sampling=queue.sampling,
        recheck=isinstance(queue, RecheckQueue),
        reserved_until=by.at + RESERVED_FOR,
    )


def reserve(session: Session, queue: Queue, by: By, *, ahead: int = 0) -> list[Query]:
    """Return the query that ``by.name`` is to label next, and up to *ahead* more.

    They are nobody else's for RESERVED_FOR, and come again until they are labelled
    or skipped; nothing comes when nothing is left.  What another queue gave does not
    come from this one, so that a label is marked by how its query was found.

    Two labelers who want two queries of each other's wait for each other, and one
    of them is tried again as a whole.
    """
    labeler, reserved_at = by.name, by.at
    # Two requests at once would be given two queries, and the one that is shown last
    # would not be the one that comes again.
    lock(session, f"labeler {queue.detector_id} {labeler}")
    storage.delete_expired(session, at=reserved_at)
    if queue.sampling == TARGETED:
        storage.release_others(session, queue, labeler)
    if isinstance(queue, AuditQueue):
        aside = storage.list_skipped(session, queue, labeler)
        if not draw_ahead(session, queue.audit_id, by, count=ahead + 1, aside=aside):
            return []
    until = reserved_at + RESERVED_FOR
    own = storage.list_reserved(session, queue, labeler, at=reserved_at)
    storage.renew(session, [query.id for query in own], until=until)
    while len(own) <= ahead:
        query = storage.find_free_query(session, queue, labeler, at=reserved_at)
        if query is None and not own:
            query = storage.find_skipped_query(session, queue, labeler, at=reserved_at)
        if query is None:
            break
        if isinstance(queue, RandomQueue):
            query = choose_gold(session, queue, own, query, by) or query
        # Another labeler may have been faster since it was found free.
        if storage.reserve_query(
            session, queue, query.id, labeler, at=reserved_at, until=until
        ):
            own.append(query)
            if isinstance(queue, DisagreementQueue):
                add_draw(session, queue, query.id, drawn_at=reserved_at)
    return own[: ahead + 1]


def skip(session: Session, query: Query, by: By) -> None:
    """Set *query* aside: ``by.name`` gets it again only when nothing else is left."""
    is_open = query.label is None or query.queue_rank is not None
    if is_open or is_waiting(session, query.id):
        storage.set_aside(session, query, by.name, skipped_at=by.at)
        # Others may be given at once what an audit has drawn.
        release_draws(session, query.id, by.name, at=by.at)


def count_waiting(
    session: Session, queue: Queue, *, at_most: int = MOST_COUNTED
) -> int:
    """Count the queries of *queue*, reserved or not; *at_most* if more."""
    return storage.count_waiting(session, queue, limit=at_most)


def count_for_others(session: Session, queue: Queue) -> int:
    """Count what waits for others alone, where *queue* has nothing for its labeler."""
    if not isinstance(queue, RandomQueue | RecheckQueue) or queue.labeler is None:
        return 0
    return count_waiting(session, replace(queue, labeler=None))


def has_unlabelled(session: Session, detector: Detector) -> bool:
    """Return whether any query has no label, be it in the random queue or not."""
    return bool(list_queries(session, detector.id, labelled=False, limit=1))
