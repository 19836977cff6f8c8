"""An import whose detector is archived before it has ended."""

import io
from collections.abc import Callable
from hashlib import sha256

import pytest
from sqlalchemy import func, select

from tests.conftest import START, by
from tracker.errors import ConflictError
from tracker.services.archive import archive_detector
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.writing import import_file
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.queries.queries import Query


@pytest.mark.thorough
def test_nothing_is_imported_into_what_was_archived_meanwhile(
    new_database: Callable[[str], Database],
) -> None:
    # On SQLite such a write cannot begin meanwhile; test_staged_imports.py has its way.
    database = new_database("postgresql")
    said = {"name": "door", "question": "Is it?", "classes": ["YES", "NO"]}
    with database.write() as session:
        detector = create_detector(session, NewDetector.model_validate(said), by())
        number = detector.id
    content = b"predicted\n" + b"YES\n" * 10

    def archive(_rows: int) -> None:
        with database.write() as session:
            archive_detector(session, session.get_one(Detector, number), by(at=START))

    file = RowFile("csv", sha256(content).hexdigest(), io.BytesIO(content))

    def import_all() -> None:
        with database.write() as session:
            detector = session.get_one(Detector, number)
            import_file(session, detector, file, by(), on_progress=archive)

    with pytest.raises(ConflictError, match="archived meanwhile"):
        import_all()
    with database.read() as session:
        assert session.scalar(select(func.count()).select_from(Query)) == 0
