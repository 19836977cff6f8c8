"""Imports with their progress, the pieces of their files, and the batches they wrote.

Each piece of rows is one transaction, which also notes how many rows are done, what was
added and in which batches.  The next worker goes on after the last committed piece, so
that no row is written twice, however often workers die.  The last piece also ends the
import and its task.

Such a transaction holds the task at its end.  If another worker has taken the task
meanwhile, it is refused, and the whole late piece is rolled back.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from datetime import datetime
from typing import Any, BinaryIO

from sqlalchemy import (
    JSON,
    CheckConstraint,
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Index,
    LargeBinary,
    Text,
    delete,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.files import PlacedFile
from tracker.storage.base import Base, BigId, Key, find_by_id, where
from tracker.storage.detectors import Detector
from tracker.words import ON_ERROR, ActorKind

PIECE_BYTES = 2**20
# The size of a file of which some is still to come; see ``arriving``.
STILL_ARRIVING = -1
STATES = WAITING, RUNNING, DONE, REJECTED, FAILED, UNDONE = (
    *("waiting", "running"),
    *("done", "rejected", "failed", "undone"),
)


class FileImport(Base):
    """A file that a worker imports; the row stays when it has."""

    __tablename__ = "imports"
    __table_args__ = (
        Index("ix_imports_id_unfinished", "id", **where("finished_at IS NULL")),
        CheckConstraint(f"on_error IN {ON_ERROR}", name="on_error"),
        CheckConstraint(f"state IN {STATES}", name="state"),
    )

    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id), primary_key=True)
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
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
class Progress:
    """How much of a file was read in this attempt."""

    rows_read: int = 0
    bytes_read: int = 0
    # How many rows there are, once all are checked.
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class Ending:
    """How an import ended; without a report, the report of its last piece stays."""

    state: str
    report: dict[str, Any] | None = None
    error: str | None = None


def find_import(session: Session, import_id: int) -> FileImport | None:
    found = find_by_id(session, FileImport, import_id)
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


def list_importing(session: Session, detector_ids: Collection[int]) -> set[int]:
    """Return the detectors among these that have a running import."""
    statement = select(FileImport.detector_id).where(
        FileImport.detector_id.in_(detector_ids),
        FileImport.started_at.is_not(None),
        FileImport.finished_at.is_(None),
    )
    return set(session.scalars(statement))


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


def start_import(session: Session, key: Key, *, at: datetime) -> None:
    change_import(session, key, state=RUNNING, started_at=at, rows_read=0, bytes_read=0)


def note_progress(session: Session, key: Key, progress: Progress) -> None:
    change_import(session, key, **_noted(progress))


def _noted(progress: Progress) -> dict[str, int]:
    noted = {"rows_read": progress.rows_read, "bytes_read": progress.bytes_read}
    return noted if progress.rows is None else noted | {"rows": progress.rows}


def finish_import(
    session: Session,
    key: Key,
    ending: Ending,
    progress: Progress | None,
    *,
    at: datetime,
) -> None:
    """End an import."""
    change_import(
        session,
        key,
        state=ending.state,
        error=ending.error,
        **({} if ending.report is None else {"report": ending.report}),
        **({} if progress is None else _noted(progress)),
        finished_at=at,
    )


def resume_import(session: Session, key: Key) -> bool:
    """Let an import that failed wait for a worker; False if it did not fail."""
    statement = (
        update(FileImport)
        .where(*_has(key), FileImport.state == FAILED, _HAS_ARRIVED)
        .values(state=WAITING, finished_at=None, error=None)
    )
    result: Any = session.execute(statement)
    return bool(result.rowcount == 1)


def change_import(session: Session, key: Key, **values: Any) -> None:
    # Not by its object, which may have been read before others changed the row.
    session.execute(update(FileImport).where(*_has(key)).values(values))


def _has(key: Key) -> tuple[ColumnElement[bool], ...]:
    detector_id, import_id = key
    return FileImport.detector_id == detector_id, FileImport.id == import_id


def is_arriving(session: Session, key: Key) -> bool:
    """Whether the file of an import is still arriving, and was not given up."""
    statement = select(FileImport.id).where(
        *_has(key), ~_HAS_ARRIVED, FileImport.state == WAITING
    )
    return session.scalar(statement) is not None


def give_up_arriving(session: Session, key: Key) -> bool:
    """Let nothing more be added to the file of an import; False if it is complete."""
    statement = update(FileImport).where(*_has(key), ~_HAS_ARRIVED)
    result: Any = session.execute(statement.values(state=FAILED))
    return bool(result.rowcount)


def delete_import(session: Session, key: Key) -> None:
    session.execute(delete(FileImport).where(*_has(key), ~_HAS_ARRIVED))


def _of_import() -> ForeignKeyConstraint:
    return ForeignKeyConstraint(
        ["detector_id", "import_id"], [FileImport.detector_id, FileImport.id]
    )


def _of(key: Key) -> dict[str, Any]:
    return dict(zip(("detector_id", "import_id"), key, strict=True))


class ImportPiece(Base):
    """A part of a file; all but the last are as large as can be."""

    __tablename__ = "import_pieces"
    __table_args__ = (_of_import(),)

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    import_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[bytes] = mapped_column(LargeBinary)


def add_pieces(session: Session, key: Key, *files: BinaryIO) -> int:
    """Store *files* as one, a piece at a time, and return its size."""
    size = 0
    for position, content in enumerate(cut_pieces(*files)):
        add_piece(session, key, position, content)
        size += len(content)
    return size


def add_piece(session: Session, key: Key, position: int, content: bytes) -> None:
    row = _of(key) | {"position": position, "content": content}
    session.execute(insert(ImportPiece), row)


def cut_pieces(*files: BinaryIO) -> Iterator[bytes]:
    """Yield *files*, each from its beginning, as the pieces of one."""
    held = b""
    for file in files:
        file.seek(0)
        while content := file.read(PIECE_BYTES - len(held)):
            held += content
            if len(held) == PIECE_BYTES:
                yield held
                held = b""
    if held:
        yield held


def measure_pieces(session: Session, key: Key) -> int:
    statement = select(func.coalesce(func.sum(func.length(ImportPiece.content)), 0))
    found = session.scalar(statement.filter_by(**_of(key)))
    return int(found or 0)


def delete_some_pieces(session: Session, key: Key, *, limit: int) -> bool:
    """Delete so many parts of a file; False if there was none."""
    some = select(ImportPiece.position).filter_by(**_of(key)).limit(limit)
    statement = delete(ImportPiece).filter_by(**_of(key))
    statement = statement.where(ImportPiece.position.in_(some))
    result: Any = session.execute(statement)
    return bool(result.rowcount)


class PieceFile(PlacedFile):
    """The file of an import, read in transactions that *reads* opens, by the piece."""

    def __init__(
        self,
        reads: Callable[[], AbstractContextManager[Session]],
        key: Key,
        size: int,
    ) -> None:
        super().__init__(size)
        self._reads = reads
        self._key = key
        self._held: tuple[int, bytes] = (-1, b"")
        # How much was read in all; some formats are not read from front to back.
        self.bytes_read = 0

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes, at most to the end of a piece."""
        position, offset = divmod(self._place, PIECE_BYTES)
        if self._held[0] != position:
            self._held = (position, self._load(position))
        left = max(0, self._size - self._place)
        found = self._held[1][offset : offset + min(len(buffer), left)]
        buffer[: len(found)] = found
        self._place += len(found)
        self.bytes_read += len(found)
        return len(found)

    def _load(self, position: int) -> bytes:
        mine = _of(self._key) | {"position": position}
        statement = select(ImportPiece.content).filter_by(**mine)
        with self._reads() as session:
            return session.scalar(statement) or b""


class ImportBatch(Base):
    """A batch of queries and labels that an import wrote."""

    __tablename__ = "import_batches"
    __table_args__ = (_of_import(), {"sqlite_with_rowid": False})

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    import_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    batch: Mapped[int] = mapped_column(BigId, primary_key=True)


def note_batches(session: Session, key: Key, batches: Sequence[int]) -> None:
    session.add_all(ImportBatch(batch=batch, **_of(key)) for batch in batches)
    session.flush()
