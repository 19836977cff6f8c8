"""The task that asks predictors about queries without a prediction."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from tracker.jobs.loop import Handler, Watch
from tracker.services.labelling.predictions import (
    QueryCompletion,
    ask,
    find_question,
    settle,
)
from tracker.storage.images import ImageStore
from tracker.storage.queries.waiting import list_asked_detectors
from tracker.storage.tasks import PREDICTION, Task

log = structlog.get_logger("tracker.job")


@dataclass(slots=True, kw_only=True, eq=False)
class Predictions(Handler):
    """Asks the predictor of each detector, oldest queries first."""

    images: ImageStore
    allowed_hosts: Collection[str] = ()
    timeout_seconds: float = 15.0
    kind = PREDICTION

    def lanes(self, session: Session, at: datetime) -> Collection[str]:  # noqa: ARG002
        if not self.allowed_hosts:
            return ()
        return [str(one) for one in list_asked_detectors(session)]

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Ask about one query, and return whether a prediction came."""
        [task] = tasks
        with self.database.read() as session:
            question = find_question(session, task)
        if question is None:
            self.finish(task)
            return 0
        reply: QueryCompletion | str = "the image is missing from the image store"
        try:
            image = self.images.get(question.image)
        except FileNotFoundError:
            pass
        else:
            reply = ask(
                question,
                image,
                allowed_hosts=self.allowed_hosts,
                seconds=self.timeout_seconds,
            )

        def note(session: Session) -> str:
            return settle(session, task, question, reply, self.clock())

        problem = self.database.run(note)
        if problem:
            log.warning(
                "a predictor gave no prediction",
                query=f"iq_{question.query_id}",
                predictor=question.predictor,
                problem=problem,
            )
        return not problem
