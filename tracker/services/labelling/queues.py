"""The queues of queries: which one, and the next query of it, reserved for a person."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Annotated, Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services import fields
from tracker.services.by import By
from tracker.services.evidence.populations import RANDOM_ENOUGH
from tracker.services.labelling.auditing.audit_draws import draw_ahead
from tracker.services.labelling.auditing.audits import get_audit
from tracker.services.labelling.golds import choose_gold
from tracker.services.queries.queries import load_metadata
from tracker.services.queries.where import parse_where
from tracker.services.versions import choose_two_versions, choose_versions
from tracker.services.wording import check_one_of, invalid, missing
from tracker.shapes import Shape
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.dialect import lock
from tracker.storage.labelling import audits, queues, rechecks
from tracker.storage.labelling import reservations as storage
from tracker.storage.queries.queries import Query
from tracker.words import EDITOR, RANDOM, TARGETED, SamplingWord, one_of

DISAGREEMENTS = "disagreements"
RECHECK = "recheck"
QUEUES = (RANDOM, TARGETED, DISAGREEMENTS, RECHECK)
ORDERS = ("confidence", "newest")


class QueueChoice(fields.Input):
    """Which queue, and of the targeted one which queries and in which order."""

    queue: Annotated[str, one_of(QUEUES)] | None = Field(
        default=None,
        description="random: drawn by chance (the default); targeted: picked (the "
        "default where something is picked); disagreements: drawn by chance from what "
        "two versions answer differently; recheck: to be labelled again.",
    )
    order: Annotated[str, one_of(ORDERS)] | None = Field(
        default=None,
        description="Targeted queue: confidence (the default), the lowest first, or "
        "newest.",
    )
    version: fields.VersionWanted | None = Field(
        default=None,
        description="Only queries of this version; * for all. By default the targeted "
        "queue gives all versions, the random queue the one that is shown.",
    )
    where: list[str] | None = Field(
        default=None,
        description="Targeted queue: only queries that meet this condition, as in a "
        "list of queries; if repeated, all must hold.",
    )
    old: fields.VersionName | None = Field(
        default=None,
        description="Disagreements queue: the old version; by default the one that "
        "arrived before new.",
    )
    new: fields.VersionName | None = Field(
        default=None,
        description="Disagreements queue: the new version; by default the one that "
        "queries last arrived with.",
    )


_PICKING = ("order", "where")
# What only some of the queues take.
_ONLY_FOR = {
    "version": (RANDOM, TARGETED, RECHECK),
    **dict.fromkeys(("old", "new"), (DISAGREEMENTS,)),
    **dict.fromkeys(_PICKING, (TARGETED,)),
}


def build_queue(
    session: Session, detector: Detector, choice: QueueChoice, by: By
) -> queues.Queue:
    """Return the queue that *choice* describes, for the one who asks.

    Raises InvalidInputError for what there is not, and for a filter of a queue that
    goes by chance; ConflictError where there are not two versions to disagree.
    """
    fields_of_queue = {*QueueChoice.model_fields} - {"queue"}
    given = choice.model_dump(include=fields_of_queue, exclude_none=True)
    queue = choice.queue
    if queue is None:
        queue = RANDOM if given.keys().isdisjoint(_PICKING) else TARGETED
    check_one_of("queue", queue, QUEUES)
    for name in given:
        if queue not in _ONLY_FOR[name]:
            why = ": what is picked is not random" if name in _PICKING else ""
            raise InvalidInputError.of(
                name, f"is for queue={' or '.join(_ONLY_FOR[name])} only{why}"
            )
    if queue == RANDOM:
        is_shared = detector.labels_wanted > 1
        return queues.RandomQueue(
            detector.id,
            detector.queue_rate,
            by.actor.name if is_shared else None,
            _choose_version(session, detector, choice.version),
            skips_unstated=detector.label_sampling in RANDOM_ENOUGH,
        )
    if queue == RECHECK:
        if choice.version == "*":
            message = "each version's labels are drawn by themselves"
            raise invalid("version", "*", message)
        # Before the first query there is no version, and nothing waits.
        version_id = _choose_version(session, detector, choice.version) or 0
        is_trusted = by.may(EDITOR) and by.credited is None
        return queues.RecheckQueue(detector.id, version_id, by.person, is_trusted)
    if queue == DISAGREEMENTS:
        old, new = choose_two_versions(
            session, detector, old=choice.old, new=choice.new
        )
        return queues.DisagreementQueue(detector.id, old.id, new.id)
    return _build_targeted(session, detector, choice, by)


def _build_targeted(
    session: Session, detector: Detector, choice: QueueChoice, by: By
) -> queues.TargetedQueue:
    if choice.order is not None:
        check_one_of("order", choice.order, ORDERS)
    where = choice.where or []
    conditions = parse_where(session, detector, where, at=by.at)
    return queues.TargetedQueue(
        detector.id,
        choice.order or ORDERS[0],
        version_id=_choose_version(session, detector, choice.version or "*"),
        where=tuple(where),
        tests=tuple(one.test(session) for one in conditions),
    )


def build_audit_queue(
    session: Session, detector: Detector, reference: str, by: By
) -> queues.AuditQueue:
    audit = get_audit(session, reference)
    if audit.detector_id != detector.id:
        raise missing("audit", reference)
    return queues.AuditQueue(detector.id, audit.id, by.name)


def _choose_version(
    session: Session, detector: Detector, name: str | None
) -> int | None:
    # None for all.  Chance has decided which queries of a version are drawn, and when.
    versions = choose_versions(session, detector, name)
    return versions[0].id if versions and name != "*" else None


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
    asked_at: fields.Instant
    metadata: dict[str, Any] | None
    image_url: str | None
    image: fields.Address | None = Field(description="The address of the stored image.")
    sampling: SamplingWord = Field(
        description="How the query was chosen; send it with the label."
    )
    recheck: bool = Field(
        description="Whether this is a re-check, where a label is given a second "
        "time: send the answer to /queries/{id}/recheck."
    )
    reserved_until: fields.Instant = Field(
        description="Until this instant nobody else is offered the query."
    )


def describe_next(  # noqa: PLR0913 - the query, and how it was come by.
    detector: Detector,
    query: Query,
    sampling: str,
    until: datetime,
    *,
    image: str | None,
    recheck: bool = False,
) -> NextQuery:
    """Return a query that is reserved *until* then as its labeler gets it."""
    return NextQuery.from_row(
        query,
        id=dump_id("iq", query.id),
        detector=dump_id("det", detector.id),
        question=detector.question,
        classes=detector.classes,
        metadata=load_metadata(query),
        image=image,
        sampling=sampling,
        recheck=recheck,
        reserved_until=until,
    )


def reserve(
    session: Session, queue: queues.Queue, by: By, *, ahead: int = 0
) -> list[Query]:
    """Return the query that ``by.name`` is to label next, and up to *ahead* more.

    They are nobody else's for RESERVED_FOR, and come again until they are labelled
    or skipped.  What another queue gave does not come from this one, so that a label is
    marked by how its query was found.
    """
    labeler, reserved_at = by.name, by.at
    # Two requests at once would be given two queries, and the one that is shown last
    # would not be the one that comes again.
    lock(session, f"labeler {queue.detector_id} {labeler}")
    storage.delete_expired(session, queue.detector_id, at=reserved_at)
    if queue.sampling == TARGETED:
        storage.release_others(session, queue, labeler)
    if isinstance(queue, queues.AuditQueue):
        aside = storage.list_skipped(session, queue, labeler)
        key = queue.detector_id, queue.audit_id
        if not draw_ahead(session, key, by, count=ahead + 1, aside=aside):
            return []
    until = reserved_at + RESERVED_FOR
    own = storage.list_reserved(session, queue, labeler, at=reserved_at)
    storage.renew(session, own, until=until)
    while len(own) <= ahead:
        query = storage.find_free_query(session, queue, labeler, at=reserved_at)
        if query is None and not own:
            query = storage.find_skipped_query(session, queue, labeler, at=reserved_at)
        if query is None:
            break
        if isinstance(queue, queues.RandomQueue):
            query = choose_gold(session, queue, own, query, by) or query
        # Another labeler may have been faster since it was found free.
        if storage.reserve_query(
            session, queue, query.id, labeler, at=reserved_at, until=until
        ):
            own.append(query)
            if isinstance(queue, queues.DisagreementQueue):
                storage.add_draw(session, queue, query.id, drawn_at=reserved_at)
    return own[: ahead + 1]


def skip(session: Session, query: Query, by: By) -> None:
    """Set *query* aside: ``by.name`` gets it again only when nothing else is left."""
    is_open = query.label is None or query.queue_rank is not None
    if is_open or rechecks.is_waiting(session, query):
        storage.set_aside(session, query, by.name, skipped_at=by.at)
        # Others may be given at once what an audit has drawn.
        audits.release_draws(session, query, by.name, at=by.at)


def count_waiting(
    session: Session, queue: queues.Queue, *, at_most: int = MOST_COUNTED
) -> int:
    return storage.count_waiting(session, queue, limit=at_most)


def count_for_others(session: Session, queue: queues.Queue) -> int:
    """Count what waits for others alone, where *queue* has nothing for its labeler."""
    if (
        not isinstance(queue, queues.RandomQueue | queues.RecheckQueue)
        or queue.labeler is None
    ):
        return 0
    return count_waiting(session, replace(queue, labeler=None))
