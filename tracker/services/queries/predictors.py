"""The user's own model, asked by HTTP about queries that wait for a prediction.

It gets the image as the body of a POST, and answers with the JSON that
``PATCH /queries/{id}`` takes.  Images go to hosts that the operator named, and to no
others, whether these are public or not.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError, NotFoundError
from tracker.services import tasks
from tracker.services.by import Actor, By
from tracker.services.fields import parse_input
from tracker.services.http_client import check_predictor, post
from tracker.services.images import MEDIA_TYPES
from tracker.services.queries.waiting import QueryCompletion, complete_query
from tracker.services.strict_json import load_json
from tracker.services.wording import show
from tracker.storage.base import dump_id
from tracker.storage.detectors import find_detector
from tracker.storage.queries import waiting as storage
from tracker.storage.tasks import Task, finish, hold

_MOST_ANSWER = 64 * 2**10
_LONGEST_PROBLEM = 500


@dataclass(frozen=True, slots=True)
class Question:
    """A query that its predictor is to be asked about."""

    query_id: int
    detector_id: int
    predictor: str
    image: str


@dataclass(frozen=True, slots=True)
class Reply:
    """What the predictor said, or why it said nothing that can be used."""

    completion: QueryCompletion | None
    problem: str = ""


def find_question(session: Session, task: Task) -> Question | None:
    """Return what a task is to ask; None if there is nothing to ask any more."""
    waiting = storage.find_waiting(session, int(task.key))
    if waiting is None or waiting.image is None:
        return None
    detector = find_detector(session, waiting.detector_id)
    assert detector is not None
    # Without one, which was taken away just now, it is no address to ask at.
    return Question(waiting.id, detector.id, detector.predictor or "", waiting.image)


def ask(
    question: Question,
    image: bytes,
    *,
    allowed_hosts: Collection[str],
    seconds: float,
) -> Reply:
    """Send the *image* to the predictor, and return its reply."""
    try:
        # The operator may have taken the host away since it was set.
        check_predictor(question.predictor, allowed_hosts)
    except InvalidInputError as error:
        return Reply(None, str(error))
    answer = post(
        question.predictor,
        image,
        {
            "Content-Type": MEDIA_TYPES[question.image.rpartition(".")[2]],
            "Accept": "application/json",
            "X-Tracker-Query": dump_id("iq", question.query_id),
            "X-Tracker-Detector": dump_id("det", question.detector_id),
        },
        allowed_hosts=allowed_hosts,
        seconds=seconds,
        most_answer=_MOST_ANSWER,
    )
    if not answer.is_success:
        return Reply(None, answer.error or f"it answered {answer.status}")
    try:
        said = load_json(answer.body)
        if not isinstance(said, dict):
            raise ValueError("it must be a JSON object")
        return Reply(parse_input(QueryCompletion, said))
    except (ValueError, InvalidInputError) as error:
        text = answer.body.decode(errors="replace")
        return Reply(None, f"it answered {show(text)}: {error}")


def settle(
    session: Session, task: Task, question: Question, reply: Reply, at: datetime
) -> str:
    """Store the prediction of a query, or note the problem and return it.

    Raises LostTaskError.
    """
    # Others who complete or delete a query lock it before its task, too.
    waiting = storage.lock_waiting(session, question.query_id)
    row = hold(session, task)
    problem = reply.problem
    if reply.completion is not None:
        by = By(Actor("predictor", None, "nobody"), at)
        query_id = dump_id("iq", question.query_id)
        try:
            # Somebody else may have given the prediction, or taken the query away.
            with suppress(ConflictError, NotFoundError):
                complete_query(session, query_id, reply.completion, by)
        except InvalidInputError as error:
            problem = str(error)
    if not problem:
        finish(session, row)
        return ""
    text = tasks.dump_error(problem)[:_LONGEST_PROBLEM]
    if waiting is not None:
        waiting.problem = text
    tasks.retry(session, row, text, at=at)
    return problem
