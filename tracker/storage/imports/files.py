"""Imports that a worker carries out, and which worker has taken one up.

A worker claims an import by a lease, in a transaction of its own.  Each piece of rows
is one other transaction, which also notes how many rows are done, what was added and
in which batches.  So the next worker goes on after the last piece that was committed,
and no row is written twice, however often workers die in the middle.

The note is a conditional UPDATE on the claim, which is the worker and the number of
the attempt.  Where another worker took the import over in the meantime it changes
nothing, and the late one's piece is rolled back.  The end of an import is such an
UPDATE too, in the transaction of the last piece.

The lease is renewed by short transactions beside it, while the file is read.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ColumnElement,
    ForeignKey,
    Index,
    Text,
    delete,
    func,
    or_,
    select,
    text,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId
from tracker.storage.detectors import Detector
from tracker.storage.operations.leases import is_held, lease_from, rest_from
from tracker.words import ON_ERROR, ActorKind

# The size of a file of which some is still to come; see ``arriving``.
STILL_ARRIVING = -1
STATES = WAITING, RUNNING, DONE, REJECTED, FAILED = (
    *("waiting", "running"),
    *("done", "rejected", "failed"),
)


class FileImport(Base):
    """A file that a worker imports; the row stays when it has."""

    __tablename__ = "imports"
    __table_args__ = (
        Index(None, "detector_id", "id"),
        Index(
            "ix_imports_id_unfinished",
            "id",
            sqlite_where=text("finished_at IS NULL"),
            postgresql_where=text("finished_at IS NULL"),
        ),
        CheckConstraint(f"on_error IN {ON_ERROR}", name="on_error"),
        CheckConstraint(
            f"state IN {STATES}",
            name="state",
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id))
    # A name in services/imports/reading/files.py.
    format: Mapped[str] = mapped_column(Text)
    on_error: Mapped[str] = mapped_column(Text)
    sha256: Mapped[str] = mapped_column(Text)
    # How large the file is; its pieces are gone once the import has ended.
    bytes: Mapped[int] = mapped_column(BigId)
    # Who sent it and from where, for the audit log; the labels are theirs.
    actor: Mapped[str] = mapped_column(Text)
    actor_kind: Mapped[ActorKind] = mapped_column(Text)
    address: Mapped[str] = mapped_column(Text)
    # What was said beside the file; see services/imports/reading/choices.py.
    choices: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    created_at: Mapped[datetime]
    state: Mapped[str] = mapped_column(Text, default=WAITING)
    # Of the last attempt.
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    attempts: Mapped[int] = mapped_column(default=0)
    # The lease; without a worker it only rests, because its last attempt failed.
    worker: Mapped[str | None] = mapped_column(Text)
    since: Mapped[datetime | None]
    until: Mapped[datetime | None]
    # How far it was when last noted.
    rows_read: Mapped[int] = mapped_column(BigId, default=0)
    bytes_read: Mapped[int] = mapped_column(BigId, default=0)
    # How many rows the file has, once all are checked.
    rows: Mapped[int | None] = mapped_column(BigId)
    # After which row the next attempt goes on; bad rows count.
    rows_done: Mapped[int] = mapped_column(BigId, default=0)
    # What was added so far; once the import has ended, also how the file was read.
    report: Mapped[dict[str, Any] | None] = mapped_column(JSON(none_as_null=True))
    error: Mapped[str | None] = mapped_column(Text)


_HAS_ARRIVED = FileImport.bytes != STILL_ARRIVING


@dataclass(frozen=True, slots=True)
class Claim:
    """One attempt of one worker at one import."""

    import_id: int
    worker: str
    attempt: int


@dataclass(frozen=True, slots=True)
class Progress:
    """How much of a file was read in this attempt."""

    rows_read: int = 0
    bytes_read: int = 0
    # How many rows there are, once all are checked.
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How an import ended; without a report, that of its last piece stays."""

    state: str
    report: dict[str, Any] | None = None
    error: str | None = None


def find_import(session: Session, import_id: int) -> FileImport | None:
    """Return an import whose file is there."""
    found = session.get(FileImport, import_id)
    return None if found is None or found.bytes == STILL_ARRIVING else found


def list_imports(
    session: Session, detector_id: int, *, before: int | None = None, limit: int
) -> Sequence[FileImport]:
    """Return the imports of a detector, the newest first."""
    statement = (
        select(FileImport)
        .where(FileImport.detector_id == detector_id, _HAS_ARRIVED)
        .order_by(FileImport.id.desc())
        .limit(limit)
    )
    if before is not None:
        statement = statement.where(FileImport.id < before)
    return session.scalars(statement).all()


def count_waiting(session: Session) -> int:
    """Count the imports that no worker has ended yet."""
    statement = select(func.count()).where(
        FileImport.finished_at.is_(None), _HAS_ARRIVED
    )
    return session.execute(statement).scalar_one()


def list_waiting(session: Session, *, since: datetime) -> Sequence[FileImport]:
    """Return the imports that no worker has taken up since that instant."""
    statement = (
        select(FileImport)
        .where(FileImport.state == WAITING, FileImport.created_at <= since)
        .where(FileImport.finished_at.is_(None), _HAS_ARRIVED)
        .order_by(FileImport.id)
    )
    return session.scalars(statement).all()


def list_failed(session: Session, *, since: datetime) -> Sequence[FileImport]:
    """Return the imports that failed at that instant or later."""
    statement = (
        select(FileImport)
        .where(FileImport.state == FAILED, FileImport.finished_at >= since)
        .order_by(FileImport.id)
    )
    return session.scalars(statement).all()


def has_free_import(session: Session, *, at: datetime) -> bool:
    """Return whether there is one to take up; to ask takes no write."""
    found = session.scalars(select(FileImport.id).where(_is_free(at)).limit(1))
    return found.first() is not None


