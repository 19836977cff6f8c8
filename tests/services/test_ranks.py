"""The random queue: drawn by chance, each query once and for all."""

import itertools
from collections import Counter

import pytest
from scipy.stats import binomtest, chisquare, kstest

from tests.conftest import by
from tests.imports import import_rows
from tests.services.conftest import Bench
from tests.services.test_reservations import ask
from tracker.errors import InvalidInputError
from tracker.services.detectors import DetectorChange, change_detector
from tracker.services.evidence.random_queue import hash_to_unit
from tracker.services.fields import parse_input
from tracker.storage.queries.queries import Query, find_query

# As ids are: some side by side, then a wide gap, then one alone.
IDS = (2**24, 2**24 + 1, 2**24 + 2, 900 * 2**24)


def set_seed(bench: Bench, seed: str) -> None:
    with bench.database.write() as session:
        bench.attached(session).queue_seed = seed


def set_rate(bench: Bench, rate: float) -> None:
    with bench.database.write() as session:
        change = parse_input(DetectorChange, {"queue_rate": rate})
        change_detector(session, bench.attached(session), change, by())


def find_rank(bench: Bench, query: Query) -> float | None:
    with bench.database.read() as session:
        found = find_query(session, query.id)
        assert found is not None
        return found.queue_rank


def work_off(bench: Bench, queries: dict[int, Query]) -> list[int]:
    """Label whatever comes, and return the ids in the order they came."""
    seen = []
    while given := ask(bench, "alice"):
        bench.label(queries[given[0]], "YES", sampling="random")
        seen += given
    return seen


def test_every_order_is_as_likely_as_every_other() -> None:
    orders = Counter(
        tuple(sorted(IDS, key=lambda number: hash_to_unit(f"seed {seed}", number)))
        for seed in range(24_000)
    )
    assert set(orders) == set(itertools.permutations(IDS))
    # The seeds are fixed, so this holds each time or never.
    assert chisquare(list(orders.values())).pvalue > 0.01


def test_ranks_are_uniform_and_below_one() -> None:
    ranks = [hash_to_unit("seed", number) for number in range(50_000)]
    assert min(ranks) >= 0
    assert max(ranks) < 1
    assert kstest(ranks, "uniform").pvalue > 0.01
    assert hash_to_unit("seed", 1) != hash_to_unit("another seed", 1)


def test_queries_come_by_their_ranks(bench: Bench) -> None:
    set_seed(bench, "seed")
    queries = {query.id: query for query in (bench.log("YES") for _ in range(8))}
    by_rank = sorted(queries, key=lambda number: hash_to_unit("seed", number))
    assert work_off(bench, queries) == by_rank


def test_a_rate_keeps_that_share_and_no_other(bench: Bench) -> None:
    set_seed(bench, "seed")
    set_rate(bench, 0.5)
    queries = {query.id: query for query in (bench.log("YES") for _ in range(12))}
    chosen = {number for number in queries if hash_to_unit("seed", number) < 0.5}
    assert 0 < len(chosen) < 12
    assert set(work_off(bench, queries)) == chosen
    # A higher rate only adds: the order of all is the same as if it always held.
    set_rate(bench, 0.75)
    more = {number for number in queries if hash_to_unit("seed", number) < 0.75}
    assert set(work_off(bench, queries)) == more - chosen
    set_rate(bench, 0.25)
    assert work_off(bench, queries) == []


def test_a_rate_of_an_import_is_kept(bench: Bench) -> None:
    set_rate(bench, 0.1)
    rows = [{"predicted": "YES"}] * 3000
    with bench.database.write() as session:
        import_rows(
            session,
            bench.attached(session),
            rows,
            by("alice", bench.clock()),
            digest="rows",
        )
    with bench.database.write() as session:
        seed = bench.attached(session).queue_seed
        found = session.query(Query.id, Query.queue_rank).all()
    assert all(rank == hash_to_unit(seed, number) for number, rank in found)
    chosen = sum(rank < 0.1 for _, rank in found)
    assert binomtest(chosen, 3000, 0.1).pvalue > 1e-9


@pytest.mark.parametrize("rate", [0, -0.1, 1.01, float("nan"), None, "0.5"])
def test_a_rate_that_is_no_share_is_refused(bench: Bench, rate: float) -> None:
    with pytest.raises(InvalidInputError):
        set_rate(bench, rate)


def test_only_what_waits_has_a_rank(bench: Bench) -> None:
    assert find_rank(bench, bench.log("YES", "NO")) is None
    assert find_rank(bench, bench.log("YES", "NO", sampling="targeted")) is None
    # It was put in on purpose, so it is no part of what is drawn from.
    assert find_rank(bench, bench.log("YES", sampling="targeted")) is None
    query = bench.log("YES", sampling="random")
    assert find_rank(bench, query) is not None
    bench.label(query, "UNCLEAR")
    assert find_rank(bench, query) is None


def test_what_was_labelled_on_purpose_is_audited_all_the_same(bench: Bench) -> None:
    query = bench.log("YES", key="k")
    bench.label(query, "NO", sampling="targeted")
    assert find_rank(bench, query) is not None
    assert ask(bench, "alice") == [query.id]
    bench.label(query, "NO", sampling="random")
    assert find_rank(bench, query) is None
    estimate = bench.estimate()
    assert (estimate.labels, estimate.targeted_left_out) == (1, 0)


@pytest.mark.parametrize("sampling", ["targeted", "random"])
def test_an_import_of_labels_ends_the_waiting_unless_they_are_targeted(
    bench: Bench, sampling: str
) -> None:
    query = bench.log("YES", key="k")
    rows = [
        {"key": "k", "label": "NO", "sampling": sampling},
        {"key": "new", "predicted": "YES"},
        {"key": "new", "label": "YES", "sampling": sampling},
    ]
    with bench.database.write() as session:
        import_rows(
            session,
            bench.attached(session),
            rows,
            by("alice", bench.clock()),
            digest="rows",
        )
    with bench.database.read() as session:
        ranks = session.query(Query.queue_rank).all()
    assert len(ranks) == 2
    assert {rank is None for (rank,) in ranks} == {sampling == "random"}
    assert (find_rank(bench, query) is None) == (sampling == "random")
