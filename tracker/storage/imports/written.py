"""How far an import is, and the batches of queries and labels that it wrote."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId
from tracker.storage.imports.files import FileImport, change_import


class ImportBatch(Base):
    """A batch of queries and labels that an import wrote."""

    __tablename__ = "import_batches"
    __table_args__ = (Index(None, "import_id"),)

    batch: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    import_id: Mapped[int] = mapped_column(ForeignKey(FileImport.id))


@dataclass(frozen=True, slots=True)
class WrittenPiece:
    """How far an import is after a piece, and the batches of that piece."""

    rows: int
    rows_done: int
    report: dict[str, Any]
    batches: Sequence[int]


def note_piece(session: Session, import_id: int, piece: WrittenPiece) -> None:
    """Note a piece in its transaction, for a worker that holds the task."""
    noted = {"rows": piece.rows, "rows_done": piece.rows_done, "report": piece.report}
    change_import(session, import_id, **noted)
    note_batches(session, import_id, piece.batches)


def note_batches(session: Session, import_id: int, batches: Sequence[int]) -> None:
    """Note batches that an import wrote."""
    session.add_all(ImportBatch(batch=batch, import_id=import_id) for batch in batches)
    session.flush()
