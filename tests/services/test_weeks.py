"""Weeks, days and months: what is known of the queries asked in each."""

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.conftest import START, by
from tests.databases import noted_statements
from tests.services.conftest import Bench
from tests.services.test_groups import change, import_csv
from tests.services.test_reservations import ask
from tracker.errors import InvalidInputError
from tracker.jobs.recompute import recompute_all
from tracker.jobs.retention import delete_old_queries
from tracker.services.estimates.weeks import SpanAccuracy, Weeks, get_weeks
from tracker.services.labelling.golds import NewGold, mark_gold
from tracker.services.queries.queries import erase_query
from tracker.stats import anytime, balanced_anytime, finite_anytime, span_share
from tracker.storage.base import dump_id
from tracker.storage.operations.retention import list_unlabelled
from tracker.storage.queries.queries import Query, find_query

# The week before the one in which the tests are; a version is born in it.
MONDAY = datetime(2026, 1, 19, tzinfo=UTC)
SUNDAY = MONDAY + timedelta(days=6, hours=23)
FIRST = 0.05 * span_share(0, are_days=False)


def weeks(bench: Bench, **choices: Any) -> Weeks:
    with bench.database.read() as session:
        known: dict[str, Any] = {"measure": "overall", "computed_at": bench.clock()}
        return get_weeks(session, bench.attached(session), **known | choices)


def the_week(bench: Bench, **choices: Any) -> SpanAccuracy:
    (found,) = weeks(bench, **choices).items
    return found


def log_some(bench: Bench, number: int, **more: Any) -> list[Query]:
    """Log queries of one week, in the order of their ranks."""
    given = {"asked_at": MONDAY} | more
    found = [bench.log("YES", **given) for _ in range(number)]
    return sorted(found, key=lambda one: one.rank or 0)


def label_all(bench: Bench, queries: Sequence[Query], wrong: int = 0) -> None:
    for number, query in enumerate(queries):
        bench.label(query, "NO" if number < wrong else "YES")


def bounds(
    k: int, m: int, size: int, *, unclear: int = 0, part: float = 1 / 2
) -> tuple[float, float]:
    error = FIRST * part
    low = finite_anytime(k, m, size, error)[0]
    return low / size, finite_anytime(k + unclear, m, size, error)[1] / size


def test_a_week_is_known_by_the_lowest_ranks_alone(bench: Bench) -> None:
    queries = log_some(bench, 60)
    for _ in range(30):
        (number,) = ask(bench, "alice")
        query = next(one for one in queries if one.id == number)
        bench.label(query, "NO" if query is queries[3] else "YES", sampling="random")

    found = the_week(bench)

    assert (found.queries, found.labels, found.drawn, found.correct) == (60, 30, 30, 29)
    assert (found.low, found.high) == pytest.approx(bounds(29, 30, 60), abs=1e-12)
    assert (found.basis, found.accuracy, found.unclear) == ("queries", 29 / 30, 0)
    assert (found.since, found.until) == (MONDAY, MONDAY + timedelta(days=7))


def test_labels_beyond_a_gap_are_not_of_the_sample(bench: Bench) -> None:
    queries = log_some(bench, 40)
    # Somebody picked what is wrong, wherever it ranks.
    label_all(bench, queries[20:30], wrong=10)
    label_all(bench, queries[:8])

    found = the_week(bench)

    assert found.labels == 18
    assert found.basis == "queries"
    # Ten are known to be wrong, and eight right: that alone says more.
    assert (found.drawn, found.correct) == (18, 8)
    assert (found.low, found.high) == (8 / 40, 30 / 40)


def test_a_week_that_is_all_labelled_is_known(bench: Bench) -> None:
    label_all(bench, log_some(bench, 12), wrong=3)
    found = the_week(bench)
    assert found.low == found.high == found.accuracy == 9 / 12


def test_how_a_query_was_picked_does_not_matter_where_there_is_no_gap(
    bench: Bench,
) -> None:
    change(bench, label_sampling=None)
    queries = log_some(bench, 40)
    for query in queries[:10]:
        bench.label(query, "YES", sampling="targeted")
    label_all(bench, queries[10:30])
    found = the_week(bench)
    assert (found.drawn, found.correct, found.basis) == (30, 30, "queries")


def test_what_has_no_clear_answer_is_bounded(bench: Bench) -> None:
    queries = log_some(bench, 80)
    label_all(bench, queries[:50])
    bench.label(queries[7], "UNCLEAR")
    with bench.database.write() as session:
        erase_query(session, dump_id("iq", queries[9].id), by())
        new = NewGold(label="YES")
        mark_gold(session, dump_id("iq", queries[50].id), new, by())
        erase_query(session, dump_id("iq", queries[51].id), by())

    found = the_week(bench)

    # The label of what was erased stays; of gold and of what was erased without a
    # label nobody is asked any more.
    assert (found.drawn, found.correct, found.unclear) == (52, 49, 3)
    assert (found.low, found.high) == bounds(49, 52, 80, unclear=3)
    assert found.accuracy == 1


