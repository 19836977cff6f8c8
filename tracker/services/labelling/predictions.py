"""Queries that wait for a prediction, and the user's own model that gives it.

Nothing that is computed knows of them.  Labels that they are given meanwhile are
kept, and become labels of the query with its prediction.

A predictor gets the image as the body of a POST, and answers with the JSON that
``PATCH /queries/{id}`` takes.  Images go to hosts that the operator named, and to no
others, whether these are public or not.
"""

from collections.abc import Collection
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError, NotFoundError
from tracker.services import fields, tasks
from tracker.services.by import Actor, By
from tracker.services.detectors import check_class, check_prediction, get_open_detector
from tracker.services.evidence.truths import join_input, other_input
from tracker.services.http_client import check_predictor, post
from tracker.services.images import MEDIA_TYPES
from tracker.services.labelling.golds import see_as
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.queries import queries
from tracker.services.wording import dump_instant, missing, show
from tracker.storage.base import dump_id, find_row, lock_row, parse_id
from tracker.storage.detectors import Detector, find_detector, name_version
from tracker.storage.estimates.pending import (
    BATCH_LIMIT,
    draw_batch,
    first_id,
    make_pending,
)
from tracker.storage.queries import waiting as storage
from tracker.storage.queries.queries import Query, find_query, find_query_by_key
from tracker.storage.queries.waiting import WaitingQuery
from tracker.storage.tasks import PREDICTION, Task, enqueue, finish, hold, withdraw


class QueryCompletion(fields.Input):
    """What a query does not have yet: its prediction, or its input."""

    predicted: fields.LabelText | None = Field(
        default=None,
        description="The class that the detector said, if the query waits for it.",
    )
    confidence: fields.Probability | None = Field(
        default=None,
        description="The detector's confidence in this prediction, 0 to 1.",
    )
    version: fields.VersionName | None = Field(
        default=None,
        description="The version of the detector that answered; by default that of "
        "the query.",
    )
    input: fields.Key | None = Field(
        default=None,
        description="What was put in, if the query has no input yet; it then shares "
        "the label of the input.",
    )


def log_any(
    session: Session,
    detector: Detector,
    new: queries.NewQuery,
    by: By,
    *,
    image: str | None,
) -> tuple[Query | WaitingQuery, bool]:
    """Add a query as ``log_query`` does; without the field *predicted* it waits."""
    if new.key is not None:
        named = {"detector_id": detector.id, "key": new.key}
        waiting = find_row(session, WaitingQuery, **named)
        if waiting is not None and "predicted" in new.model_fields_set:
            return _complete_by_key(session, detector, waiting, new, by, image), False
        if waiting is not None:
            sent, stored, labels = _compare(new, waiting, image)
            if sent != stored or new.label not in labels:
                raise _waits_already(new.key)
            return waiting, False
    if "predicted" in new.model_fields_set or (
        new.key is not None and find_query_by_key(session, detector.id, new.key)
    ):
        return queries.log_query(session, detector, new, by, image=image)
    if new.confidence is not None:
        raise InvalidInputError.of("confidence", "belongs to a prediction")
    if new.label is not None:
        check_class(detector, new.label, field="label", may_be_unclear=True)
    return add_waiting(session, detector, new, by, image=image), True


def _waits_already(key: str | None) -> ConflictError:
    return ConflictError(
        f"a query with the key {show(key)} already waits for its prediction, with "
        "different content"
    )


def _complete_by_key(  # noqa: PLR0913, PLR0917 - what log_any takes, and what waits.
    session: Session,
    detector: Detector,
    waiting: WaitingQuery,
    new: queries.NewQuery,
    by: By,
    image: str | None,
) -> Query:
    place = waiting.detector_id, waiting.id
    if lock_row(session, WaitingQuery, place) is None:
        # Somebody else gave it just now.
        return queries.log_query(session, detector, new, by, image=image)[0]
    if new.predicted is not None:
        check_prediction(detector, new.predicted, field="predicted")
    if new.label is not None:
        check_class(detector, new.label, field="label", may_be_unclear=True)
    # What is sent besides must be what it waits with; an input and a label may be new.
    sent, stored, labels = _compare(new, waiting, image)
    del sent["version"]
    stored["input"] = stored["input"] or new.input
    if any(value not in {None, stored[name]} for name, value in sent.items()):
        raise _waits_already(new.key)
    said = new.model_dump(include={*QueryCompletion.model_fields}, exclude_unset=True)
    query = complete_waiting(session, detector, waiting, QueryCompletion(**said), by)
    if new.label is None or new.label in labels:
        return query
    add_label(session, query.id, NewLabel(label=new.label, sampling=new.sampling), by)
    return session.get_one(Query, place, populate_existing=True)


