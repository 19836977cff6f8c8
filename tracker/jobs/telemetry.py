"""The job that sends estimates to an OpenTelemetry collector."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

import structlog
from sqlalchemy.orm import Session

from tracker.jobs.loop import Handler, Watch
from tracker.services.tasks import retry
from tracker.services.telling.posting import Target, post
from tracker.services.telling.telemetry import write_estimates
from tracker.storage.tasks import (
    ESTIMATES,
    Task,
    enqueue,
    find_task,
    hold,
)
from tracker.storage.telling.sent_estimates import list_unsent, note_sent

log = structlog.get_logger("tracker.job")


@dataclass(slots=True, kw_only=True)
class Exporter(Handler):
    """Sends each new estimate at least once.

    Of a version that changed twice meanwhile only the newest estimate is sent.  Which
    estimates are new is looked up now and then, so that no fold waits for another one
    at a task that they would share.
    """

    endpoint: str
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    every_seconds: float = 10.0
    _next_look: float = field(default=0.0, init=False)
    kind = ESTIMATES

    def has_unplanned(self, session: Session, at: datetime) -> bool:  # noqa: ARG002
        """Whether there are new estimates and no task to send them."""
        if time.monotonic() < self._next_look or find_task(session, ESTIMATES, ""):
            return False
        self._next_look = time.monotonic() + self.every_seconds
        return bool(list_unsent(session, limit=1))

    def plan(self, session: Session, at: datetime) -> None:
        """Add the task that sends them."""
        enqueue(session, ESTIMATES, due_at=at)

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:
        """Send what is new, and count the versions."""
        [task] = tasks
        url = f"{self.endpoint}/v1/logs"
        # The operator named it, so it may be private.
        hosts = (Target.of(url).host,)
        sent = 0
        while True:
            watch.check()
            with self.database.read() as session:
                found = write_estimates(session)
            if found is None:
                self.finish(task)
                return sent
            body, versions = found
            answer = post(url, body, self.headers, allowed_hosts=hosts)
            reason = answer.error or f"it answered {answer.status}"
            is_success = answer.is_success

            def note(
                session: Session,
                versions: Mapping[int, int] = versions,
                reason: str | None = None if is_success else reason,
            ) -> None:
                row = hold(session, task)
                if reason is None:
                    note_sent(session, versions)
                else:
                    retry(session, row, reason, at=self.clock())

            self.database.run(note)
            if not is_success:
                log.warning("estimates were not taken", error=reason)
                return sent
            sent += len(versions)
