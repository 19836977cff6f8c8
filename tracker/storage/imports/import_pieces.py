"""The file of an import, in pieces, and the batches that it wrote."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

from sqlalchemy import ForeignKeyConstraint, LargeBinary, delete, func, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.files import PlacedFile
from tracker.storage.base import Base, BigId, Key
from tracker.storage.imports.files import FileImport

PIECE_BYTES = 2**20


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
        self, reads: Callable[[], AbstractContextManager[Session]], key: Key, size: int
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
    """Note batches that an import wrote."""
    session.add_all(ImportBatch(batch=batch, **_of(key)) for batch in batches)
    session.flush()
