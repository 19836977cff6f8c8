"""Changes of the accuracy by the calendar, whatever the order in which labels come."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time, timedelta
from typing import Any

import pytest
from sqlalchemy import ColumnElement, literal, select

from tests.conftest import Clock, by
from tests.services.conftest import Bench
from tracker.clock import utc_now
from tracker.jobs.loop import Loop
from tracker.jobs.recompute import Recompute
from tracker.services.detectors import DetectorChange, change_detector
from tracker.services.estimates.charts import build_chart
from tracker.services.estimates.counts import count_asked
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.measures import add_measure, score_own
from tracker.services.estimates.recount import recount
from tracker.services.estimates.report import Report, add_sentence
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.pending import add_batch
from tracker.storage.estimates.projections import DAYS, list_projections
from tracker.storage.telling import Event
from tracker.words import UNSTATED

START = date(2025, 9, 1)
Part = tuple[int, float, int]
"""Days, accuracy, and labels of each day."""
BACKLOG: Sequence[Part] = ((80, 0.98, 30), (20, 0.6, 30))


def rows_of(parts: Sequence[Part], *, start: date = START) -> list[dict[str, Any]]:
    """Labelled queries of days, of two classes in turn, in the order of the days.

    The wrong ones stand evenly among the right ones, so that nothing is by chance.
    """
    rows, day, wrong = [], start, 0.0
    for days, accuracy, number in parts:
        for _ in range(days):
            for place in range(number):
                wrong += 1 - accuracy
                is_right = wrong < 1
                wrong -= not is_right
                label, other = ("YES", "NO") if place % 2 else ("NO", "YES")
                at = datetime.combine(day, time(8), UTC) + timedelta(minutes=place)
                rows.append(
                    {
                        "key": f"{day}-{place}",
                        "predicted": label if is_right else other,
                        "label": label,
                        "asked_at": at.isoformat(),
                    }
                )
            day += timedelta(days=1)
    return rows


def aim(bench: Bench, **said: Any) -> None:
    with bench.database.write() as session:
        change_detector(session, bench.attached(session), DetectorChange(**said), by())


def told(bench: Bench, prefix: str = "accuracy.") -> list[Event]:
    with bench.database.read() as session:
        found = session.scalars(select(Event).order_by(Event.id)).all()
    return [one for one in found if one.type.startswith(prefix)]


def numbers(found: Estimate) -> dict[str, Any]:
    dump = found.dump()
    for name in ("computed_at", "last_label_at"):
        del dump[name]
    if dump["change"]:
        del dump["change"]["at"]
    return dump


def test_a_fall_is_dated_and_the_verdict_is_of_the_days_since(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.9)
    bench.log_all(rows_of(BACKLOG))
    waiting = bench.estimate()
    recompute()
    found = bench.estimate()

    fall = START + timedelta(days=80)
    assert found.change is not None
    assert (found.change.state, found.change.measure) == ("dropped", "balanced")
    assert abs(found.change.since - fall) <= timedelta(days=1)
    assert found.change.since_from <= fall <= found.change.since_to
    before = found.change.before
    assert before.low < 0.98 < before.high
    assert before.labels == 30 * (found.change.since - START).days
    # The headline of the API is of the whole version, the decision of the days since.
    assert found.labels == 3_000
    assert found.decision is not None
    assert found.decision.verdict == "missed"
    assert found.decision.span.since == found.change.since
    assert found.decision.labels == 3_000 - before.labels
    assert 0.45 < found.decision.low < 0.6 < found.decision.high < 0.75
    # Labels that wait say the same, but for the class shares, which a fold freezes.
    assert waiting.change.since == found.change.since
    assert waiting.decision.span == found.decision.span
    assert waiting.decision.verdict == "missed"

    now = bench.estimate(span="now")
    assert now.labels == found.decision.labels
    decides = bench.estimate(method="anytime")
    assert decides.balanced.low == found.decision.low
    assert decides.balanced.high == found.decision.high
    whole = bench.estimate(method="anytime", span="all")
    assert whole.labels == 3_000
    assert whole.balanced.low > 0.85
    # All begin with the sentence of the page, which says since when.
    with bench.database.read() as session:
        detector = bench.attached(session)
        said = {
            add_sentence(detector, add_measure(one, "recall")).sentence
            for one in (found, now, decides, whole)
        }
    (sentence,) = said
    assert sentence is not None
    assert sentence.startswith(f"Since {found.change.since:%-d %b %Y} it is right ")

    (event,) = told(bench)
    assert event.type == "accuracy.dropped"
    assert event.data["since"] == found.change.since.isoformat()
    (verdict,) = told(bench, "verdict.")
    assert verdict.data["verdict"] == "missed"
    assert verdict.data["since"] == found.change.since.isoformat()
    assert (verdict.data["low"], verdict.data["high"]) == (
        found.decision.low,
        found.decision.high,
    )


@pytest.mark.parametrize("measure", ["balanced", "overall", "precision:YES"])
def test_without_a_target_the_sentence_has_the_interval_that_would_decide(
    bench: Bench, recompute: Callable[[], None], measure: str
) -> None:
    aim(bench, measure=measure, target=0.9)
    bench.log_all(rows_of(BACKLOG))
    recompute()
    decision = bench.estimate().decision
    aim(bench, target=None)
    found = bench.estimate(method="anytime")
    with bench.database.read() as session:
        detector = bench.attached(session)
        made = add_sentence(detector, add_measure(found, measure))
        assert made.sentence == Report(detector, found, 0).sentence
    own = score_own(made, measure)
    assert (own.low, own.high) == (decision.low, decision.high)


def test_another_target_is_told_without_another_label(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.9)
    bench.log_all(rows_of([(60, 0.97, 20)]))
    recompute()
    aim(bench, target=0.99)
    recompute()
    met, missed = told(bench, "verdict.")
    assert (met.data["verdict"], met.data["target"]) == ("met", 0.9)
    assert (missed.data["verdict"], missed.data["target"]) == ("missed", 0.99)
    # It is not a change of the verdict by one target.
    assert missed.data["before"] is None


def test_the_chart_marks_a_change_where_its_labels_had_come(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    rows = rows_of(BACKLOG)
    bench.log_all(rows[:600])
    recompute()
    # One import tells it, and makes many snapshots of one instant.
    bench.log_all(rows[600:])
    recompute()
    with bench.database.read() as session:
        chart = build_chart(
            session, bench.attached(session), window="200", computed_at=utc_now()
        )
    places = [
        layer["data"]["values"][0]["x"]
        for layer in chart["vconcat"][0]["layer"]
        if str(layer["mark"].get("text", "")).startswith("balanced accuracy dropped")
    ]
    assert places == [3_000]


def test_labels_of_january_after_those_of_february_tell_of_january(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.85)
    february = rows_of([(28, 0.97, 40)], start=date(2026, 2, 1))
    bench.log_all(february)
    recompute()
    assert bench.estimate().decision.verdict == "met"
    january = rows_of([(31, 0.8, 40)], start=date(2026, 1, 1))
    for part in range(0, len(january), 310):
        bench.log_all(january[part : part + 310])
        recompute()

    assert {one.type for one in told(bench)} == {"accuracy.rose"}
    found = bench.estimate()
    assert found.change.state == "rose"
    assert abs(found.change.since - date(2026, 2, 1)) <= timedelta(days=3)
    assert found.decision.verdict == "met"
    assert [one.data["verdict"] for one in told(bench, "verdict.")] == ["met"]


def is_wrong(row: dict[str, Any]) -> bool:
    return row["predicted"] != row["label"]


ORDERS: dict[str, Callable[[list[dict[str, Any]]], list[dict[str, Any]]]] = {
    "by day": list,
    "newest first": lambda rows: rows[::-1],
    "shuffled": lambda rows: random.Random(7).sample(rows, len(rows)),
    "right first": lambda rows: sorted(rows, key=is_wrong),
    "wrong first": lambda rows: sorted(rows, key=is_wrong, reverse=True),
}


def test_the_order_of_a_file_changes_nothing(
    bench_of: Callable[[str], Bench], recompute: Callable[[], None]
) -> None:
    rows = rows_of([(40, 0.97, 20), (20, 0.6, 20)])
    found = []
    for name, order in ORDERS.items():
        bench = bench_of(name)
        aim(bench, target=0.85)
        bench.log_all(order(rows))
        recompute()
        one = numbers(bench.estimate(method="anytime"))
        for place in ("detector", "name", "class_shares", "warnings"):
            del one[place]
        found.append(one)
    assert found[0]["change"]["state"] == "dropped"
    assert found[0]["decision"]["verdict"] == "missed"
    assert found[0] == found[1] == found[2] == found[3] == found[4]
    kinds = [one.type for one in told(bench)]
    assert kinds == ["accuracy.dropped"] * len(ORDERS)


def test_one_by_one_gives_what_one_file_gives(
    bench_of: Callable[[str], Bench], recompute: Callable[[], None]
) -> None:
    rows = rows_of([(20, 0.95, 4), (15, 0.3, 4)])
    draw = random.Random(3)
    shuffled = draw.sample(rows, len(rows))
    whole, single = bench_of("whole"), bench_of("single")
    whole.log_all(shuffled)
    # All queries are known before the first label.
    bare = [{k: v for k, v in row.items() if k != "label"} for row in shuffled]
    single.log_all(bare)
    for number, row in enumerate(shuffled):
        single.log_all([{"key": row["key"], "label": row["label"]}])
        if number % 23 == 0:
            recompute()
    recompute()
    changes = [numbers(one.estimate())["change"] for one in (whole, single)]
    # The class shares are those of the labels when there were first a hundred.
    for one in changes:
        del one["before"]["low"], one["before"]["high"]
    assert changes[0] == changes[1]
    assert changes[0]["state"] == "dropped"
    with whole.database.read() as session:
        assert recount(session, single.attached(session)) == []


def test_a_change_is_told_once_and_another_one_again(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    for part in (
        rows_of([(60, 0.97, 20)]),
        rows_of([(15, 0.7, 20)], start=START + timedelta(days=60)),
        rows_of([(15, 0.7, 20)], start=START + timedelta(days=75)),
        rows_of([(40, 0.97, 20)], start=START + timedelta(days=90)),
    ):
        bench.log_all(part)
        recompute()
    assert [one.type for one in told(bench)] == ["accuracy.dropped", "accuracy.rose"]
    change = bench.estimate().change
    assert change.state == "rose"
    assert change.before.high < 0.85


def test_a_reference_tells_of_a_fall_that_has_little_before_it(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.85)
    fall = START + timedelta(days=6)
    bench.log_all(rows_of([(6, 0.98, 20), (40, 0.88, 20)]))
    recompute()
    assert bench.estimate().change is None
    # It may be stated once the labels are there, and is taken back likewise.
    aim(bench, reference=0.95)
    found = bench.estimate()
    assert (found.change.state, found.change.reference) == ("dropped", 0.95)
    assert abs(found.change.since - fall) <= timedelta(days=2)
    assert found.decision.span.since == found.change.since
    recompute()
    assert numbers(bench.estimate()) == numbers(found)
    (event,) = told(bench)
    assert (event.type, event.data["reference"]) == ("accuracy.dropped", 0.95)
    aim(bench, reference=None)
    assert bench.estimate().change is None


def test_what_was_always_below_the_reference_is_judged_by_all_its_days(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.8, reference=0.95)
    bench.log_all(rows_of([(30, 0.88, 20)]))
    waiting = bench.estimate()
    recompute()
    found = bench.estimate()
    assert found.change == waiting.change.model_copy(update={"at": found.change.at})
    assert (found.change.since, found.change.before.labels) == (START, 0)
    assert (found.decision.span.since, found.decision.labels) == (None, 600)
    aim(bench, reference=None)
    assert bench.estimate().decision.low == found.decision.low
    recompute()
    assert len(told(bench)) == 1


def test_what_was_known_once_has_the_change_of_that_time(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.9)
    rows = rows_of([(40, 0.98, 20), (10, 0.6, 20), (40, 0.98, 20)])
    found: list[tuple[datetime, Estimate]] = []
    for part in (rows[:800], rows[800:1000], rows[1000:]):
        bench.log_all(part)
        recompute()
        found.append((bench.clock(), bench.estimate(method="anytime")))
    states = [one.change and one.change.state for _, one in found]
    assert states == [None, "dropped", "rose"]
    for at, then in found:
        known = bench.estimate(method="anytime", as_known_at=at)
        assert known.change == then.change
        assert known.span == then.span
        assert known.decision == then.decision
        assert known.balanced == then.balanced
        assert known.labels == then.labels
        whole = bench.estimate(as_known_at=at)
        assert (whole.span.since, whole.decision) == (None, then.decision)
    # What is picked beside it has no change, then as now.
    window = bench.estimate(window="200", as_known_at=found[1][0])
    assert (window.span, window.change) == (None, None)


def test_what_is_not_dated_is_not_live(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, label_sampling=None)
    bench.log_all(rows_of(BACKLOG))
    recompute()
    found = bench.estimate()
    assert found.population.kind == UNSTATED
    assert found.change is None
    assert told(bench) == []
    aim(bench, label_sampling="random")
    assert bench.estimate().change is not None


@pytest.mark.parametrize("name", ["since", "until"])
def test_a_span_that_was_picked_has_no_change(
    bench: Bench, recompute: Callable[[], None], name: str
) -> None:
    bench.log_all(rows_of([(30, 0.9, 5)]))
    recompute()
    at = datetime.combine(START + timedelta(days=10), time(), UTC)
    found = bench.estimate(**{name: at})
    assert (found.span, found.change, found.decision) == (None, None, None)


def test_before_a_change_the_whole_has_its_part_of_the_error(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    aim(bench, target=0.8)
    bench.log_all(rows_of([(10, 0.9, 20)]))
    recompute()
    found = bench.estimate(method="anytime")
    at_part = bench.estimate(method="anytime", until=datetime(2027, 1, 1, tzinfo=UTC))
    assert found.change is None
    assert found.decision.low == found.balanced.low < at_part.balanced.low


def test_days_are_counted_again_in_another_time_zone(
    bench: Bench, recompute: Callable[[], None], clock: Clock
) -> None:
    # At 23:30 in UTC it is the next day in Berlin.
    rows = rows_of([(3, 0.5, 4)])
    for row in rows:
        at = datetime.fromisoformat(row["asked_at"])
        row["asked_at"] = at.replace(hour=23, minute=30).isoformat()
    bench.log_all(rows)
    recompute()
    handler = Recompute(
        database=bench.database, worker="w", clock=clock, time_zone="Europe/Berlin"
    )
    loop = Loop(bench.database, "w", [handler], clock)

    def days() -> list[str]:
        with bench.database.read() as session:
            (version,) = list_versions(session, bench.detector.id)
            return [one.key for one in list_projections(session, version, DAYS)]

    assert days() == ["2025-09-01", "2025-09-02", "2025-09-03"]
    loop.run()
    assert days() == ["2025-09-02", "2025-09-03", "2025-09-04"]
    bench.log_all([{**rows[0], "key": "one more"}])
    recompute()
    with bench.database.read() as session:
        detector = bench.attached(session)
        assert detector.time_zone == "Europe/Berlin"
        assert recount(session, detector) == []
        versions = list_versions(session, detector.id)
        start = datetime(2025, 9, 2, tzinfo=detector.zone)
        found = count_asked(session, detector, versions, since=start, until=None)
    assert sum(found.cells.values()) == 13
    assert loop.run() == 0


def test_nothing_is_told_while_a_file_is_being_imported(
    bench: Bench, recompute: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    aim(bench, target=0.85)
    is_importing = [True]

    def importing(_: object) -> ColumnElement[bool]:
        return literal(is_importing[0])

    monkeypatch.setattr("tracker.services.estimates.fold.is_importing", importing)
    rows = sorted(rows_of([(30, 0.9, 20)]), key=is_wrong)
    bench.log_all(rows[:500])
    recompute()
    assert told(bench, "verdict.") == told(bench) == []
    bench.log_all(rows[500:])
    recompute()
    is_importing[0] = False
    # The end of an import adds a batch, be it an empty one.
    with bench.database.write() as session:
        add_batch(session, bench.detector.id, created_at=bench.clock())
    recompute()
    (verdict,) = told(bench, "verdict.")
    assert (verdict.data["verdict"], verdict.data["labels"]) == ("met", 600)
    assert bench.estimate().decision.verdict == "met"
