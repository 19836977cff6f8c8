"""Queries that were never labelled, made old, and what is left of them."""

from datetime import timedelta

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tests.conftest import by
from tests.services.conftest import Bench
from tracker.jobs.retention import Retention
from tracker.services.labelling.queues import QueueChoice, build_queue, reserve
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.snapshots import iter_intervals
from tracker.storage.labelling.reservations import Reservation, Skip
from tracker.storage.queries.queries import Query

DAYS = 30


def age(bench: Bench, by: timedelta = timedelta(days=DAYS, seconds=1)) -> None:
    bench.clock.at += by


def retention_of(bench: Bench, **more: int) -> Retention:
    return Retention(database=bench.database, days=DAYS, clock=bench.clock, **more)


def run(bench: Bench, **more: int) -> int:
    return retention_of(bench, **more).run()


def there(bench: Bench) -> set[int]:
    with bench.database.read() as session:
        return set(session.scalars(select(Query.id)))


def count(bench: Bench, rows_of: type[Reservation | Skip]) -> int:
    with bench.database.read() as session:
        return session.scalars(select(func.count()).select_from(rows_of)).one()


def ask(bench: Bench, labeler: str) -> int:
    def work(session: Session) -> int:
        queue = build_queue(
            session, bench.attached(session), QueueChoice(), by("alice")
        )
        at = bench.clock()
        return reserve(session, queue, by(labeler, at))[0].id

    return bench.database.run(work)


def numbers(bench: Bench) -> object:
    """Everything that is computed of labels: history, estimate, counts."""
    with bench.database.read() as session:
        versions = list_versions(session, bench.detector.id)
        return (
            [tuple(row) for v in versions for row in iter_intervals(session, [v])],
            [(v.name, v.queries) for v in versions],
            bench.estimate().confusion,
        )
