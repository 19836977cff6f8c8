"""Imports that a worker carries out: their files taken in, and looked at later."""

from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any, BinaryIO

from sqlalchemy.orm import Session

from tracker.services.fields import missing
from tracker.services.import_reports import ImportReport, RowError
from tracker.storage import imports as storage
from tracker.storage.base import parse_id
from tracker.storage.detectors import Detector
from tracker.storage.import_pieces import add_pieces
from tracker.storage.imports import FileImport


@dataclass(frozen=True, slots=True)
class NewImport:
    """What is known of a file when it is taken in, and who sent it."""

    format: str
    on_error: str
    sha256: str
    actor: str
    actor_kind: str
    address: str


def add_import(
    session: Session,
    detector: Detector,
    file: BinaryIO,
    new: NewImport,
    *,
    created_at: datetime,
) -> FileImport:
    """Store *file* for a worker to import into *detector*.

    Once the caller's transaction is committed it is imported, whatever ends before.
    """
    file_import = FileImport(
        **asdict(new), detector_id=detector.id, bytes=0, created_at=created_at
    )
    session.add(file_import)
    session.flush()
    file_import.bytes = add_pieces(session, file_import.id, file)
    session.flush()
    return file_import


def get_import(session: Session, reference: str) -> FileImport:
    """Return the import of that id; raises NotFoundError."""
    import_id = parse_id("imp", reference)
    found = None if import_id is None else storage.find_import(session, import_id)
    if found is None:
        raise missing("import", reference)
    return found


def pack_report(report: ImportReport) -> dict[str, Any]:
    """Return *report* as it is stored."""
    return asdict(report)


def unpack_report(file_import: FileImport) -> ImportReport | None:
    """Return what an import did and what was wrong with it, None if it is not known."""
    if file_import.report is None:
        return None
    errors = [RowError(**error) for error in file_import.report["errors"]]
    return ImportReport(**{**file_import.report, "errors": errors})
