"""The versions of a detector, which a read asks for once."""

from collections.abc import Sequence

from tests.conftest import START, Clock
from tests.databases import noted_statements
from tests.services.conftest import Bench
from tracker.storage.database import Database
from tracker.storage.detectors import Version, add_versions, list_versions


def names(found: Sequence[Version]) -> list[str]:
    return [one.name for one in found]


def test_a_read_asks_once_and_a_write_each_time(database: Database) -> None:
    detector_id = Bench(database, Clock(), ["YES", "NO"]).detector.id
    with database.write() as session:
        assert names(list_versions(session, detector_id)) == []
        add_versions(session, detector_id, ["v1"], created_at=START)
        assert names(list_versions(session, detector_id)) == ["v1"]
    with database.read() as session, noted_statements(database) as statements:
        for _ in range(3):
            assert names(list_versions(session, detector_id)) == ["v1"]
        assert names(list_versions(session, detector_id + 1)) == []
    assert sum("FROM versions" in one for one in statements) == 2
    with database.write() as session:
        add_versions(session, detector_id, ["v2"], created_at=START)
    with database.read() as session:
        assert names(list_versions(session, detector_id)) == ["v1", "v2"]