def _compare(
    new: queries.NewQuery, waiting: WaitingQuery, image: str | None
) -> tuple[dict[str, Any], dict[str, Any], set[str | None]]:
    """Return what is sent of a query, and what it waits with, its labels last."""
    sent = _content_of(new, new.asked_at or waiting.asked_at, image)
    stored = {name: getattr(waiting, name) for name in sent}
    return sent, stored, {None, *(one["label"] for one in waiting.labels)}


def _content_of(
    new: queries.NewQuery, asked_at: datetime, image: str | None
) -> dict[str, Any]:
    return {
        "key": new.key,
        "input": new.input,
        "group": new.group,
        "version": new.version,
        "asked_at": asked_at,
        "details": None if new.metadata is None else fields.dump_metadata(new.metadata),
        "image": image,
        "image_url": new.image_url,
    }


def add_waiting(
    session: Session,
    detector: Detector,
    new: queries.NewQuery,
    by: By,
    *,
    image: str | None,
) -> WaitingQuery:
    """Store a query that waits for its prediction."""
    waiting = WaitingQuery(
        **_content_of(new, new.asked_at or by.at, image),
        id=first_id(draw_batch(session, detector.id, created_at=by.at)),
        detector_id=detector.id,
        created_at=by.at,
        labels=[],
    )
    if new.label is not None:
        waiting.labels = [_dump_label(new.label, by) | {"sampling": new.sampling}]
    session.add(waiting)
    session.flush()
    if image is not None:
        # It waits for a predictor where there is none.
        enqueue(
            session,
            PREDICTION,
            str(waiting.id),
            detector_id=detector.id,
            lane=str(detector.id),
            due_at=by.at,
        )
    return waiting


def find_any(
    session: Session, query_id: str, *, seen_by: str | None = None
) -> Query | WaitingQuery:
    """Return a query with or without a prediction, to read as *seen_by* if given."""
    number = parse_id("iq", query_id)
    found: Query | WaitingQuery | None = None
    if number is not None:
        found = find_query(session, number) or storage.find_waiting(session, number)
    if found is None:
        raise missing("query", query_id)
    if isinstance(found, Query):
        queries.check_is_there(found)
        if seen_by is not None:
            return see_as(session, found, seen_by)
    return found


def complete_query(
    session: Session, query_id: str, new: QueryCompletion, by: By
) -> Query:
    """Give a query its input, or a waiting one its prediction and then its labels.

    Once more the same does nothing; raises ConflictError for anything else.
    """
    waiting = _lock(session, query_id)
    if waiting is None:
        query = find_any(session, query_id)
        assert isinstance(query, Query)
        if new.predicted is None and (
            new.input is None or new.version or new.confidence
        ):
            raise InvalidInputError.of("input", "give an input, or a prediction")
        if new.predicted is not None:
            version = name_version(session, query.detector_id, query.version_id)
            said = (query.predicted, query.confidence, version)
            if said != (new.predicted, new.confidence, new.version or version):
                raise ConflictError(
                    "the query has a different prediction already; what a "
                    "detector said is never changed"
                )
        if new.input is not None:
            detector = get_open_detector(session, dump_id("det", query.detector_id))
            join_input(session, detector, query, new.input, by)
        return session.get_one(
            Query, (query.detector_id, query.id), populate_existing=True
        )
    if new.predicted is None:
        message = "is required: the query waits for its prediction"
        raise InvalidInputError.of("predicted", message)
    if new.input is not None and waiting.input not in {None, new.input}:
        raise other_input(waiting.input, new.input)
    detector = get_open_detector(session, dump_id("det", waiting.detector_id))
    check_class(detector, new.predicted, field="predicted", may_be_unclear=False)
    return complete_waiting(session, detector, waiting, new, by)


