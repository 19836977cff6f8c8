"""Where every query gets its label, days prove something once they have all labels."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest

from tests.services.conftest import Bench
from tests.services.test_awaited import give, log, queries
from tests.services.test_calendar import START, aim, rows_of, told
from tests.services.test_weeks import the_week


def log_days(bench: Bench, rows: list[dict[str, Any]]) -> None:
    names = ("key", "predicted", "asked_at")
    bench.log_all({name: one[name] for name in names} for one in rows)


def test_labels_of_mistakes_that_come_first_prove_no_change(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.9, label_sampling="all")
    rows = rows_of(((60, 0.97, 30), (20, 0.97, 30)))
    log_days(bench, rows)
    before, after = rows[: 60 * 30], rows[60 * 30 :]
    give(bench, before)
    # Complaints come within the hour, and that all was well is known much later.
    complaints = [one for one in after if one["predicted"] != one["label"]]
    some = [one for one in after if one["predicted"] == one["label"]]
    give(bench, complaints + some[:60])
    recompute()

    assert bench.estimate().change is None
    assert told(bench) == []
    # Were the labels drawn at random, it would have dropped.
    aim(bench, label_sampling="random")
    assert bench.estimate().change.state == "dropped"
    aim(bench, label_sampling="all")
    give(bench, some[60:])
    recompute()
    assert bench.estimate().change is None
    assert told(bench) == []


def label_a_fall_but_one(bench: Bench) -> dict[str, Any]:
    """Label all of a fall but one query of its first day, and return that one."""
    aim(bench, target=0.9, label_sampling="all")
    rows = rows_of(((80, 0.98, 30), (20, 0.6, 30)))
    log_days(bench, rows)
    late = rows[80 * 30]
    give(bench, [one for one in rows if one is not late])
    return late


def test_a_change_is_told_once_its_days_have_all_labels(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    late = label_a_fall_but_one(bench)
    recompute()
    waits = bench.estimate()
    assert (waits.change, told(bench)) == (None, [])
    assert waits.decision.span.since is None

    give(bench, [late])
    waiting = bench.estimate()
    recompute()
    found = bench.estimate()
    assert found.change.state == waiting.change.state == "dropped"
    assert abs(found.change.since - (START + timedelta(days=80))) <= timedelta(days=1)
    assert found.decision.verdict == "missed"
    (event,) = told(bench)
    assert event.data["since"] == found.change.since.isoformat()


def test_a_targeted_label_leaves_its_day_open(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    late = label_a_fall_but_one(bench)
    give(bench, [late], sampling="targeted")
    recompute()
    assert (bench.estimate().change, told(bench)) == (None, [])


@pytest.mark.parametrize("measure", ["recall:YES", "balanced", "overall"])
def test_a_week_is_below_the_target_only_whatever_its_other_labels_will_be(
    bench: Bench, measure: str
) -> None:
    aim(bench, target=0.9, measure=measure, label_sampling="all")
    rows = queries(400, 60)
    log(bench, rows)
    give(bench, rows[370:])
    found = the_week(bench, measure=measure)
    assert found.below_target is False
    assert found.high > 0.9
    aim(bench, label_sampling="random")
    assert the_week(bench, measure=measure).below_target is True
    aim(bench, label_sampling="all")
    give(bench, rows[:370])
    found = the_week(bench, measure=measure)
    assert (found.labels, found.accuracy) == (400, pytest.approx(0.85))


def test_what_waits_bounds_the_labels_that_are_shown(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    """Not all of a version by those since its change."""
    aim(bench, label_sampling="all")
    rows = rows_of(((80, 0.98, 30), (20, 0.6, 30)))
    log_days(bench, rows)
    give(bench, rows[:-1])
    recompute()
    now, whole = bench.estimate(method="anytime"), bench.estimate(span="all")
    assert now.span.since is not None
    assert now.bounded is not None
    assert (whole.span.since, whole.bounded) == (None, None)
