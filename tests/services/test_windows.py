"""Estimates of the last labels, and as they were known at an instant."""

import random
from collections.abc import Callable
from datetime import UTC, timedelta
from typing import Any

import pytest

from tests.conftest import START
from tests.services.conftest import Bench
from tracker.errors import InvalidInputError
from tracker.services.estimates.cohorts import get_cohorts
from tracker.services.estimates.recount import recount
from tracker.services.estimates.windows import roll
from tracker.shapes import Moment
from tracker.stats import window_intervals
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.cells import pool
from tracker.storage.estimates.replay import count_known, count_known_days
from tracker.storage.queries.queries import Query


def known(bench: Bench, **choices: Any) -> Any:
    found = bench.estimate(**choices)
    return (
        found.labels,
        found.unclear,
        found.targeted_left_out,
        found.corrections,
        found.unstated,
        found.last_label_at,
        found.confusion,
    )


@pytest.mark.slow
def test_replay_gives_what_was_known_at_every_moment(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    draw = random.Random(4)
    queries: list[Query] = []
    moments = []
    for _ in range(40):
        if queries and draw.random() < 0.4:
            label = draw.choice(["YES", "NO", "UNCLEAR"])
            bench.label(draw.choice(queries), label, sampling="random")
        else:
            label = draw.choice(["YES", "NO", "UNCLEAR", None])
            sampling = draw.choice(["random", "targeted", None])
            queries.append(
                bench.log(draw.choice(["YES", "NO"]), label, sampling=sampling)
            )
        moments.append((bench.clock(), known(bench)))
    recompute()

    for instant, expected in moments:
        assert known(bench, as_known_at=instant) == expected
    assert known(bench, as_known_at=bench.clock()) == known(bench)


def test_what_was_known_is_the_same_whatever_was_folded_and_the_clock_said(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    draw = random.Random(5)
    queries: list[Query] = []
    instants = []
    for _ in range(60):
        # Often on the next day, and at times set back.
        bench.clock.at += timedelta(hours=draw.choice([1, 1, 9, 30, -1, -40]))
        if queries and draw.random() < 0.5:
            label = draw.choice(["YES", "NO", "UNCLEAR"])
            bench.label(draw.choice(queries), label, sampling="random")
        else:
            asked_at = bench.clock.at - timedelta(days=draw.randrange(4))
            queries.append(bench.log("YES", "NO", asked_at=asked_at.isoformat()))
        instants.append(bench.clock.at)
        if draw.random() < 0.2:
            recompute()

    with bench.database.read() as session:
        detector = bench.attached(session)
        (version,) = list_versions(session, detector.id)
        for at in instants:
            kept = count_known_days(session, detector.id, version.id, UTC, at)
            read = count_known(session, detector.id, [version.id], known_at=at)
            found = pool(kept.values())
            # The clock was set back, so the newest label may be replaced by then.
            newest = max(one for one in instants if one <= at)
            assert (found.cells, found.last_label_at) == (read.cells, newest)
        assert recount(session, detector) == []


def test_a_window_holds_the_last_scored_labels(bench: Bench) -> None:
    for label in ["NO"] * 5 + ["UNCLEAR"] + ["YES"] * 8:
        bench.log("YES", label)
    bench.log("YES", "NO", sampling="targeted")
    found = bench.estimate(window="10")

    assert (found.labels, found.correct) == (10, (8, 0))
    assert found.window == "10"
    assert found.decision is None
    assert bench.estimate(window="3").correct == (3, 0)
    assert bench.estimate(window="500").labels == 13


def test_a_window_of_days_goes_by_when_queries_were_asked(bench: Bench) -> None:
    for days in (1, 6, 8, 30):
        asked_at = (START - timedelta(days=days)).isoformat()
        bench.log("YES", "YES", asked_at=asked_at)

    assert bench.estimate(window="7d").labels == 2
    assert bench.estimate(window="12h").labels == 0


def test_a_window_as_it_was_known(bench: Bench) -> None:
    for label in ["NO"] * 5 + ["YES"] * 5:
        bench.log("YES", label)
    then = bench.clock()
    for _ in range(7):
        bench.log("YES", "NO")

    assert bench.estimate(window="5", as_known_at=then).correct == (5, 0)
    assert bench.estimate(window="5").correct == (0, 0)


def test_what_is_corrected_stays_in_its_place(bench: Bench) -> None:
    old = [bench.log("YES", "NO") for _ in range(6)]
    moments = [Moment(**dict(bench.estimate().whole), labels=6, computed_at=START)]
    for _ in range(6):
        bench.log("NO", "NO")
    then = bench.clock()
    for query in old[:4]:
        bench.label(query, "YES")

    # Corrected labels are chosen ones, and no sample of how it is lately.
    for choices in ({}, {"as_known_at": bench.clock()}, {"as_known_at": then}):
        found = bench.estimate(window="6", **choices)
        assert (found.correct, found.labelled) == ((0, 6), (0, 6))
    assert bench.estimate(window="12").correct == (4, 6)
    known_then = bench.estimate(window="12", as_known_at=then)
    assert (known_then.correct, known_then.labelled) == ((0, 6), (0, 12))
    # The line of a chart is drawn through the labels there were by each moment.
    (one,) = line_of(bench, "6", moments)
    assert (one.labels, one.correct, one.labelled) == (6, 4, 6)


def test_the_interval_of_a_window_is_proven_for_drifting_accuracies(
    bench: Bench,
) -> None:
    for predicted, label in [("YES", "YES")] * 9 + [("NO", "YES"), ("NO", "NO")] * 1:
        bench.log(predicted, label)
    found = bench.estimate(window="11")
    whole = bench.estimate()

    low, high = window_intervals([9, 1], [10, 1], 0.95)
    assert [one.low for one in found.classes] == low.tolist()
    assert [one.high for one in found.classes] == high.tolist()
    # With a single wrong label it is wider than that of a steady accuracy.
    assert found.classes[0].high == 1 > whole.classes[0].high
    assert found.balanced.low <= whole.balanced.low


@pytest.mark.parametrize(
    "window", ["0", "-1", "5x", "7D", "100001", "", "1e3", "\u0665"]
)
def test_what_is_no_window_is_refused(bench: Bench, window: str) -> None:
    with pytest.raises(InvalidInputError, match="such as 500"):
        bench.estimate(window=window)


def test_a_window_has_one_method_and_no_other_beginning(bench: Bench) -> None:
    with pytest.raises(InvalidInputError, match="only the method exact"):
        bench.estimate(window="5", method="joint")
    with pytest.raises(InvalidInputError, match="since"):
        bench.estimate(window="5", since=START)


def cohorts(bench: Bench, **choices: Any) -> Any:
    with bench.database.read() as session:
        return get_cohorts(
            session, bench.attached(session), computed_at=START, **choices
        )


def log_late(bench: Bench, day: int, labelled: int, queries: int, hours: float) -> None:
    asked_at = START.replace(hour=0) - timedelta(days=day)
    for number in range(queries):
        query = bench.log("YES", asked_at=asked_at.isoformat())
        if number < labelled:
            at = asked_at + timedelta(hours=hours)
            bench.label(query, "YES", labelled_at=at.isoformat())


def test_the_labels_of_a_young_day_cannot_stand_for_it(bench: Bench) -> None:
    for day in (5, 6, 7):
        log_late(bench, day, labelled=8, queries=10, hours=60)
    log_late(bench, 0, labelled=1, queries=10, hours=2)
    found = cohorts(bench)

    assert [(one.queries, one.labelled) for one in found.items] == [
        (10, 1),
        *[(10, 8)] * 3,
    ]
    assert [one.is_young for one in found.items] == [True, False, False, False]
    assert found.items[1].median_delay_seconds == 60 * 3600
    assert found.usual_share == 0.8
    assert "1 of 10 have a label, while 80 % of older ones do" in found.warning


def log_with_late_yes(bench: Bench) -> None:
    """Twenty queries a day, 85 % right; labels of YES come after 73 hours."""
    day_of_queries = (
        ("NO", "NO", 14, 1),
        ("YES", "NO", 1, 1),
        ("YES", "YES", 3, 73),
        ("NO", "YES", 2, 73),
    )
    for day in range(1, 15):
        asked_at = START - timedelta(days=day, hours=-1)
        for predicted, label, number, hours in day_of_queries:
            at = asked_at + timedelta(hours=hours)
            for _ in range(number):
                query = bench.log(predicted, asked_at=asked_at.isoformat())
                if at <= START:
                    bench.label(query, label, labelled_at=at.isoformat())


@pytest.mark.slow
def test_a_class_whose_labels_come_late_is_missing_from_the_newest_queries(
    bench: Bench,
) -> None:
    """The worked example of docs/statistics-monitoring.md."""
    log_with_late_yes(bench)
    whole, days7, days3 = (
        bench.estimate(window=window) for window in ("14d", "7d", "3d")
    )
    assert [(sum(one.correct), one.labels) for one in (days3, days7)] == [
        (42, 45),
        (42 + 68, 45 + 80),
    ]
    assert (sum(whole.correct), whole.labels) == (229, 265)
    assert days7.balanced.accuracy == whole.balanced.accuracy == (14 / 15 + 3 / 5) / 2
    assert days3.balanced.accuracy is None

    found = cohorts(bench)
    assert [one.is_young for one in found.items] == [True] * 3 + [False] * 11
    assert "predicted as YES 3 of 12 have a label, while 100 % of" in found.warning


def test_without_a_backlog_there_is_no_warning(bench: Bench) -> None:
    for day in range(4):
        log_late(bench, day, labelled=5, queries=6, hours=1)
    found = cohorts(bench)

    assert found.warning is None
    assert cohorts(bench, by="week").items[0].queries == 24
    assert cohorts(bench, limit=2).items[-1].start.isoformat() == "2026-01-30"
    assert cohorts(bench, version="*").version == "*"


def test_before_the_first_query_there_is_no_cohort(bench: Bench) -> None:
    assert cohorts(bench).items == []


def line_of(bench: Bench, window: str, moments: list[Moment]) -> list[Moment]:
    with bench.database.read() as session:
        detector = bench.attached(session)
        (version,) = list_versions(session, detector.id)
        return roll(
            session,
            detector,
            version,
            moments,
            window=window,
            at=bench.clock(),
        )


@pytest.mark.thorough
@pytest.mark.parametrize("window", ["5", "3d"])
def test_the_line_of_a_window_is_the_estimate_at_each_moment(
    bench: Bench, window: str
) -> None:
    draw = random.Random(7)
    moments, expected = [], []
    for number in range(30):
        asked_at = (START - timedelta(days=30 - number)).isoformat()
        label = draw.choice(["YES", "NO", "UNCLEAR"])
        bench.log(draw.choice(["YES", "NO"]), label, asked_at=asked_at)
        found = bench.estimate()
        if not found.labels:
            continue
        # The instant of a moment is when its newest query was asked.
        at = START - timedelta(days=30 - number)
        end = {"labels": found.labels, "computed_at": at}
        moments.append(Moment(**dict(found.whole), **end))
        if window == "5":
            last = bench.estimate(window=window)
        else:
            since = at - timedelta(days=3) + timedelta(microseconds=1)
            last = bench.estimate(since=since)
        expected.append((found.labels, last.whole.correct, last.whole.labelled))

    line = line_of(bench, window, moments)

    whole = [one for one in expected if window == "3d" or one[0] >= 5]
    assert [(one.labels, one.correct, one.labelled) for one in line] == [
        one for one in whole if one[2]
    ]
    if window == "5":
        assert dict(line[-1]).items() >= dict(bench.estimate(window="5").whole).items()


def test_a_line_has_at_most_120_moments_and_ends_with_the_last(bench: Bench) -> None:
    for number in range(10):
        bench.log("YES", "YES" if number else "NO")
    score = dict(bench.estimate().whole)
    moments = [
        Moment(**score, labels=10, computed_at=START + timedelta(seconds=number))
        for number in range(1_000)
    ]
    line = line_of(bench, "5", moments)
    assert 100 < len(line) <= 120
    assert line[-1].computed_at == moments[-1].computed_at
    assert line_of(bench, "11", moments) == []