def test_labels_that_came_with_their_queries_speak_for_themselves(bench: Bench) -> None:
    import_csv(
        bench,
        [
            "key,predicted,label,asked_at",
            *(
                f"{n},YES,{'NO' if n % 10 else 'YES'},2026-01-20T10:00:00Z"
                for n in range(80)
            ),
            # Nobody has labelled those, and they do not make the others a sample.
            *(f"more-{n},YES,,2026-01-20T10:00:00Z" for n in range(50)),
        ],
    )
    change(bench, measure="overall", target=0.5)

    found = the_week(bench)

    assert (found.basis, found.queries, found.drawn, found.correct) == (
        "labels",
        130,
        80,
        8,
    )
    interval = anytime(8, 80, 1 - FIRST / 4)
    assert found.low == pytest.approx(float(interval.low))
    assert found.high == pytest.approx(float(interval.high))
    assert found.below_target is True
    assert the_week(bench, measure="recall:YES").below_target is None


def test_what_a_version_is_put_to_because_of_its_label_is_not_drawn_from(
    bench: Bench,
) -> None:
    known = {"asked_at": MONDAY, "version": "v1"}
    for number in range(4):
        bench.label(bench.log("YES", input=f"i{number}", **known), "NO")
    log_some(bench, 3, version="v2")
    for number in range(4):
        bench.log("YES", input=f"i{number}", asked_at=MONDAY, version="v2")
    import_csv(
        bench,
        [
            "key,predicted,input,version,asked_at",
            *(f"{n},YES,i{n},v3,2026-01-20T10:00:00Z" for n in range(4)),
        ],
    )

    second = the_week(bench, version="v2")
    assert (second.queries, second.drawn, second.basis) == (3, 0, "queries")
    third = the_week(bench, version="v3")
    assert (third.basis, third.queries, third.drawn) == ("labels", 4, 0)


def test_a_label_taken_over_later_is_an_answer(bench: Bench) -> None:
    for version in ("v1", "v2"):
        bench.log("YES", input="i", asked_at=MONDAY, version=version)
    bench.label(bench.log("YES", input="i", asked_at=MONDAY, version="v0"), "YES")
    found = the_week(bench, version="v2")
    assert (found.queries, found.drawn, found.low, found.high) == (1, 1, 1, 1)


def test_a_group_counts_once(bench: Bench) -> None:
    queries = [
        bench.log("YES", group=f"g{number % 6}", asked_at=MONDAY)
        for number in range(24)
    ]
    alone = bench.log("YES", asked_at=MONDAY)
    label_all(bench, queries[:6], wrong=2)
    found = the_week(bench)
    assert (found.queries, found.low, found.high) == (7, 4 / 7, 5 / 7)
    bench.label(alone, "YES")
    with bench.database.write() as session:
        erase_query(session, dump_id("iq", queries[7].id), by())
    found = the_week(bench)
    assert (found.queries, found.drawn, found.low, found.high) == (7, 7, 5 / 7, 5 / 7)
    assert the_week(bench, measure="precision:YES").basis == "labels"


def test_precision_is_of_the_queries_with_that_prediction(bench: Bench) -> None:
    queries = log_some(bench, 20)
    for _ in range(9):
        bench.log("NO", asked_at=MONDAY)
    label_all(bench, queries[:15], wrong=1)
    found = the_week(bench, measure="precision:YES")
    assert (found.queries, found.drawn, found.correct) == (20, 15, 14)
    assert (found.low, found.high) == bounds(14, 15, 20)


def test_classes_by_their_labels_go_by_the_labels(bench: Bench) -> None:
    queries = log_some(bench, 100)
    label_all(bench, queries[:60], wrong=20)
    found = the_week(bench, measure="balanced")
    interval = balanced_anytime([40, 0], [40, 20], 1 - FIRST)
    assert (found.basis, found.drawn, found.accuracy) == ("labels", 60, 0.5)
    assert found.low == pytest.approx(float(interval.low))
    assert found.high == pytest.approx(float(interval.high))
    found = the_week(bench, measure="recall:NO")
    assert (found.drawn, found.correct, found.accuracy) == (20, 0, 0)
    assert found.high == pytest.approx(float(anytime(0, 20, 1 - FIRST).high))


def test_queries_that_arrive_late_close_a_week_once_more(bench: Bench) -> None:
    queries = log_some(bench, 60)
    label_all(bench, queries[:40])
    assert not the_week(bench).is_closed
    bench.clock.at += timedelta(days=1)
    first = the_week(bench)
    assert first.is_closed
    assert (first.low, first.high) == bounds(40, 40, 60)

    late = bench.log("YES", asked_at=SUNDAY)
    bench.label(late, "YES")
    bench.clock.at += timedelta(days=1)

    second = the_week(bench)
    drawn = 40 + (late.rank < queries[40].rank)
    assert second.is_closed
    assert (second.queries, second.drawn) == (61, drawn)
    assert (second.low, second.high) == bounds(drawn, drawn, 61, part=1 / 8)


