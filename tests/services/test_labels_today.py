"""How many labels were given today."""

from datetime import timedelta

import pytest

from tests.services.conftest import Bench
from tracker.services import labels
from tracker.services.labels import Today, count_today


def today(bench: Bench) -> Today:
    with bench.database.read() as session:
        detector = bench.attached(session)
        return count_today(session, detector, labeler="bob", at=bench.clock())


def test_labels_are_counted_since_midnight_for_one_and_for_all(bench: Bench) -> None:
    gate = Bench(bench.database, bench.clock, ["YES", "NO"], name="gate")
    assert today(bench) == Today(0, 0, is_at_least=False)
    query = bench.log("YES", "NO")
    bench.label(query, "YES")
    bench.label(query, "UNCLEAR")
    gate.label(gate.log("YES"), "NO")
    assert today(bench) == Today(2, 3, is_at_least=False)
    assert today(gate) == Today(1, 1, is_at_least=False)
    bench.clock.at = bench.clock.at.replace(hour=23, minute=59)
    assert today(bench).by_all == 3
    bench.clock.at += timedelta(minutes=2)
    assert today(bench) == Today(0, 0, is_at_least=False)


def test_beyond_the_newest_the_count_says_that_there_may_be_more(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(labels, "_MOST_RECENT", 3)
    for _ in range(2):
        bench.log("YES", "NO")
    assert not today(bench).is_at_least
    for _ in range(2):
        bench.log("YES", "NO")
    assert today(bench) == Today(0, 3, is_at_least=True)
