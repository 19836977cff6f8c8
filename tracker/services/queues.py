"""Which queue of queries somebody labels from: drawn by chance, or picked."""

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import InvalidInputError
from tracker.services.detectors import check_class, choose_versions
from tracker.services.fields import Input, LabelText, Probability, VersionName, refuse
from tracker.storage.detectors import Detector
from tracker.storage.queues import Queue, RandomQueue, TargetedQueue

QUEUES = ("random", "targeted")
ORDERS = ("confidence", "newest")


class QueueChoice(Input):
    """Which queue, and of the targeted one which queries and in which order."""

    queue: str = Field(default="random", description="random or targeted.")
    order: str | None = Field(
        default=None,
        description="Of the targeted queue: confidence, the lowest first, or newest.",
    )
    predicted: LabelText | None = None
    version: VersionName | None = None
    min_confidence: Probability | None = None
    max_confidence: Probability | None = None


def build_queue(
    session: Session, detector: Detector, choice: QueueChoice, *, labeler: str
) -> Queue:
    """Return the queue that *choice* describes, for *labeler*.

    Raises InvalidInputError for what there is not, and for a filter of the random
    queue, which would no longer be random.
    """
    if choice.queue == "random":
        filters = choice.model_dump(exclude={"queue"}, exclude_none=True)
        for name in filters:
            raise InvalidInputError.of(
                name, "is for queue=targeted only: what is picked is not random"
            )
        is_shared = detector.labels_wanted > 1
        return RandomQueue(
            detector.id, detector.audit_rate, labeler if is_shared else None
        )
    if choice.queue != "targeted":
        refuse("queue", choice.queue, f"it must be one of {', '.join(QUEUES)}")
    if choice.order not in {None, *ORDERS}:
        refuse("order", choice.order, f"it must be one of {', '.join(ORDERS)}")
    if choice.predicted is not None:
        check_class(detector, choice.predicted, field="predicted", may_be_unclear=False)
    low, high = choice.min_confidence, choice.max_confidence
    if low is not None and high is not None and low > high:
        refuse("max_confidence", high, "it must not be less than min_confidence")
    version_id = None
    if choice.version is not None:
        version_id = choose_versions(session, detector, choice.version)[0].id
    return TargetedQueue(
        detector.id,
        choice.order or ORDERS[0],
        predicted=choice.predicted,
        version_id=version_id,
        min_confidence=low,
        max_confidence=high,
    )