def test_a_week_that_is_not_over_is_open(bench: Bench) -> None:
    label_all(bench, log_some(bench, 20, asked_at=START)[:5])
    found = the_week(bench)
    assert (found.since.isoformat(), found.is_closed) == (
        "2026-01-26T00:00:00+00:00",
        False,
    )
    assert found.drawn == 5


def test_where_queries_were_deleted_the_labels_speak(bench: Bench) -> None:
    queries = log_some(bench, 30)
    label_all(bench, queries[:20])
    later = log_some(bench, 30, asked_at=MONDAY + timedelta(days=7))
    label_all(bench, later[:20])
    bench.clock.at += timedelta(days=40)
    with bench.database.write() as session:
        ids = [
            place.query_id
            for place in list_unlabelled(
                session, before=bench.clock(), after=None, limit=1_000
            )
            if place.query_id in {one.id for one in queries}
        ]
    recompute_all(bench.database, worker="test", clock=bench.clock)
    with bench.database.write() as session:
        deleted = delete_old_queries(
            session, bench.detector.id, ids, deleted_at=bench.clock()
        )
    assert deleted == 10

    second, first = weeks(bench).items
    assert (first.basis, first.queries, first.drawn) == ("labels", 20, 20)
    assert (second.basis, second.queries, second.drawn) == ("queries", 30, 20)


def test_days_weeks_and_months_begin_in_a_time_zone(bench: Bench) -> None:
    bench.log("YES", asked_at=datetime(2026, 3, 29, 21, 59, tzinfo=UTC))
    bench.log("YES", asked_at=datetime(2026, 3, 29, 22, 0, tzinfo=UTC))
    bench.clock.at += timedelta(days=90)
    with bench.database.write() as session:
        bench.attached(session).time_zone = "Europe/Berlin"

    def begins(by_what: str) -> list[str]:
        found = weeks(bench, by=by_what)
        assert found.time_zone == "Europe/Berlin"
        return [f"{one.since:%m-%d %H} {one.until:%m-%d %H}" for one in found.items]

    # The clocks went forward on the 29th.
    assert begins("day") == ["03-29 22 03-30 22", "03-28 23 03-29 22"]
    assert begins("week") == ["03-29 22 04-05 22", "03-22 23 03-29 22"]
    assert begins("month") == ["02-28 23 03-31 22"]


def test_only_the_last_weeks_are_read(bench: Bench) -> None:
    for number in range(5):
        bench.log("YES", asked_at=MONDAY - timedelta(days=7 * number))
    bench.log("YES", asked_at=START + timedelta(days=400))
    found = weeks(bench, limit=3).items
    assert [one.since for one in found] == [
        MONDAY - timedelta(days=7 * number) for number in range(3)
    ]


def test_no_span_before_the_first_query_of_a_version_is_read(bench: Bench) -> None:
    """In them other versions may have answered millions."""
    bench.log("YES", asked_at=MONDAY - timedelta(days=70), version="v1")
    bench.log("YES", asked_at=MONDAY - timedelta(days=7), version="v2")
    bench.log("YES", asked_at=MONDAY, version="v2")
    with noted_statements(bench.database) as statements:
        assert len(weeks(bench, version="v2").items) == 2
    spans = [one for one in statements if "count(queries.rank)" in one]
    assert len(spans) == 2
    assert len(weeks(bench, version="v1").items) == 1


def test_without_queries_there_is_none_and_pooled_versions_are_refused(
    bench: Bench,
) -> None:
    assert weeks(bench).items == []
    with pytest.raises(InvalidInputError, match="one version"):
        weeks(bench, version="*")
    with pytest.raises(InvalidInputError):
        weeks(bench, measure="f1")


def test_a_rank_is_kept_through_every_way_that_queries_come(bench: Bench) -> None:
    import_csv(bench, ["key,predicted,label", "a,YES,", "b,YES,YES"])
    import_csv(bench, ["key,predicted,group,label", "c,YES,g,", "d,YES,h,NO"])
    logged = bench.log("YES", key="e")
    import_csv(bench, ["key,label", "a,YES", "e,NO"])
    with bench.database.read() as session:
        found = session.query(Query.key, Query.rank).all()
        again = find_query(session, logged.id)
    ranked = {key for key, rank in found if rank is not None}
    assert ranked == {"a", "c", "e"}
    assert again is not None
    assert (again.rank, again.queue_rank) == (logged.rank, None)


def test_groups_that_are_named_later_rank_their_queries_again(bench: Bench) -> None:
    for number in range(6):
        bench.log("YES", metadata={"session": f"s{number % 2}"}, asked_at=MONDAY)
    change(bench, group_by="metadata.session")
    recompute_all(bench.database, worker="test", clock=bench.clock)
    assert the_week(bench).queries == 2
