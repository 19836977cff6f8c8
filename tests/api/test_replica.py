"""Programs read of a detector from a replica, which may lag behind."""

import pytest

from tests.conftest import by, signed_in
from tests.services.conftest import Bench
from tracker.app import create_app
from tracker.errors import ConfigurationError
from tracker.services.people.keys import create_key, revoke_key


def test_a_replica_answers_reads_of_a_detector_and_the_database_all_else(
    request, database, new_database, clock, settings
):
    kind = "sqlite" if database.is_sqlite else "postgresql"
    replica = new_database(kind)
    for one, labels in ((database, 3), (replica, 1)):
        bench = Bench(one, clock, ["YES", "NO"])
        for number in range(labels):
            bench.log("YES", "YES", key=f"k{number}")
    with database.write() as session:
        key = create_key(session, "camera", "editor", by(at=clock()))
    app = create_app(settings, database, clock=clock, replica=replica)
    client, headers = app.test_client(), {"Authorization": f"Bearer {key}"}

    def get(path):
        return client.get(f"/api/v1{path}", headers=headers)

    def narrow_counts():
        return get("/detectors/door/estimate").json["labels"]

    assert narrow_counts() == 1
    assert len(get("/detectors/door/labels").json["items"]) == 1
    exported = get("/detectors/door/labels?format=csv")
    assert exported.data.count(b"k0") == 1
    assert b"k2" not in exported.data
    # Who took them along is written where everybody looks.
    for one, number in ((database, 2), (replica, 0)):
        with one.read() as session:
            statement = "SELECT count(*) FROM audit_events WHERE action = 'exported'"
            found = session.connection().exec_driver_sql(statement).scalar()
            assert found == number

    body = {"key": "new", "predicted": "YES", "label": "YES"}
    logged = client.post("/api/v1/detectors/door/queries", json=body, headers=headers)
    assert logged.status_code == 201
    # What was just written is there by its id, and on every page.
    assert get(f"/queries/{logged.json['id']}").status_code == 200
    page = signed_in(app, "ann", "viewer").get("/detectors/det_1")
    assert "4 labels" in page.text or ">4<" in page.text
    assert narrow_counts() == 1

    with database.write() as session:
        revoke_key(session, "camera", by(at=clock()))
    assert get("/detectors/door/estimate").status_code == 401


def test_a_replica_of_another_kind_is_refused(database, new_database, settings):
    other = new_database("postgresql" if database.is_sqlite else "sqlite")
    with pytest.raises(ConfigurationError, match="TRACKER_DATABASE_READ_URL"):
        create_app(settings, database, replica=other)
