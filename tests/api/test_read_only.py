"""A PostgreSQL that takes no writes: a standby, or one that was set so."""

import pytest
from sqlalchemy import text

from tests.api.problems import assert_problem


@pytest.mark.parametrize("database", ["postgresql"], indirect=True)
def test_reads_are_answered_and_writes_may_be_tried_again(api, database, door):
    query = {"key": "one", "predicted": "YES", "label": "NO"}
    assert api.post("/detectors/door/queries", query).status_code == 201
    change = f"ALTER DATABASE {database.engine.url.database} SET"
    with database.write() as session:
        session.execute(text(f"{change} default_transaction_read_only = on"))
    # What is connected already keeps what it was told.
    database.engine.dispose()
    try:
        for path in ("", "/door/estimate", "/door/history", "/door/queries"):
            assert api.get(f"/detectors{path}").status_code == 200
        # The audit log says who took labels along.
        assert_problem(api.get("/detectors/door/labels"), 503)
        rows = [{"key": f"k{number}", "predicted": "YES"} for number in range(3)]
        for path, body in (
            ("/detectors/door/queries", {**query, "key": "two"}),
            ("/detectors/door/import", {"items": rows}),
            ("/detectors/door/recompute", None),
        ):
            refused = api.post(path, body)
            problem = assert_problem(refused, 503)
            assert "takes no writes: it is a standby" in str(problem["detail"])
            assert int(refused.headers["Retry-After"]) > 0
    finally:
        with database.write() as session:
            session.execute(text("SET TRANSACTION READ WRITE"))
            session.execute(text(f"{change} default_transaction_read_only = off"))
    # The connection that was refused is not used again, so nothing need be restarted.
    api.post("/detectors/door/queries", {**query, "key": "two"})
    assert api.post("/detectors/door/queries", {**query, "key": "3"}).status_code == 201
