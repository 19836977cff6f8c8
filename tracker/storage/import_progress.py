"""How far an import is that runs just now, for all other processes to see.

On PostgreSQL it is noted in the row of the import, by transactions of their own.  On
SQLite the import's transaction keeps every other writer out, so it is noted in a small
file beside the database, which the processes of one machine share as they share that.
Such a file is never needed: where it is missing, the row says what was last known.
"""

from contextlib import suppress
from datetime import datetime
from pathlib import Path

from sqlalchemy.engine import URL
from sqlalchemy.orm import Session

from tracker.storage.database import Database
from tracker.storage.imports import (
    RUNNING,
    Claim,
    FileImport,
    Progress,
    renew_import,
)


def note_progress(
    database: Database, claim: Claim, progress: Progress, *, at: datetime
) -> bool:
    """Note how far an import is and hold it for longer; False if it is lost.

    It opens a transaction of its own, because it runs beside that of the import.
    On SQLite it opens none, and nobody can take the import meanwhile; see
    storage/imports.py.
    """
    if not database.is_sqlite:
        with database.write() as session:
            return renew_import(session, claim, progress, at=at)
    path = _path(database.engine.url, claim.import_id)
    written = path.with_suffix(".part")
    # It only tells how far the import is, which is no reason to end it.
    with suppress(OSError):
        written.touch(mode=0o600)
        written.write_text(f"{progress.rows} {progress.bytes}")
        written.replace(path)
    return True


def find_progress(session: Session, file_import: FileImport) -> Progress:
    """Return how far an import is, as far as is known."""
    known = Progress(file_import.rows_read, file_import.bytes_read)
    bind = session.get_bind()
    if file_import.state != RUNNING or bind.dialect.name != "sqlite":
        return known
    with suppress(OSError, ValueError):
        text = _path(bind.engine.url, file_import.id).read_text()
        rows, size = map(int, text.split())
        return Progress(rows, size)
    return known


def forget_progress(database: Database, import_id: int) -> None:
    """Delete what was noted outside of the database."""
    if database.is_sqlite:
        path = _path(database.engine.url, import_id)
        for each in (path, path.with_suffix(".part")):
            with suppress(OSError):
                each.unlink()


def _path(url: URL, import_id: int) -> Path:
    return Path(f"{url.database}-imp_{import_id}.rows")
