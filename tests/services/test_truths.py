"""The truth belongs to the input, and within a version an input is scored once."""

import random
import threading
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from tests.conftest import Clock, by
from tests.databases import get_by_id
from tests.imports import import_rows
from tests.services.conftest import Bench
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.recount import recount
from tracker.services.evidence.truths import join_input
from tracker.services.imports.reports import RejectedImportError
from tracker.services.labelling.labels import describe_label, list_label_history
from tracker.services.queries.queries import NewQuery, erase_query, log_query
from tracker.storage.base import dump_id
from tracker.storage.database import Database
from tracker.storage.queries.queries import Query

Recompute = Callable[[], None]


def load(bench: Bench, query: Query) -> Query:
    with bench.database.read() as session:
        return get_by_id(session, Query, query.id)


def state(bench: Bench, query: Query) -> tuple[str | None, str]:
    found = load(bench, query)
    return found.label, found.sampling


def send_rows(bench: Bench, rows: list[Mapping[str, Any]], digest: str = "rows") -> Any:
    with bench.database.write() as session:
        return import_rows(
            session,
            bench.attached(session),
            rows,
            by("alice", bench.clock()),
            digest=digest,
        )


def numbers(found: Estimate) -> list[tuple[int, int]]:
    return list(zip(found.correct, found.labelled, strict=True))


def assert_recounted(bench: Bench) -> None:
    with bench.database.read() as session:
        assert recount(session, bench.attached(session)) == []


def test_a_query_takes_over_the_label_of_its_input(bench: Bench) -> None:
    bench.log("NO", "YES", input="a", version="v1", sampling="random")
    query = bench.log("YES", input="a", version="v2")
    assert (query.label, query.sampling, query.is_repeat) == ("YES", "random", False)
    assert numbers(bench.estimate(version="v1")) == [(0, 1), (0, 0)]
    assert numbers(bench.estimate(version="v2")) == [(1, 1), (0, 0)]
    with bench.database.read() as session:
        [label] = list_label_history(
            session, get_by_id(session, Query, query.id), "ann"
        )
        shown = describe_label(label, is_current=True)
    assert (shown.labeler, shown.label, shown.note) == ("alice", "YES", None)
    assert shown.source is not None
    assert shown.source != shown.id


def test_what_it_says_itself_is_the_newer_truth(bench: Bench) -> None:
    old = bench.log("NO", "YES", input="a", version="v1", sampling="random")
    new = bench.log("YES", "NO", input="a", version="v2")
    assert state(bench, old) == ("NO", "random")
    assert state(bench, new) == ("NO", "unstated")
    same = bench.log("YES", "NO", input="a", version="v3")
    assert state(bench, same) == ("NO", "unstated")
    # Nothing new was said, so no label was added to the others.
    assert load(bench, new).label_id == new.id
    assert bench.estimate(version="v2").corrections == 0


def test_a_label_is_given_to_all_queries_with_the_input(bench: Bench) -> None:
    queries = [
        bench.log("YES", input="a", version=version) for version in ("v1", "v2", "v1")
    ]
    other = bench.log("YES", input="b", version="v1")
    alone = bench.log("YES", version="v1")
    strange = Bench(bench.database, bench.clock, ["YES", "NO"], name="other")
    stranger = strange.log("YES", input="a", version="v1")
    for label in ("NO", "UNCLEAR", "YES"):
        bench.label(queries[1], label, sampling="random")
        assert {state(bench, one) for one in queries} == {(label, "random")}
    assert [load(bench, one).label for one in (other, alone, stranger)] == [None] * 3
    assert bench.estimate(version="v1").repeats_left_out == 1


def test_an_unclear_label_is_taken_over_too(bench: Bench) -> None:
    bench.log("NO", "UNCLEAR", input="a", version="v1")
    assert bench.log("NO", input="a", version="v2").label == "UNCLEAR"
    found = bench.estimate(version="v2")
    assert (found.labels, found.unclear) == (0, 1)


def test_what_was_picked_on_purpose_stays_left_out_everywhere(bench: Bench) -> None:
    query = bench.log("NO", input="a", version="v1")
    bench.label(query, "YES", sampling="targeted")
    bench.log("YES", input="a", version="v2", sampling="random")
    for version in ("v1", "v2"):
        found = bench.estimate(version=version)
        assert (found.labels, found.targeted_left_out) == (0, 1)


