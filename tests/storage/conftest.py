"""What tests of the storage have in common."""

import pytest

from tests.conftest import START, by
from tracker.services.detectors import NewDetector, create_detector
from tracker.storage.database import Database
from tracker.storage.estimates.job_runs import JobRun


@pytest.fixture
def detector_id(database: Database) -> int:
    new = NewDetector(name="door", question="Is it closed?", classes=["YES", "NO"])
    with database.write() as session:
        return create_detector(session, new, by(at=START)).id


def job_run(detector_id: int, *, snapshots: int) -> JobRun:
    """Return a run of the job that wrote so many snapshots."""
    return JobRun(
        detector_id=detector_id,
        worker="w",
        started_at=START,
        seconds=0.0,
        outcome="done",
        batches=0,
        labels=0,
        snapshots=snapshots,
    )
