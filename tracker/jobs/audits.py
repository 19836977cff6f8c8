"""The task that starts and closes scheduled audits."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from sqlalchemy.orm import Session

from tracker.errors import UnavailableError
from tracker.jobs.loop import Handler, StoppedError, Watch
from tracker.services.by import NOBODY, By
from tracker.services.labelling.auditing.audit_estimates import get_audit_estimate
from tracker.services.labelling.auditing.audit_lifecycle import (
    is_span_due,
    plan_freezing,
)
from tracker.services.labelling.auditing.audits import PIECE
from tracker.services.telling.events import (
    close_audit,
    is_reminder_due,
    remind_of_audit,
)
from tracker.storage.base import Key
from tracker.storage.labelling import audits
from tracker.storage.tasks import AUDITS, LostTaskError, Task, hold


@dataclass(slots=True, kw_only=True, eq=False)
class Audits(Handler):
    """Freezes the set of each span that is due, sends reminders and closes audits.

    Each step is one transaction, and a set takes several, which nobody sees before the
    last: a killed worker leaves nothing half done but a set that the next one deletes.
    """

    kind = AUDITS
    # The answers of each open audit when it was last checked.
    _seen: dict[int, int] = field(default_factory=dict, init=False)

    def work(self, tasks: Sequence[Task], watch: Watch) -> int:
        """Run all schedules, then check their open audits."""
        [task] = tasks
        errors: list[Exception] = []

        # What was done is on the disk before the task is.
        def write(do: Callable[..., Any], *given: Any) -> Any:
            def step(session: Session) -> Any:
                hold(session, task, locks=False)
                found = do(session, *given)
                # Locked no sooner, because a locked task is not renewed.
                hold(session, task)
                return found

            watch.check()
            return self.database.run_piece(step)

        def count(do: Callable[..., bool], *given: Any) -> int:
            done = 0
            try:
                while do(*given):
                    done += 1
            except (LostTaskError, StoppedError, UnavailableError):
                raise
            except Exception as error:  # noqa: BLE001 - the others go on.
                errors.append(error)
            return done

        with self.database.read() as session:
            schedules = audits.list_running(session)
            left = audits.list_open_scheduled(session, are_whole=False)
        for one in left:
            while write(audits.discard_piece, one, PIECE):
                pass
        done = sum(count(self._freeze, write, one) for one in schedules)
        with self.database.read() as session:
            found = audits.list_open_scheduled(session)
            answered = audits.count_draws(session, found)
            keys = {one.id: (one.detector_id, one.id) for one in found}
            due = [keys[one.id] for one in found if is_reminder_due(one, self.clock())]
        done += sum(count(write, self._remind, one) for one in due)
        # A check takes some milliseconds, so only audits with new answers get one.
        seen = {one: answered.get(one, 0) for one in keys}
        changed = [keys[one] for one in keys if self._seen.get(one) != seen[one]]
        done += sum(count(write, self._close_if_done, one) for one in changed)
        if errors:
            raise errors[0]
        self._seen = seen
        self.finish(task)
        return done

    def _freeze(self, write: Callable[..., Any], key: Key) -> bool:
        at = self.clock()
        if not write(is_span_due, key, at):
            return False
        with self.database.read() as session:
            *pieces, last = plan_freezing(session, key, at)
        for piece in pieces:
            write(piece)

        def end(session: Session) -> None:
            before = last(session)
            if before is not None:
                close_audit(session, before, By(NOBODY, at))

        write(end)
        return True

    def _remind(self, session: Session, key: Key) -> bool:
        audit, at = session.get_one(audits.Audit, key), self.clock()
        is_due = is_reminder_due(audit, at)
        if is_due:
            remind_of_audit(session, audit, at)
        return is_due

    def _close_if_done(self, session: Session, key: Key) -> bool:
        audit, at = session.get(audits.Audit, key), self.clock()
        if audit is None or audit.closed_at is not None:
            return False
        is_done = get_audit_estimate(session, audit, computed_at=at).is_reached
        if is_done:
            close_audit(session, audit, By(NOBODY, at))
        return is_done