def test_an_input_is_scored_once_in_a_version(
    bench: Bench, recompute: Recompute
) -> None:
    first = bench.log("YES", "YES", input="a", sampling="random")
    again = bench.log("NO", input="a")
    more = bench.log("NO", "YES", input="a")
    assert (again.is_repeat, again.label, again.queue_rank) == (True, "YES", None)
    for _ in range(2):
        found = bench.estimate()
        assert numbers(found) == [(1, 1), (0, 0)]
        assert (found.repeats_left_out, found.corrections) == (2, 0)
        assert numbers(bench.estimate(since=bench.clock().replace(year=2000))) == [
            (1, 1),
            (0, 0),
        ]
        recompute()
    bench.label(more, "NO", sampling="random")
    assert state(bench, first) == state(bench, again) == ("NO", "random")
    assert numbers(bench.estimate()) == [(0, 0), (0, 1)]
    recompute()
    assert bench.estimate().corrections == 1
    assert_recounted(bench)


def test_a_queue_gives_out_the_first_query_alone(bench: Bench) -> None:
    first, again = (bench.log("YES", input="a") for _ in range(2))
    twin = bench.log("YES", input="a", version="v2")
    assert again.queue_rank is None
    assert first.queue_rank == twin.queue_rank is not None


def test_rows_of_a_file_share_the_truth_of_their_input(
    bench: Bench, recompute: Recompute
) -> None:
    known = bench.log("YES", input="a", version="v1", key="known")
    rows: list[Mapping[str, Any]] = [
        {"key": "1", "predicted": "YES", "input": "a", "version": "v2"},
        {"key": "2", "predicted": "NO", "input": "b", "version": "v2"},
        {"key": "3", "predicted": "NO", "input": "a", "version": "v3", "label": "NO"},
        {"key": "4", "predicted": "NO", "input": "a", "version": "v2"},
        {"key": "5", "predicted": "NO", "version": "v2"},
    ]
    # One by one, for a version is new; and then again column by column.
    report = send_rows(bench, rows)
    assert (report.queries_added, report.labels_added) == (5, 1)
    more = [dict(row, key=f"more {row['key']}", input="c") for row in rows]
    send_rows(bench, more, "more")
    assert state(bench, known) == ("NO", "unstated")
    for version, expected, repeats in (
        ("v1", [(0, 0), (0, 1)], 0),
        ("v2", [(0, 0), (0, 2)], 4),
        ("v3", [(0, 0), (2, 2)], 0),
    ):
        found = bench.estimate(version=version)
        assert (numbers(found), found.repeats_left_out) == (expected, repeats)
    recompute()
    assert_recounted(bench)
    assert bench.estimate(version="v2").repeats_left_out == 4
    again = send_rows(bench, rows)
    assert (again.unchanged, again.has_changed) == (5, False)


def test_two_rows_must_not_contradict_each_other(bench: Bench) -> None:
    bench.log("YES", version="v1")
    rows: list[Mapping[str, Any]] = [
        {"key": key, "predicted": "YES", "input": "a", "version": "v1", "label": label}
        for key, label in (("1", "YES"), ("2", "NO"))
    ]
    with pytest.raises(RejectedImportError) as refused:
        send_rows(bench, rows)
    [error] = refused.value.errors
    assert (error.field, getattr(error, "row", None)) == ("label", 2)
    assert "the input 'a' occurs twice" in error.message


def test_an_input_may_be_added_by_an_import(bench: Bench, recompute: Recompute) -> None:
    old = bench.log("YES", "NO", key="old", version="v1", sampling="random")
    twin = bench.log("NO", key="twin", version="v2")
    repeat = bench.log("YES", "YES", key="repeat", version="v1")
    recompute()
    assert numbers(bench.estimate(version="v1")) == [(1, 1), (0, 1)]
    keys = [{"key": key, "input": "a"} for key in ("old", "twin", "repeat")]
    report = send_rows(bench, keys)
    assert (report.inputs_added, report.unchanged, report.bad_rows) == (3, 0, 0)
    # The newest label counts.
    assert {state(bench, one)[0] for one in (old, twin, repeat)} == {"YES"}
    assert load(bench, repeat).is_repeat
    for _ in range(2):
        assert numbers(bench.estimate(version="v1")) == [(1, 1), (0, 0)]
        assert bench.estimate(version="v1").repeats_left_out == 1
        assert numbers(bench.estimate(version="v2")) == [(0, 1), (0, 0)]
        recompute()
    assert_recounted(bench)
    assert send_rows(bench, keys).unchanged == 3
    with pytest.raises(RejectedImportError, match="1 of 1 rows"):
        send_rows(bench, [{"key": "old", "input": "b"}])


