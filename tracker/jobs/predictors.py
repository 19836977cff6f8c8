"""The job that asks predictors about the queries that wait for a prediction."""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from threading import Event as Flag

import structlog
from sqlalchemy.orm import Session

from tracker.clock import Clock, utc_now
from tracker.services.queries.predictors import (
    Question,
    Reply,
    ask,
    settle,
    take_questions,
)
from tracker.storage.database import Database
from tracker.storage.images import ImageStore
from tracker.storage.queries.waiting import list_due

log = structlog.get_logger("tracker.job")

_THREADS = 4


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks the predictor of each detector, the oldest queries first.

    A query is taken for a while before its predictor is asked: several workers share
    them out, and one that was killed leaves them to the next.
    """

    database: Database
    images: ImageStore
    allowed_hosts: Collection[str] = ()
    clock: Clock = utc_now
    timeout_seconds: float = 15.0
    _stop: Flag = field(default_factory=Flag, init=False)

    def stop(self) -> None:
        """Ask no further predictor."""
        self._stop.set()

    def run(self) -> int:
        """Ask about all that is due, and count the predictions that were given."""
        given = 0
        if not self.allowed_hosts:
            return given
        with ThreadPoolExecutor(_THREADS, "predictor") as pool:
            while not self._stop.is_set() and (taken := self._take()):
                given += sum(pool.map(self._ask, taken))
        return given

    def _take(self) -> list[Question]:
        # Several are asked about by one thread, one after the other.
        seconds = 8 * self.timeout_seconds
        with self.database.read() as session:
            if not list_due(session, at=self.clock(), each=1):
                return []
        return self.database.run(
            lambda session: take_questions(session, at=self.clock(), seconds=seconds)
        )

    def _ask(self, question: Question) -> bool:
        try:
            image = self.images.get(question.image)
        except FileNotFoundError:
            reply = Reply(None, "the image is missing where images are kept")
        else:
            reply = ask(
                question,
                image,
                allowed_hosts=self.allowed_hosts,
                seconds=self.timeout_seconds,
            )

        def note(session: Session) -> str:
            return settle(session, question, reply, self.clock())

        problem = self.database.run(note)
        if problem:
            log.warning(
                "a predictor gave no prediction",
                query=f"iq_{question.query_id}",
                predictor=question.predictor,
                problem=problem,
            )
        return not problem
