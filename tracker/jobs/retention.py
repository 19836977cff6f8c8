"""The job that deletes old queries which were never labelled."""

import time
from dataclasses import dataclass, field
from datetime import datetime, timedelta

import structlog
from sqlalchemy.orm import Session

from tracker.clock import Clock, utc_now
from tracker.services.operations.retention import delete_unlabelled, delete_waiting
from tracker.storage.database import Database
from tracker.storage.operations.retention import Place, list_unlabelled

log = structlog.get_logger("tracker.job")

_MOST_PIECES = 20
# Longer than anybody who waits for SQLite sleeps before looking again.
_PAUSE_SECONDS = 0.15


@dataclass(slots=True)
class Retention:
    """Goes through the unlabelled queries older than *days*, a part at each run.

    Some of them are kept, so it goes on where the run before it ended, and after the
    last one starts over; otherwise every run would look at those again.
    """

    database: Database
    days: int
    clock: Clock = utc_now
    piece: int = 1_000
    _after: Place | None = field(default=None, init=False)

    def run(self) -> int:
        """Delete some of them in pieces, each a transaction, and count them."""
        begun = time.perf_counter()
        before = self.clock() - timedelta(days=self.days)
        deleted = 0
        for number in range(_MOST_PIECES):
            if number:
                time.sleep(_PAUSE_SECONDS)
            looked_at, gone = self._delete_piece(before)
            deleted += gone
            if looked_at < self.piece:
                self._after = None
                break
        deleted += self._delete_waiting(before)
        if deleted:
            log.info(
                "deleted unlabelled queries",
                queries=deleted,
                created_before=before.isoformat(),
                seconds=round(time.perf_counter() - begun, 4),
            )
        return deleted

    def _delete_waiting(self, before: datetime) -> int:
        """Delete queries that were never given a prediction, and count them."""

        def delete(session: Session) -> int:
            return delete_waiting(session, before=before, limit=self.piece)

        return self.database.run(delete)

    def _delete_piece(self, before: datetime) -> tuple[int, int]:
        """Return how many queries the next piece had, and how many are deleted."""
        with self.database.read() as session:
            places = list_unlabelled(
                session, before=before, after=self._after, limit=self.piece
            )
        if not places:
            return 0, 0

        def delete(session: Session) -> int:
            return delete_unlabelled(session, places, deleted_at=self.clock())

        gone = self.database.run(delete)
        self._after = places[-1]
        return len(places), gone
