"""What an import into SQLite has staged: rows that nobody sees before it ends.

Rows of its own it writes at once, because they are hidden.  What changes a row that
can be seen already waits for its last transaction, and is compared again there.
"""

import json
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import islice
from typing import IO, Any

from sqlalchemy.orm import Session

from tracker.errors import UnavailableError
from tracker.services.imports.reading.rows import Row
from tracker.storage.estimates.pending import BATCH_LIMIT, add_batch
from tracker.storage.imports import staging as storage
from tracker.storage.labelling.inputs import OWNER

# About as many as a piece has, so that nobody waits longer for them.
_DELETED_AT_ONCE = 1_000
_READ_AT_ONCE = 2_000
# What is written in less time than a person notices is written at once.
LARGE_BYTES = 2**18
# What a row may say of a query that is known.
_SAID = ("input", "label", "sampling", "note", "labeler", "labelled_at")
Writes = Callable[[], Any]


class GivenUpError(UnavailableError):
    """The import took longer than it was held for, and somebody gave it up."""


def _open_spool() -> IO[str]:
    return tempfile.TemporaryFile("w+", encoding="utf-8")


@dataclass(slots=True)
class Stage:
    """The batches of one import, and what it has still to do at its end."""

    clock: Callable[[], datetime]
    import_id: int | None = None
    owner_id: int | None = None
    # By input what has become true of it, for those who can be seen already.
    truths: dict[str, Any] = field(default_factory=dict)
    _batches: set[int] = field(default_factory=set)
    _later: IO[str] = field(default_factory=_open_spool)

    def hold(self, session: Session) -> None:
        """Begin a piece; raises GivenUpError where nothing may be written any more."""
        session.info[OWNER] = self.owner_id
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
            self.owner_id = session.info[OWNER] = batch
        self._batches.add(batch)
        return batch

    def add_versions(self, session: Session, ids: list[int]) -> None:
        """Hide versions that were added just now."""
        assert self.owner_id is not None
        storage.stage_versions(session, ids, self.owner_id)

    def owns(self, row_id: int) -> bool:
        """Return whether a row is one of this import."""
        return row_id // BATCH_LIMIT in self._batches

    def check(self, session: Session, row_ids: list[int]) -> None:
        """Raise UnavailableError where another import has staged one of these rows."""
        batches = {row_id // BATCH_LIMIT for row_id in row_ids}
        if storage.find_staged(session, batches - self._batches):
            raise UnavailableError(
                "another import that has not ended yet brings the same key"
            )

    def set_aside(self, keys: list[str], rows: list[Row]) -> None:
        """Keep rows of known queries for the end: of each what can still change."""
        for key, row in zip(keys, rows, strict=True):
            said = {name: row.values[name] for name in _SAID if name in row.values}
            line = json.dumps([key, row.number, said], default=datetime.isoformat)
            self._later.write(line + "\n")

    def rows(self) -> Iterator[tuple[list[str], list[Row]]]:
        """Yield the rows that were kept, with their keys, some at a time."""
        self._later.seek(0)
        while lines := list(islice(self._later, _READ_AT_ONCE)):
            keys, rows = [], []
            for line in lines:
                key, number, said = json.loads(line)
                if "labelled_at" in said:
                    said["labelled_at"] = datetime.fromisoformat(said["labelled_at"])
                keys.append(key)
                rows.append(Row(number, said))
            yield keys, rows

    def show(self, session: Session, version_ids: list[int], *, at: datetime) -> None:
        """Let everybody see what was staged; raises GivenUpError."""
        if self.owner_id is not None and not storage.show_batches(
            session, self.owner_id, version_ids, at=at
        ):
            raise GivenUpError("the import was given up: it took too long")

    def close(self) -> None:
        """Forget what was kept for the end."""
        self._later.close()


def add_batch_of(
    session: Session, stage: Stage | None, detector_id: int, *, at: datetime
) -> int:
    """Return the number of a new batch, hidden where there is a *stage*."""
    if stage is not None:
        return stage.add_batch(session, detector_id)
    return add_batch(session, detector_id, created_at=at)


def clear(writes: Writes, owner_id: int | None) -> None:
    """Delete what an import staged and has not shown."""
    if owner_id is None:
        return
    with writes() as session:
        is_left = storage.give_up_batches(session, owner_id)
    while is_left:
        with writes() as session:
            is_left = storage.delete_staged(session, owner_id, limit=_DELETED_AT_ONCE)


def clear_ended(writes: Writes, *, at: datetime, import_id: int | None = None) -> None:
    """Delete what imports staged whose process has died, and an attempt before."""
    with writes() as session:
        ended = storage.list_ended(session, at=at, import_id=import_id)
    for owner_id in ended:
        clear(writes, owner_id)