def take_import(session: Session, worker: str, *, at: datetime) -> FileImport | None:
    """Lease *worker* the import that has waited longest, and count the attempt.

    It is counted before it is made, because it may kill the worker that makes it.
    """
    statement = select(FileImport).where(_is_free(at)).order_by(FileImport.id).limit(1)
    found = session.scalars(statement.with_for_update(skip_locked=True)).one_or_none()
    if found is None:
        return None
    found.state, found.worker = RUNNING, worker
    found.started_at, (found.since, found.until) = at, lease_from(at).values()
    found.attempts += 1
    found.rows_read = found.bytes_read = 0
    session.flush()
    return found


def _is_free(at: datetime) -> ColumnElement[bool]:
    held = is_held(FileImport.since, FileImport.until, at)
    is_free = or_(FileImport.until.is_(None), ~held)
    return FileImport.finished_at.is_(None) & _HAS_ARRIVED & is_free


def hold_arriving(session: Session, import_id: int, *, at: datetime) -> bool:
    """Hold an import whose file is still arriving; False if it was given up."""
    statement = update(FileImport).where(
        FileImport.id == import_id, ~_HAS_ARRIVED, FileImport.state == WAITING
    )
    result: Any = session.execute(statement.values(lease_from(at)))
    return bool(result.rowcount == 1)


def give_up_arriving(
    session: Session, *, at: datetime, import_id: int | None = None
) -> Sequence[int]:
    """Return the imports whose files will not arrive any more, and *import_id*.

    From now on nothing is added to them; nobody has heard of them yet.
    """
    held = is_held(FileImport.since, FileImport.until, at)
    is_over = ~held if import_id is None else FileImport.id == import_id
    statement = select(FileImport).where(~_HAS_ARRIVED, is_over)
    found = session.scalars(statement).all()
    for file_import in found:
        file_import.state = FAILED
    session.flush()
    return [file_import.id for file_import in found]


def delete_import(session: Session, import_id: int) -> None:
    """Delete an import that nobody has heard of, and whose file is gone."""
    session.execute(delete(FileImport).where(FileImport.id == import_id, ~_HAS_ARRIVED))


def has_arriving(session: Session) -> bool:
    """Return whether files of imports are still arriving."""
    return (
        session.scalars(select(FileImport.id).where(~_HAS_ARRIVED)).first() is not None
    )


def list_left_over(session: Session, *, failed_since: datetime) -> Sequence[int]:
    """Return the imports that have ended and whose files are of no more use.

    The file of one that failed since *failed_since* is kept, to be resumed.
    """
    has_pieces = text(
        "EXISTS (SELECT 1 FROM import_pieces WHERE import_id = imports.id)"
    )
    has_ended = FileImport.state.in_((DONE, REJECTED)) | (
        (FileImport.state == FAILED) & (FileImport.finished_at < failed_since)
    )
    # Of one that is still arriving nobody has heard.
    statement = select(FileImport.id).where(FileImport.finished_at.is_not(None))
    return session.scalars(statement.where(has_ended, has_pieces)).all()


def is_claimed(session: Session, claim: Claim) -> bool:
    """Return whether nobody has taken the import over or ended it."""
    found = session.scalars(select(FileImport.id).where(_is_of(claim)))
    return found.first() is not None


def _is_of(claim: Claim) -> ColumnElement[bool]:
    return (
        (FileImport.id == claim.import_id)
        & (FileImport.worker == claim.worker)
        & (FileImport.attempts == claim.attempt)
        & FileImport.finished_at.is_(None)
    )


def renew_import(
    session: Session, claim: Claim, progress: Progress, *, at: datetime
) -> bool:
    """Hold an import for longer and note how far it is; False if it is lost."""
    return change_claimed(session, claim, **lease_from(at), **_noted(progress))


def resume_import(session: Session, import_id: int) -> bool:
    """Let workers take up an import that failed; False if it did not fail."""
    statement = (
        update(FileImport)
        .where(FileImport.id == import_id, FileImport.state == FAILED, _HAS_ARRIVED)
        .values(state=WAITING, attempts=0, finished_at=None, error=None)
    )
    result: Any = session.execute(statement)
    return bool(result.rowcount == 1)


def finish_import(
    session: Session,
    claim: Claim,
    ending: Ending,
    progress: Progress | None,
    *,
    at: datetime,
) -> bool:
    """End an import; False, and nothing is changed, if it is another worker's."""
    return change_claimed(
        session,
        claim,
        state=ending.state,
        error=ending.error,
        **({} if ending.report is None else {"report": ending.report}),
        **({} if progress is None else _noted(progress)),
        finished_at=at,
        worker=None,
        since=None,
        until=None,
    )


def give_back(
    session: Session, claim: Claim, *, at: datetime, rest_seconds: float, counts: bool
) -> bool:
    """Let others take an import up after a rest, and say if the attempt counts."""
    return change_claimed(
        session,
        claim,
        state=WAITING,
        **rest_from(at, rest_seconds),
        attempts=claim.attempt if counts else claim.attempt - 1,
    )


def _noted(progress: Progress) -> dict[str, int]:
    noted = {"rows_read": progress.rows_read, "bytes_read": progress.bytes_read}
    return noted if progress.rows is None else noted | {"rows": progress.rows}


def change_claimed(session: Session, claim: Claim, **values: Any) -> bool:
    """Change an import; False, and nothing is changed, if it is of another worker."""
    statement = update(FileImport).where(_is_of(claim)).values(**values)
    statement = statement.execution_options(synchronize_session=False)
    result: Any = session.execute(statement)
    return bool(result.rowcount == 1)
