"""What tests of the storage have in common."""

import pytest

from tests.conftest import START, by
from tracker.services.detectors import NewDetector, create_detector
from tracker.storage.database import Database


@pytest.fixture
def detector_id(database: Database) -> int:
    new = NewDetector(name="door", question="Is it closed?", classes=["YES", "NO"])
    with database.write() as session:
        return create_detector(session, new, by(at=START)).id