def complete_waiting(
    session: Session,
    detector: Detector,
    waiting: WaitingQuery,
    new: QueryCompletion,
    by: By,
) -> Query:
    """Give a *waiting* query that is locked its prediction; null is no answer."""
    # Only now, in the transaction of the query, does the job have to count it.
    make_pending(
        session, waiting.id // BATCH_LIMIT, waiting.detector_id, created_at=by.at
    )
    query = queries.add_query(
        session,
        detector,
        queries.NewQuery(
            key=waiting.key,
            input=waiting.input or new.input,
            group=waiting.group,
            predicted=new.predicted,
            confidence=new.confidence,
            version=new.version or waiting.version,
            asked_at=waiting.asked_at,
            metadata=queries.load_metadata(waiting),
            image_url=waiting.image_url,
        ),
        by,
        waiting.id,
        None,
        image=waiting.image,
    )
    for given in waiting.labels:
        new_label = NewLabel(
            label=given["label"],
            sampling=given.get("sampling"),
            labelled_at=fields.parse_instant(given["labelled_at"]),
        )
        add_label(session, query.id, new_label, by.credit(str(given["labeler"])))
    session.delete(waiting)
    session.flush()
    withdraw(session, PREDICTION, str(waiting.id))
    # With the labels, which were not written through this object.
    return session.get_one(Query, (query.detector_id, query.id), populate_existing=True)


def _lock(session: Session, query_id: str) -> WaitingQuery | None:
    number = parse_id("iq", query_id)
    found = None if number is None else storage.find_waiting(session, number)
    return found and lock_row(session, WaitingQuery, (found.detector_id, found.id))


def label_any(session: Session, query_id: str, label: str, by: By) -> None:
    """Give a query a label, also while it waits for its prediction."""
    waiting = _lock(session, query_id)
    if waiting is None:
        add_label(session, queries.parse_query_id(query_id), NewLabel(label=label), by)
    else:
        detector = get_open_detector(session, dump_id("det", waiting.detector_id))
        check_class(detector, label, field="label", may_be_unclear=True)
        waiting.labels = [*waiting.labels, _dump_label(label, by)]
        session.flush()


def _dump_label(label: str, by: By) -> dict[str, Any]:
    return {"label": label, "labeler": by.name, "labelled_at": dump_instant(by.at)}


_MOST_ANSWER = 64 * 2**10
_LONGEST_PROBLEM = 500


@dataclass(frozen=True, slots=True)
class Question:
    """A query that its predictor is to be asked about."""

    query_id: int
    detector_id: int
    predictor: str
    image: str


def find_question(session: Session, task: Task) -> Question | None:
    """Return what a task is to ask; None if there is nothing to ask any more."""
    waiting = session.get(WaitingQuery, task.row)
    if waiting is None or waiting.image is None:
        return None
    detector = find_detector(session, waiting.detector_id)
    assert detector is not None
    # Without one, which was taken away just now, it is no address to ask at.
    return Question(waiting.id, detector.id, detector.predictor or "", waiting.image)


def ask(
    question: Question, image: bytes, *, allowed_hosts: Collection[str], seconds: float
) -> QueryCompletion | str:
    """Send the *image* to the predictor, and return its reply or the problem."""
    try:
        # The operator may have taken the host away since it was set.
        check_predictor(question.predictor, allowed_hosts)
    except InvalidInputError as error:
        return str(error)
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
        return answer.error or f"it answered {answer.status}"
    try:
        said = fields.load_json(answer.body)
        if not isinstance(said, dict):
            raise ValueError("it must be a JSON object")
        return fields.parse_input(QueryCompletion, said)
    except (ValueError, InvalidInputError) as error:
        text = answer.body.decode(errors="replace")
        return f"it answered {show(text)}: {error}"


def settle(
    session: Session,
    task: Task,
    question: Question,
    reply: QueryCompletion | str,
    at: datetime,
) -> str:
    """Store the prediction of a query, or return the problem; raises LostTaskError."""
    # Others who complete or delete a query lock it before its task, too.
    waiting = lock_row(session, WaitingQuery, task.row)
    row = hold(session, task)
    problem = reply if isinstance(reply, str) else ""
    if not isinstance(reply, str):
        by = By(Actor("predictor", None, "nobody"), at)
        query_id = dump_id("iq", question.query_id)
        try:
            # Somebody else may have given the prediction, or taken the query away.
            with suppress(ConflictError, NotFoundError):
                complete_query(session, query_id, reply, by)
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
