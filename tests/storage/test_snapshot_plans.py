"""Rows of chosen snapshots are looked up, also before the database knows the tables."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest
from sqlalchemy.orm import Session

from tests.conftest import START
from tests.storage.conftest import job_run
from tests.storage.test_query_plans import explain, noting
from tracker.storage.database import Database
from tracker.storage.detectors import Version
from tracker.storage.estimates.job_runs import add_job_runs
from tracker.storage.estimates.snapshots import add_snapshots, list_intervals_of
from tracker.words import EXACT, STORED_METHODS

SNAPSHOTS = 2_000
CHOSEN = 200


CHOICE = range(1, SNAPSHOTS + 1, SNAPSHOTS // CHOSEN)


@pytest.fixture
def version(database: Database, detector_id: int) -> Version:
    """A version with many snapshots, as folds write them."""
    run = job_run(detector_id, snapshots=SNAPSHOTS)
    with database.write() as session:
        version = Version(detector_id=detector_id, name="v1", created_at=START)
        session.add(version)
        [run_id] = add_job_runs(session, [run])
        session.flush()
        its = {"detector_id": detector_id, "version_id": version.id}
        kept = {
            **its,
            "kind": "checkpoint",
            "computed_at": START,
            "job_run_id": run_id,
            "confidence_level": 0.95,
            "population": "live",
            "unclear": 0,
            "targeted_left_out": 0,
        }
        row = {"correct": 1, "labelled": 2, "accuracy": 0.5, "low": 0.1, "high": 0.9}
        places = [
            {**its, "sequence": number, "position": position, "formula": 1, **row}
            for number in range(1, SNAPSHOTS + 1)
            for position in range(3)
        ]
        kinds = {"method": STORED_METHODS, "measure": ("precision", "f1")}
        add_snapshots(
            session,
            [{**kept, "sequence": n, "labels": n} for n in range(1, SNAPSHOTS + 1)],
            *(
                _columns([{**one, key: name} for one in places for name in names])
                for key, names in kinds.items()
            ),
        )
    return version


def _columns(rows: Sequence[dict[str, Any]]) -> dict[str, list[Any]]:
    return {key: [row[key] for row in rows] for key in rows[0]}


LISTED: list[Callable[[Session, Version, Sequence[int]], Sequence[Any]]] = [
    partial(list_intervals_of, method="joint", positions=[0, 1, 2]),
    partial(list_intervals_of, method="exact"),
    partial(list_intervals_of, measure="precision", method=EXACT),
]


@pytest.mark.slow
def test_rows_of_a_chart_are_looked_up_without_statistics(
    database: Database, version: Version
) -> None:
    with database.write() as session:
        for listed in LISTED:
            with noting(session) as statements:
                rows = listed(session, version, CHOICE)
            assert len(rows) == 3 * CHOSEN
            [(sql, values)] = statements
            read = dict(reversed(one) for one in explain(session, sql, values))
            # There are few snapshots beside their rows.
            read.pop("snapshots")
            assert len(read) == 1
            assert set(read.values()) <= {"SEARCH", "Index Scan", "Bitmap Heap Scan"}
