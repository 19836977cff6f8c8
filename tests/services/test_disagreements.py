"""The queue of what two versions disagree on, and what its labels count for."""

import pytest

from tests.conftest import by
from tests.databases import get_by_id
from tests.services.conftest import Bench
from tests.services.test_comparison import log_pair
from tracker.errors import InvalidInputError
from tracker.services.evidence.random_queue import hash_to_unit
from tracker.services.labelling.queues import (
    QueueChoice,
    build_queue,
    count_waiting,
    reserve,
    skip,
)
from tracker.storage.queries.queries import Query


def take(bench: Bench, *, labeler: str = "bob", **choice: object) -> Query | None:
    with bench.database.write() as session:
        chosen = QueueChoice.model_validate({"queue": "disagreements"} | choice)
        who = by(labeler, bench.clock())
        queue = build_queue(session, bench.attached(session), chosen, who)
        found = reserve(session, queue, who)
        return found[0] if found else None


def waiting(bench: Bench) -> int:
    with bench.database.read() as session:
        chosen = QueueChoice(queue="disagreements")
        queue = build_queue(session, bench.attached(session), chosen, by("bob"))
        return count_waiting(session, queue)


def log_unlabelled(bench: Bench, said: list[tuple[str, str]]) -> None:
    for number, one in enumerate(said):
        log_pair(bench, f"input-{number}", one, (None, None))


@pytest.mark.thorough
def test_only_disagreements_come_and_of_the_new_version(bench: Bench) -> None:
    log_unlabelled(bench, [("YES", "YES"), ("NO", "YES"), ("NO", "NO"), ("YES", "NO")])
    bench.log("NO", version="v2", input="of one version alone")
    bench.log("NO", version="v2")
    assert waiting(bench) == 2
    seen = set()
    while (query := take(bench)) is not None:
        seen.add((query.input, query.predicted))
        bench.label(query, "YES", sampling="targeted")
    assert seen == {("input-1", "YES"), ("input-3", "NO")}


def test_of_an_input_that_came_twice_the_first_queries_must_differ(
    bench: Bench,
) -> None:
    log_pair(bench, "now different", ("NO", "NO"), (None, None))
    bench.log("YES", version="v2", input="now different")
    bench.log("NO", version="v1", input="now alike")
    bench.log("YES", version="v1", input="now alike")
    first = bench.log("YES", version="v2", input="now alike")
    log_pair(bench, "has a label", ("NO", "YES"), ("YES", None))
    assert waiting(bench) == 1
    query = take(bench)
    assert query is not None
    assert query.id == first.id


@pytest.mark.thorough
def test_what_is_labelled_there_decides_and_stays_out_of_the_accuracy(
    bench: Bench,
) -> None:
    log_unlabelled(bench, [("NO", "YES")] * 5 + [("YES", "NO")] * 2)
    log_pair(bench, "random", ("NO", "YES"), ("YES", None))
    log_pair(
        bench, "picked", ("NO", "YES"), (None, "YES"), samplings=("random", "targeted")
    )
    for _ in range(7):
        query = take(bench)
        assert query is not None
        bench.label(query, "YES", sampling="targeted")

    for old, new in (("v1", "v2"), ("v2", "v1")):
        found = bench.compare(old=old, new=new)
        assert found.paired is not None
        decision, is_turned = found.paired.decision, old == "v2"
        # Five are won, two lost, one more was drawn for the accuracy; what somebody
        # picked does not count.
        assert (decision.won, decision.lost) == ((2, 6) if is_turned else (6, 2))
        assert found.paired.pairs == 1
    own = bench.compare().unpaired.classes
    # The random one was given to v1, and with the input to v2.
    assert [one.new.labelled for one in own] == [1, 0]
    # A third version disagrees on other inputs, of which these are no random part.
    for number in range(7):
        bench.log("NO", version="v3", input=f"input-{number}")
    assert bench.compare(old="v1", new="v3").paired is None
    assert bench.compare(old="v2", new="v3").paired is None


@pytest.mark.thorough
def test_a_random_label_of_a_drawn_query_counts_once(bench: Bench) -> None:
    log_unlabelled(bench, [("NO", "YES")])
    query = take(bench)
    assert query is not None
    bench.label(query, "YES", sampling="targeted")
    bench.label(query, "YES", sampling="random")
    paired = bench.compare().paired
    assert paired is not None
    assert (paired.decision.won, paired.overall.gained) == (1, 1)


def test_unclear_ones_are_not_decided(bench: Bench) -> None:
    log_unlabelled(bench, [("NO", "YES")])
    query = take(bench)
    assert query is not None
    bench.label(query, "UNCLEAR", sampling="targeted")
    assert bench.compare().paired is None


def test_the_order_depends_on_no_prediction(bench: Bench) -> None:
    log_unlabelled(bench, [("NO", "YES"), ("YES", "NO")] * 6)
    ranks = []
    while (query := take(bench)) is not None:
        ranks.append(hash_to_unit(bench.detector.queue_seed, str(query.input)))
        bench.label(query, "YES", sampling="targeted")
    assert len(ranks) == 12
    assert ranks == sorted(ranks)


def test_a_skipped_one_comes_again_when_nothing_else_is_left(bench: Bench) -> None:
    log_unlabelled(bench, [("NO", "YES")] * 2)
    first = take(bench)
    assert first is not None
    with bench.database.write() as session:
        own = get_by_id(session, Query, first.id)
        skip(session, own, by("bob", bench.clock()))
    second = take(bench)
    assert second is not None
    assert second.id != first.id
    bench.label(second, "YES", sampling="targeted")
    again = take(bench)
    assert again is not None
    assert again.id == first.id


@pytest.mark.parametrize(
    ("choice", "field"),
    [
        ({"queue": "disagreements", "order": "newest"}, "order"),
        ({"queue": "disagreements", "where": ["predicted:YES"]}, "where"),
        ({"queue": "disagreements", "old": "v9"}, "old"),
        ({"queue": "targeted", "old": "v1"}, "old"),
        ({"queue": "random", "new": "v1"}, "new"),
        ({"queue": "random", "order": "newest"}, "order"),
    ],
)
def test_a_choice_that_no_queue_takes_is_named(
    bench: Bench, choice: dict[str, object], field: str
) -> None:
    log_unlabelled(bench, [("NO", "YES")])
    with pytest.raises(InvalidInputError) as caught:
        take(bench, **choice)
    assert [error.field for error in caught.value.errors] == [field]
