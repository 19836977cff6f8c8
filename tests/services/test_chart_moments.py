"""Which moments of a long history a chart shows."""

from collections.abc import Callable
from itertools import pairwise
from types import SimpleNamespace

import pytest

from tests.conftest import START, Clock, by
from tests.imports import import_rows
from tests.services.conftest import Bench
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.estimates.charts import (
    _choose_snapshots,
    _load_series,
    _spread,
)
from tracker.services.estimates.projections import QUIET
from tracker.storage.database import Database
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.snapshots import find_newest_snapshot

MOST = 250


@pytest.mark.parametrize(
    "labels",
    [
        [1] * 260,
        [1, 2] * 200,
        [*range(1, 126), *range(125, 0, -1), *range(1, 126)],
        [*range(1, 101), *[100] * 300, *range(101, 1_001)],
        list(range(1, 1_001)),
        [*range(1, 126), 200, *range(126, 260)],
    ],
    ids=["one label", "two", "up and down", "corrections", "labels", "one early"],
)
def test_no_more_moments_than_fit_are_shown_in_order(labels: list[int]) -> None:
    marks = [
        SimpleNamespace(sequence=place, labels=count)
        for place, count in enumerate(labels)
    ]

    shown = _spread(marks, MOST)

    assert len(shown) == MOST
    assert (shown[0], shown[-1]) == (marks[0], marks[-1])
    ids = [mark.sequence for mark in shown]
    assert all(a < b for a, b in pairwise(ids))


def test_the_newest_snapshot_is_among_the_most(
    database: Database, clock: Clock, recompute: Callable[[], None]
) -> None:
    new = NewDetector(name="door", question="Closed?", classes=["YES", "NO"])
    # The labels end between two checkpoints, at 103 labels and at 105.
    rows = [{"predicted": "YES", "label": "YES"}] * 104
    with database.write() as session:
        detector = create_detector(session, new, by(at=START))
        import_rows(session, detector, rows, by(at=START), digest="d")
        detector_id = detector.id
    recompute()
    clock.at += QUIET
    recompute()

    with database.read() as session:
        [version] = list_versions(session, detector_id)
        newest = find_newest_snapshot(session, version)
        shown = _choose_snapshots(session, version, most=5)

    assert newest is not None
    assert newest.kind != "checkpoint"
    assert len(shown) == 5
    assert shown[-1] == newest.sequence


def test_a_chart_ends_with_the_live_estimate(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    bench.log_all([{"predicted": "YES", "label": "YES"}] * 104)
    recompute()
    bench.log("YES", "NO")

    with bench.database.read() as session:
        detector = bench.attached(session)
        [version] = list_versions(session, detector.id)
        given = (session, detector, version, "exact")
        now = _load_series(*given, most_classes=2, by=None)
        then = _load_series(*given, most_classes=2, by=bench.clock())

    assert [one.points[-1].labels for one in now] == [105] * 3
    assert [one.points[-1].labels for one in then] == [103] * 3
    assert [now[2].points[-1].correct, now[2].points[-1].labelled] == [0, 1]