class Crowd:
    """Many who do whatever can be done to a detector, in an order of chance."""

    def __init__(self, bench: Bench, recompute: Recompute, seed: int) -> None:
        self.bench = bench
        self.chance = random.Random(seed)
        self.sent = 0
        self.acts = (
            *(self.log, self.log, self.label, self.label),
            *(self.send, self.send, self.join, self.erase, recompute),
        )

    def act(self) -> None:
        self.chance.choice(self.acts)()

    def any_row(self) -> dict[str, Any]:
        self.sent += 1
        row: dict[str, Any] = {
            "key": f"k{self.sent}",
            "predicted": self.chance.choice(["YES", "NO"]),
            "version": self.chance.choice(["v1", "v2"]),
        }
        if self.chance.random() < 0.7:
            row["input"] = self.any_input()
        if self.chance.random() < 0.4:
            row["label"] = self.any_label()
        if self.chance.random() < 0.4:
            row["sampling"] = self.chance.choice(["random", "targeted"])
        return row

    def any_input(self) -> str:
        return f"i{self.chance.randrange(6)}"

    def any_label(self) -> str:
        return self.chance.choice(["YES", "NO", "UNCLEAR"])

    def any_query(self) -> Query | None:
        with self.bench.database.read() as session:
            there = session.query(Query).filter(Query.erased_at.is_(None))
            found = there.order_by(Query.id).all()
            return self.chance.choice(found) if found else None

    def log(self) -> None:
        row = self.any_row()
        self.bench.log(row.pop("predicted"), row.pop("label", None), **row)

    def label(self) -> None:
        query = self.any_query()
        if query is not None:
            more = {"sampling": "random"} if self.chance.random() < 0.5 else {}
            self.bench.label(query, self.any_label(), **more)

    def join(self) -> None:
        query = self.any_query()
        if query is not None and query.input is None:
            with self.bench.database.write() as session:
                join_input(
                    session,
                    self.bench.attached(session),
                    get_by_id(session, Query, query.id),
                    self.any_input(),
                    by("alice", self.bench.clock()),
                )

    def erase(self) -> None:
        query = self.any_query()
        if query is not None and self.chance.random() < 0.5:
            with self.bench.database.write() as session:
                name = dump_id("iq", query.id)
                erase_query(session, name, by("alice", self.bench.clock()))

    def send(self) -> None:
        query = self.any_query()
        rows = [self.any_row() for _ in range(self.chance.randrange(6))]
        if query is not None and query.input is None:
            rows.append({"key": query.key, "input": self.any_input()})
        if query is not None:
            rows.append({"key": query.key, "label": self.any_label()})
        with self.bench.database.write() as session:
            import_rows(
                session,
                self.bench.attached(session),
                rows,
                by("alice", self.bench.clock()),
                digest=f"{self.sent}",
                skips=True,
            )


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(6))
def test_running_counts_are_what_a_recount_finds(
    bench: Bench, recompute: Recompute, seed: int
) -> None:
    crowd = Crowd(bench, recompute, seed)
    for _ in range(60):
        crowd.act()
        assert_recounted(bench)
    recompute()
    assert_recounted(bench)
    assert_one_truth_each(bench, is_erased=True)


def assert_one_truth_each(bench: Bench, *, is_erased: bool = False) -> None:
    """Each input has one label, and in each version one query that is scored."""
    with bench.database.read() as session:
        known = session.query(Query).filter(Query.erased_at.is_(None))
        queries = [one for one in known if one.input is not None]
    inputs = {one.input for one in queries}
    assert len({(one.input, one.label) for one in queries}) == len(inputs)
    firsts = [(one.version_id, one.input) for one in queries if not one.is_repeat]
    assert len(firsts) == len(set(firsts))
    if not is_erased:
        assert set(firsts) == {(one.version_id, one.input) for one in queries}


def test_no_truth_is_lost_among_many_at_once(
    database: Database, clock: Clock, recompute: Recompute
) -> None:
    bench = Bench(database, clock, ["YES", "NO"])
    bench.log("YES", version="v1")
    bench.log("YES", version="v2")
    errors: list[BaseException] = []
    start = threading.Barrier(4)

    def work(number: int) -> None:
        try:
            start.wait()
            for turn in range(12):
                label = "NO" if number == turn % 4 else None
                new = NewQuery(
                    predicted="YES",
                    version=f"v{number % 2 + 1}",
                    input=f"i{turn}",
                    label=label,
                )
                database.run(
                    lambda session, new=new: log_query(
                        session, bench.attached(session), new, by("alice", clock())
                    )
                )
        except BaseException as error:  # noqa: BLE001 - of another thread
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert_one_truth_each(bench)
    for version in ("v1", "v2"):
        live, replayed = (
            bench.estimate(version=version, population=one)
            for one in ("live", "replayed")
        )
        assert live.labels + replayed.labels == 12
        assert (live.replayed_left_out, live.repeats_left_out) == (replayed.labels, 12)
    recompute()
    assert_recounted(bench)
