"""The jobs that send deliveries, and that notice where no labels come."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from tracker.jobs.loop import Handler, Watch
from tracker.services.telling.deliveries import (
    find_next,
    go_on,
    name_message,
    note_answer,
    sign,
)
from tracker.services.telling.events import tell_stalls
from tracker.services.telling.posting import post
from tracker.storage.tasks import DELIVERY, STALLS, Task, finish, hold
from tracker.storage.telling.webhooks import find_webhook, list_reachable

log = structlog.get_logger("tracker.job")


@dataclass(slots=True, kw_only=True)
class Deliveries(Handler):
    """Sends what is in the outbox, to each webhook one message at a time.

    An attempt whose worker was killed is made again under the same id.
    """

    allowed_hosts: Collection[str] = ()
    timeout_seconds: float = 15.0
    kind = DELIVERY

    def lanes(self, session: Session, at: datetime) -> Collection[str]:
        """Return the webhooks that can be told something now."""
        return [str(one) for one in list_reachable(session, at=at)]

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Send the first of the deliveries of one task."""
        [task] = tasks
        at = self.clock()
        with self.database.read() as session:
            delivery = find_next(session, task)
            webhook = find_webhook(session, int(task.lane))
        if delivery is None or webhook is None:
            self.database.run(lambda session: go_on(session, hold(session, task), at))
            return 0
        answer = post(
            webhook.url,
            delivery.body.encode(),
            sign(webhook, delivery, at),
            allowed_hosts=self.allowed_hosts,
            seconds=self.timeout_seconds,
        )

        def note(session: Session) -> None:
            note_answer(session, task, delivery.id, answer, at=self.clock())

        self.database.run(note)
        log.info(
            "told a webhook" if answer.is_success else "a webhook was not told",
            webhook=f"whk_{webhook.id}",
            message=name_message(delivery),
            status=answer.status,
            error=answer.error,
        )
        return 1


class Stalls(Handler):
    """Reports detectors that get no new labels."""

    kind = STALLS

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:  # noqa: ARG002
        """Look at every detector."""
        [task] = tasks

        def look(session: Session) -> int:
            row = hold(session, task)
            told = tell_stalls(session, self.clock())
            finish(session, row)
            return told

        return self.database.run(look)
