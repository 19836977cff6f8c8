"""Estimates that are averages over all queries of a span, not over its labels."""

import random
from datetime import UTC, datetime, timedelta
from typing import Any
from uuid import uuid4

import pytest
from sqlalchemy import select

from tests.conftest import START, by
from tests.imports import import_rows
from tests.services.conftest import Bench
from tracker.errors import InvalidInputError
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.estimates.estimate import Estimate, get_estimate
from tracker.stats import clopper_pearson
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.queries.queries import Query

FIRST = datetime(2026, 1, 12, tzinfo=UTC)
SPAN: dict[str, Any] = {
    "average_of": "span",
    "since": FIRST,
    "until": FIRST + timedelta(days=14),
}


def test_only_labels_below_the_first_gap_count(bench: Bench) -> None:
    queries = [bench.log("YES", asked_at=FIRST) for _ in range(30)]
    by_rank = sorted(queries, key=lambda one: one.rank or 0)
    bench.log("YES", asked_at=FIRST - timedelta(days=1))
    for query in by_rank[20:]:
        bench.label(query, "NO")
    for query in by_rank[:12]:
        bench.label(query, "YES", sampling="targeted")
    bench.label(by_rank[12], "UNCLEAR")

    found = bench.estimate(**SPAN)

    assert (found.labels, found.correct, found.unclear) == (12, (12, 0), 1)
    assert (found.average_of, found.population.kind) == ("span", "live")
    assert found.decision is None
    assert bench.estimate().average_of == "labels"
    assert bench.estimate().labelled == (0, 10)


@pytest.mark.parametrize(
    "choice",
    [
        {"since": None},
        {"until": None},
        {"include_targeted": True},
        {"where": ["predicted:YES"]},
        {"version": "*"},
        {"population": "replayed"},
    ],
)
def test_a_span_takes_no_other_choice(bench: Bench, choice: dict[str, Any]) -> None:
    bench.log("YES", asked_at=FIRST)
    with pytest.raises(InvalidInputError, match="average_of"):
        bench.estimate(**SPAN | choice)


def test_with_groups_there_is_no_such_sample(bench: Bench) -> None:
    bench.log("YES", asked_at=FIRST, group="g")
    with pytest.raises(InvalidInputError, match="groups"):
        bench.estimate(**SPAN)


WEEK, LABELLED, LABELLED_LATER = 300, 60, 12


def live(database: Database, name: str) -> tuple[Estimate, Estimate, float]:
    """Live through two weeks, of which 95 % and 70 % of the queries are right.

    The queue goes by the ranks: in the first week the lowest fifth is labelled, then
    a few that arrived since and rank lower than all that still wait.  Return the
    estimates by the sample of the span and by all labels, and how many are right.
    """
    draw = random.Random(name)
    new = NewDetector(name=name, question="?", classes=["YES", "NO"])
    with database.write() as session:
        detector = create_detector(session, new, by(at=START))
        detector.queue_seed = name

    def write(rows: list[dict[str, Any]]) -> None:
        with database.write() as session:
            attached = session.get_one(Detector, detector.id)
            who = by("alice", START)
            import_rows(session, attached, rows, who, digest=uuid4().hex)

    truths: dict[str, str] = {}
    for day, share, number in ((12, 0.95, LABELLED), (19, 0.7, LABELLED_LATER)):
        keys = [f"{day}-{place}" for place in range(WEEK)]
        right = sorted(keys, key=lambda _: draw.random())[: round(share * WEEK)]
        truths |= {key: "YES" if key in right else "NO" for key in keys}
        asked = f"2026-01-{day}T10:00:00Z"
        write([{"key": key, "predicted": "YES", "asked_at": asked} for key in keys])
        with database.read() as session:
            waiting = session.scalars(
                select(Query.key)
                .where(Query.detector_id == detector.id, Query.label.is_(None))
                .order_by(Query.queue_rank)
                .limit(number)
            ).all()
        drawn = {"sampling": "random"}
        write([{"key": key, "label": truths[str(key)], **drawn} for key in waiting])
    with database.read() as session:
        attached = session.get_one(Detector, detector.id)
        both = [
            get_estimate(session, attached, computed_at=START, **choice)
            for choice in (SPAN, {})
        ]
    return both[0], both[1], sum(one == "YES" for one in truths.values()) / 2 / WEEK


@pytest.mark.slow
def test_a_sample_covers_the_average_over_the_span_and_all_labels_do_not(
    database: Database,
) -> None:
    covered = [0, 0]
    lives = 40
    for number in range(lives):
        *both, truth = live(database, f"life {number}")
        for place, found in enumerate(both):
            low, high = clopper_pearson(sum(found.correct), found.labels, 0.95)
            covered[place] += bool(low <= truth <= high)
    # All labels have too many of the first week, whose queries are answered better.
    assert covered[0] >= 0.9 * lives
    assert covered[1] <= 0.6 * lives
