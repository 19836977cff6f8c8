"""The batches of queries and labels that an import wrote."""

from collections.abc import Sequence

from sqlalchemy import ForeignKey, Index
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId
from tracker.storage.imports.files import FileImport


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
