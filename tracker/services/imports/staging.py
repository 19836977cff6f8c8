"""What an import into SQLite has staged: rows that nobody sees before it ends.

Its own rows are hidden, and so is what it changes of others; from then on nobody else
can change those.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy.orm import Session

from tracker.clock import Clock
from tracker.errors import UnavailableError
from tracker.storage.estimates.pending import add_batch
from tracker.storage.imports import staging as storage

# About as many as a piece has, so that nobody waits longer for them.
_DELETED_AT_ONCE = 1_000
# What is written in less time than a person notices is written at once.
LARGE_BYTES = 2**18
Writes = Callable[[], Any]


class GivenUpError(UnavailableError):
    """The import took longer than it was held for, and somebody gave it up."""


@dataclass(slots=True)
class Stage:
    """What one import has staged."""

    clock: Clock
    import_id: int | None = None
    owner_id: int | None = None

    def hold(self, session: Session) -> None:
        """Begin a piece; raises GivenUpError where nothing may be written any more."""
        storage.own(session, self.owner_id)
        if self.owner_id is not None:
            at = self.clock()
            if not storage.renew_batches(session, self.owner_id, at=at):
                raise GivenUpError("the import was given up: it took too long")

    def add_batch(self, session: Session, detector_id: int) -> int:
        """Return the number of one more batch."""
        batch = storage.stage_batch(
            session,
            detector_id,
            owner_id=self.owner_id,
            import_id=self.import_id,
            at=self.clock(),
        )
        if self.owner_id is None:
            self.owner_id = batch
            storage.own(session, batch)
        return batch

    def add_versions(self, session: Session, ids: list[int]) -> None:
        """Hide versions that were added just now."""
        assert self.owner_id is not None
        storage.stage_versions(session, ids, self.owner_id)

    def check(self, session: Session, query_ids: list[int]) -> None:
        """Raise UnavailableError where another import has staged one of the queries."""
        if storage.is_staged_by_others(session, query_ids, self.owner_id):
            raise UnavailableError(
                "another import that has not ended yet brings the same key"
            )

    def show(self, session: Session, version_ids: list[int], *, at: datetime) -> None:
        """Let everybody see what was staged; raises GivenUpError."""
        if self.owner_id is not None and not storage.show_batches(
            session, self.owner_id, version_ids, at=at
        ):
            raise GivenUpError("the import was given up: it took too long")


def add_batch_of(
    session: Session, stage: Stage | None, detector_id: int, *, at: datetime
) -> int:
    """Return the number of a new batch, hidden where there is a *stage*."""
    if stage is not None:
        return stage.add_batch(session, detector_id)
    return add_batch(session, detector_id, created_at=at)


def clear(writes: Writes, owner_id: int | None) -> None:
    """Delete what an import staged and has not shown, and what it noted if it has."""
    if owner_id is None:
        return
    with writes() as session:
        is_left = storage.give_up_batches(session, owner_id)
    while is_left:
        with writes() as session:
            is_left = storage.delete_staged(session, owner_id, limit=_DELETED_AT_ONCE)
    _forget(writes)


def clear_ended(writes: Writes, *, at: datetime, import_id: int | None = None) -> None:
    """Delete what imports staged whose process has died, and an attempt before."""
    with writes() as session:
        ended = storage.list_ended(session, at=at, import_id=import_id)
    for owner_id in ended:
        clear(writes, owner_id)
    _forget(writes)


def _forget(writes: Writes) -> None:
    is_left = True
    while is_left:
        with writes() as session:
            is_left = storage.forget_changes(session, limit=_DELETED_AT_ONCE)
