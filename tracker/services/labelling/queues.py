"""Which queue of queries somebody labels from: drawn by chance, or picked."""

from typing import Annotated

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.by import By
from tracker.services.detectors import check_class
from tracker.services.evidence.populations import RANDOM_ENOUGH
from tracker.services.fields import (
    Input,
    Key,
    LabelText,
    Probability,
    VersionName,
    VersionWanted,
)
from tracker.services.labelling.auditing.audits import get_audit
from tracker.services.queries.where import parse_where
from tracker.services.versions import choose_two_versions, choose_versions
from tracker.services.wording import invalid, missing
from tracker.storage.detectors import Detector
from tracker.storage.labelling.queues import (
    AuditQueue,
    DisagreementQueue,
    Queue,
    RandomQueue,
    RecheckQueue,
    TargetedQueue,
)
from tracker.words import RANDOM, TARGETED, one_of

DISAGREEMENTS = "disagreements"
RECHECK = "recheck"
QUEUES = (RANDOM, TARGETED, DISAGREEMENTS, RECHECK)
ORDERS = ("confidence", "newest")


class QueueChoice(Input):
    """Which queue, and of the targeted one which queries and in which order."""

    queue: str | None = Field(
        default=None,
        description="random, targeted, disagreements or recheck; unless given, "
        "targeted where something is picked, else random.",
    )
    order: Annotated[str, one_of(ORDERS)] | None = Field(
        default=None,
        description="Of the targeted queue: confidence, the lowest first, or newest.",
    )
    audit: Key | None = Field(
        default=None, description="The audit whose draws are wanted, and no queue."
    )
    predicted: LabelText | None = None
    version: VersionWanted | None = Field(
        default=None,
        description="* for all; of the random queue, and of recheck, the shown one "
        "unless given.",
    )
    min_confidence: Probability | None = None
    max_confidence: Probability | None = None
    where: list[str] | None = Field(
        default=None, description="Of the targeted queue: conditions on its queries."
    )
    old: VersionName | None = Field(
        default=None, description="Of disagreements: the version that came before."
    )
    new: VersionName | None = Field(
        default=None, description="Of disagreements: the version to judge."
    )


_PICKING = ("order", "predicted", "min_confidence", "max_confidence", "where")
# What only some of the queues take.
_ONLY_FOR = {
    "version": (RANDOM, TARGETED, RECHECK),
    **dict.fromkeys(("old", "new"), (DISAGREEMENTS,)),
    **dict.fromkeys(_PICKING, (TARGETED,)),
}


def build_queue(
    session: Session, detector: Detector, choice: QueueChoice, by: By
) -> Queue:
    """Return the queue that *choice* describes, for the one who asks.

    Raises InvalidInputError for what there is not, and for a filter of a queue that
    goes by chance, which would no longer be random.  ConflictError where there are
    not two versions to disagree.
    """
    if choice.audit is not None:
        return _build_audit_queue(session, detector, choice.audit, by)
    given = choice.model_dump(exclude={"queue"}, exclude_none=True)
    queue = choice.queue
    if queue is None:
        queue = RANDOM if given.keys().isdisjoint(_PICKING) else TARGETED
    if queue not in QUEUES:
        raise invalid("queue", queue, f"it must be one of {', '.join(QUEUES)}")
    for name in given:
        if queue not in _ONLY_FOR[name]:
            why = ": what is picked is not random" if name in _PICKING else ""
            raise InvalidInputError.of(
                name, f"is for queue={' or '.join(_ONLY_FOR[name])} only{why}"
            )
    if queue == RANDOM:
        is_shared = detector.labels_wanted > 1
        return RandomQueue(
            detector.id,
            detector.queue_rate,
            by.actor.name if is_shared else None,
            _choose_version(session, detector, choice.version),
            skips_unstated=detector.label_sampling in RANDOM_ENOUGH,
        )
    if queue == RECHECK:
        return _build_rechecks(session, detector, choice.version, by)
    if queue == DISAGREEMENTS:
        old, new = choose_two_versions(
            session, detector, old=choice.old, new=choice.new
        )
        return DisagreementQueue(detector.id, old.id, new.id)
    return _build_targeted(session, detector, choice, by)


def _build_targeted(
    session: Session, detector: Detector, choice: QueueChoice, by: By
) -> TargetedQueue:
    if choice.order not in {None, *ORDERS}:
        raise invalid("order", choice.order, f"it must be one of {', '.join(ORDERS)}")
    if choice.predicted is not None:
        check_class(detector, choice.predicted, field="predicted", may_be_unclear=False)
    low, high = choice.min_confidence, choice.max_confidence
    if low is not None and high is not None and low > high:
        raise invalid("max_confidence", high, "it must not be less than min_confidence")
    where = choice.where or []
    conditions = parse_where(session, detector, where, at=by.at)
    return TargetedQueue(
        detector.id,
        choice.order or ORDERS[0],
        predicted=choice.predicted,
        version_id=_choose_version(session, detector, choice.version or "*"),
        min_confidence=low,
        max_confidence=high,
        where=tuple(where),
        tests=tuple(one.test(session) for one in conditions),
    )


def _build_rechecks(
    session: Session, detector: Detector, name: str | None, by: By
) -> RecheckQueue:
    if name == "*":
        raise invalid("version", name, "each version's labels are drawn by themselves")
    # Before the first query there is no version, and nothing waits.
    version_id = _choose_version(session, detector, name) or 0
    return RecheckQueue(detector.id, version_id, by.person)


def _build_audit_queue(
    session: Session, detector: Detector, reference: str, by: By
) -> AuditQueue:
    audit = get_audit(session, reference)
    if audit.detector_id != detector.id:
        raise missing("audit", reference)
    return AuditQueue(detector.id, audit.id, by.name)


def _choose_version(
    session: Session, detector: Detector, name: str | None
) -> int | None:
    """Return the version that is labelled, None for all; which is chance all the same.

    Which queries of a version are drawn, and in which order, chance has decided.
    """
    versions = choose_versions(session, detector, name)
    return versions[0].id if versions and name != "*" else None
