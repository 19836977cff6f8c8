"""The file of an import, in pieces, and the batches that it wrote."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import Any, BinaryIO

from sqlalchemy import ForeignKey, Index, LargeBinary, delete, func, insert, select
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.files import PlacedFile
from tracker.storage.base import Base, BigId
from tracker.storage.imports.files import FileImport

PIECE_BYTES = 2**20


class ImportPiece(Base):
    """A part of a file; all but the last are as large as can be."""

    __tablename__ = "import_pieces"

    import_id: Mapped[int] = mapped_column(
        ForeignKey(FileImport.id), primary_key=True, autoincrement=False
    )
    position: Mapped[int] = mapped_column(primary_key=True, autoincrement=False)
    content: Mapped[bytes] = mapped_column(LargeBinary)


def add_pieces(session: Session, import_id: int, *files: BinaryIO) -> int:
    """Store *files* as one, a piece at a time, and return its size."""
    size = 0
    for position, content in enumerate(cut_pieces(*files)):
        add_piece(session, import_id, position, content)
        size += len(content)
    return size


def add_piece(session: Session, import_id: int, position: int, content: bytes) -> None:
    row = {"import_id": import_id, "position": position, "content": content}
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


def measure_pieces(session: Session, import_id: int) -> int:
    statement = select(func.coalesce(func.sum(func.length(ImportPiece.content)), 0))
    found = session.scalar(statement.where(ImportPiece.import_id == import_id))
    return int(found or 0)


def delete_some_pieces(session: Session, import_id: int, *, limit: int) -> bool:
    """Delete so many parts of a file; False if there was none."""
    mine = ImportPiece.import_id == import_id
    some = select(ImportPiece.position).where(mine).limit(limit)
    statement = delete(ImportPiece).where(mine, ImportPiece.position.in_(some))
    result: Any = session.execute(statement)
    return bool(result.rowcount)


class PieceFile(PlacedFile):
    """The file of an import, read in transactions that *reads* opens, by the piece."""

    def __init__(
        self,
        reads: Callable[[], AbstractContextManager[Session]],
        import_id: int,
        size: int,
    ) -> None:
        super().__init__(size)
        self._reads = reads
        self._import_id = import_id
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
        statement = select(ImportPiece.content).where(
            ImportPiece.import_id == self._import_id, ImportPiece.position == position
        )
        with self._reads() as session:
            return session.scalar(statement) or b""


class ImportBatch(Base):
    """A batch of queries and labels that an import wrote."""

    __tablename__ = "import_batches"
    __table_args__ = (Index(None, "import_id"),)

    batch: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    import_id: Mapped[int] = mapped_column(ForeignKey(FileImport.id))


def note_batches(session: Session, import_id: int, batches: Sequence[int]) -> None:
    """Note batches that an import wrote."""
    session.add_all(ImportBatch(batch=batch, import_id=import_id) for batch in batches)
    session.flush()
