"""The product over one database, to be done the same to as another one."""

from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import select, text

from tests.conftest import by
from tests.databases import Databases
from tests.services.folds import compute_fold
from tracker.app import create_app
from tracker.errors import ConflictError
from tracker.jobs.loop import Loop
from tracker.jobs.recompute import Recompute
from tracker.jobs.retention import Retention
from tracker.services.estimates.fold import Fold, store_folds
from tracker.services.estimates.recount import recount
from tracker.services.people.keys import create_key
from tracker.settings import Settings
from tracker.storage.detectors import find_detector_by_name
from tracker.storage.estimates.pending import plan_recomputes
from tracker.storage.operations import schema
from tracker.storage.tasks import RECOMPUTE, take

DETECTOR = "door"
# What differs from run to run, and what only one of the two databases needs.
_UNEQUAL = {
    "api_keys": {"digest"},
    "job_runs": {"seconds"},
    "input_locks": {"detector_id", "number"},
}
_COLUMNS = {
    table.name: [one for one in table.c if one.name not in _UNEQUAL.get(table.name, ())]
    for table in schema.metadata.sorted_tables
}
_SEQUENCES = {
    "sqlite": "SELECT name, seq FROM sqlite_sequence",
    "postgresql": "SELECT replace(sequencename, '_id_seq', ''), last_value"
    " FROM pg_sequences WHERE schemaname = 'public' AND last_value IS NOT NULL",
}
_SET_SEQUENCE = text("SELECT setval(CAST(:name || '_id_seq' AS regclass), :number)")
_RESTART = text("SELECT setval(CAST(:name || '_id_seq' AS regclass), 1, false)")
Tables = dict[str, list[Any]]


class Answer(NamedTuple):
    """What both databases must say alike, to the byte."""

    status: int
    content: bytes


class Side:
    """The product over one database, which is emptied before each sequence."""

    def __init__(
        self, databases: Databases, chosen: Settings, clock: Callable[[], datetime]
    ) -> None:
        self._databases, self._clock = databases, clock
        self.database = databases.borrow()
        self._client = create_app(chosen, self.database, clock=clock).test_client()

    def close(self) -> None:
        self._databases.give_back(self.database)

    def begin(self) -> None:
        """Start over, as if nothing had ever been written."""
        self._databases.renew(self.database)
        with self.database.write() as session:
            key = create_key(session, "k", "admin", by(at=self._clock()))
        self._headers = {"Authorization": f"Bearer {key}"}
        self._paused: list[Fold] = []

    def restart(self) -> None:
        self.database.close()

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        answer = self._client.open(
            f"/api/v1{path}",
            method=method,
            json=body,
            headers=self._headers,
            buffered=True,
        )
        return Answer(answer.status_code, answer.data)

    def run_job(self, worker: str) -> int:
        handler = Recompute(database=self.database, worker=worker, clock=self._clock)
        return Loop(self.database, worker, [handler], self._clock).run()

    def delete_old(self) -> int:
        """What the worker does for queries that nobody has labelled for a day."""
        return Retention(database=self.database, clock=self._clock, days=1).run()

    def begin_fold(self) -> None:
        """Take up the detector, compute, and stop there as one who is paused."""
        with self.database.write() as session:
            plan_recomputes(session, at=self._clock())
            take(session, RECOMPUTE, "paused", at=self._clock(), limit=64)
        with self.database.read() as session:
            detector = find_detector_by_name(session, DETECTOR)
            assert detector is not None
            fold = compute_fold(session, detector)
        self._paused += [fold] if fold else []

    def end_folds(self) -> list[bool]:
        return [self._store(self._paused.pop()) for _ in range(len(self._paused))]

    def _store(self, fold: Fold) -> bool:
        at = self._clock()
        try:
            with self.database.write() as session:
                store_folds(session, [fold], worker="paused", computed_at=at, seconds=1)
        except ConflictError:
            return False
        return True

    def recount(self) -> list[Any]:
        with self.database.read() as session:
            detector = find_detector_by_name(session, DETECTOR)
            assert detector is not None
            return recount(session, detector)

    def read_tables(self) -> Tables:
        """Every row of every table, as a mapping, in one order."""
        with self.database.read() as session:
            return {
                name: sorted(
                    map(dict, session.execute(select(*columns)).mappings()), key=repr
                )
                for name, columns in _COLUMNS.items()
                if columns
            }

    def sequences(self) -> dict[str, int]:
        """The last id that each table has given out."""
        with self.database.look() as connection:
            kind = self.database.engine.dialect.name
            found = connection.execute(text(_SEQUENCES[kind]))
            return {name: number for name, number in found if number}

    def set_sequences(self, numbers: dict[str, int]) -> None:
        """Give out ids from *numbers* on.

        PostgreSQL leaves out the ids of what was refused, and SQLite does not.
        """
        own = self.sequences()
        if own == numbers:
            return
        with self.database.look() as connection:
            for name in own.keys() | numbers.keys():
                values = {"name": name, "number": numbers.get(name)}
                connection.execute(
                    _SET_SEQUENCE if name in numbers else _RESTART, values
                )
