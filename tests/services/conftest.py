"""A detector to work on, and short ways to log and to label."""

from collections.abc import Callable, Iterable
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy.orm import Session

from tests.conftest import START, Clock, by
from tests.imports import import_rows
from tracker.services.deciding.comparison import Comparison, get_comparison
from tracker.services.detectors import NewDetector, change_version, create_detector
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.queries.queries import Query


class Bench:
    """A detector in a database, used as the API would use it."""

    def __init__(
        self,
        database: Database,
        clock: Clock,
        classes: list[str],
        name: str = "door",
    ) -> None:
        self.database = database
        self.clock = clock
        new = NewDetector(
            name=name,
            question="Is it closed?",
            classes=classes,
            label_sampling="random",
        )
        with database.write() as session:
            self.detector = create_detector(session, new, by(at=START))

    def attached(self, session: Session) -> Detector:
        return session.get_one(Detector, self.detector.id)

    def log(
        self, predicted: str | None, label: str | None = None, **more: object
    ) -> Query:
        with self.database.write() as session:
            new = NewQuery.model_validate(
                {"predicted": predicted, "label": label, **more}
            )
            query, _ = log_query(
                session, self.attached(session), new, by("alice", self.clock())
            )
            return query

    def log_all(self, rows: Iterable[dict[str, Any]]) -> None:
        """Log labelled queries at once, as a file brings them."""
        with self.database.write() as session:
            import_rows(
                session,
                self.attached(session),
                rows,
                by("alice", self.clock()),
                digest=uuid4().hex,
            )

    def label(self, query: Query, label: str, **more: object) -> None:
        with self.database.write() as session:
            add_label(
                session,
                query.id,
                NewLabel.model_validate({"label": label, **more}),
                by("bob", self.clock()),
            )

    def say(self, version: str, *, unseen: bool = True) -> None:
        """Say that a version was made without the labels that were there."""
        with self.database.write() as session:
            maker = by("carol", self.clock(), role="editor")
            change_version(
                session, self.attached(session), version, maker, unseen=unseen
            )

    def estimate(self, **choices: object) -> Estimate:
        with self.database.read() as session:
            return get_estimate(
                session,
                self.attached(session),
                computed_at=self.clock(),
                **choices,
            )

    def compare(self, **choices: object) -> Comparison:
        with self.database.read() as session:
            return get_comparison(
                session, self.attached(session), computed_at=self.clock(), **choices
            )


@pytest.fixture
def bench(database: Database, clock: Clock) -> Bench:
    return Bench(database, clock, ["YES", "NO"])


@pytest.fixture
def published(bench: Bench) -> Bench:
    """The published example: YES 23 of 28 correct, NO 41 of 44."""
    for predicted, label, number in PUBLISHED:
        for _ in range(number):
            bench.log(predicted, label)
    return bench


PUBLISHED = (("YES", "YES", 23), ("NO", "YES", 5), ("NO", "NO", 41), ("YES", "NO", 3))
Labeller = Callable[[Query, str], None]


@pytest.fixture
def bench_of(database: Database, clock: Clock) -> Callable[[str], Bench]:
    """Detectors by name, in one database."""

    def make(name: str) -> Bench:
        return Bench(database, clock, ["YES", "NO"], name=name)

    return make
