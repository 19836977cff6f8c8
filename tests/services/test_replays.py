"""What a new version may decide by labels of inputs that an old one was put to."""

from collections.abc import Sequence

import pytest

from tests.services.conftest import Bench
from tests.services.test_gates import ask
from tracker.errors import ConflictError, ForbiddenError
from tracker.jobs.recompute import recompute_all
from tracker.services.estimates.decision import Decision
from tracker.services.estimates.history import iter_history
from tracker.services.estimates.replays import NOT_RANDOM, SEEN, list_replay

OTHER = {"YES": "NO", "NO": "YES"}
INPUTS = [f"{truth}-{number}" for number in range(60) for truth in ("YES", "NO")]


def truth_of(name: str) -> str:
    return name.partition("-")[0]


@pytest.fixture
def old(bench: Bench) -> Bench:
    """v1 is wrong about the first six inputs of each class, of sixty."""
    bench.log_all(
        {
            "version": "v1",
            "input": name,
            "predicted": truth_of(name) if number >= 12 else OTHER[truth_of(name)],
            "label": truth_of(name),
            "sampling": "random",
        }
        for number, name in enumerate(INPUTS)
    )
    return bench


def put(bench: Bench, names: Sequence[str], *, wrong: int = 0) -> None:
    """Put v2 to inputs, of which it is wrong about the first ones."""
    bench.log_all(
        {
            "version": "v2",
            "input": name,
            "predicted": OTHER[truth_of(name)] if number < wrong else truth_of(name),
        }
        for number, name in enumerate(names)
    )


def replay(bench: Bench, n: int) -> list[str]:
    with bench.database.read() as session:
        found = list_replay(session, bench.attached(session), version="v1", n=n)
        return [one.input for one in found.items]


def decide(bench: Bench, version: str = "v2") -> Decision | str:
    found = bench.estimate(version=version, target=0.6)
    assert found.population.kind == "replayed"
    return found.decision or found.no_decision_because or ""


def test_all_inputs_decide_once_somebody_says_that_the_labels_were_unseen(
    old: Bench,
) -> None:
    put(old, INPUTS, wrong=4)
    assert decide(old) == SEEN
    with pytest.raises(ConflictError, match="may have been made with them"):
        ask(old, version="v2", target=0.6)
    old.say("v2")
    found = decide(old)
    assert isinstance(found, Decision)
    assert (found.verdict, found.labels) == ("met", 120)
    # As of any 116 of 120 labels of its own.
    own = old.estimate(version="v2", method="anytime", target=0.6)
    assert (found.low, found.high) == (own.balanced.low, own.balanced.high)
    # The history, as it is stored and by the days asked, says the same.
    recompute_all(old.database, worker="test")
    for by_word in ("arrival", "asked_at"):
        with old.database.read() as session:
            *_, (_, row) = (
                one
                for one in iter_history(
                    session,
                    old.attached(session),
                    version="v2",
                    method="anytime",
                    by=by_word,
                )
                if one[1].scope == "balanced"
            )
        assert row.population == "replayed"
        assert (row.low, row.high) == (found.low, found.high)
    old.say("v2", unseen=False)
    assert decide(old) == SEEN


def test_a_gate_says_that_the_labels_were_unseen_if_an_editor_asks(old: Bench) -> None:
    put(old, INPUTS)
    with pytest.raises(ForbiddenError):
        ask(old, "viewer", version="v2", target=0.6, unseen=True)
    found = ask(old, version="v2", target=0.6, unseen=True)
    assert (found.verdict, found.population) == ("met", "replayed")
    assert isinstance(decide(old), Decision)


def test_the_mistakes_of_another_version_decide_nothing(old: Bench) -> None:
    put(old, INPUTS[:12])
    old.say("v2")
    found = decide(old)
    assert isinstance(found, str)
    assert found.startswith("it was put to 12 of the 120 inputs")
    # Those that it had right decide only as far as hardly any of the order is missing.
    put(old, INPUTS[12:100])
    order = [name in INPUTS[:100] for name in replay(old, 120)]
    ends = [n for n in range(1, 121) if order[n - 1] and 10 * sum(order[:n]) >= 9 * n]
    taken = sum(order[: max(ends, default=0)])
    found = decide(old)
    if 2 * taken < 100:
        assert isinstance(found, str)
    else:
        assert isinstance(found, Decision)
        assert found.labels == taken


def test_a_replay_is_in_the_order_of_ranks_and_its_first_part_decides(
    old: Bench,
) -> None:
    order = replay(old, 1_000)
    assert sorted(order) == sorted(INPUTS)
    assert order != INPUTS
    assert replay(old, 50) == order[:50]
    put(old, order[:50], wrong=1)
    old.say("v2")
    found = decide(old)
    assert isinstance(found, Decision)
    assert found.labels == 50
    # What lies beyond the first gap of more than a tenth is left out.
    put(old, order[80:90])
    assert decide(old) == found


def test_up_to_a_tenth_may_be_missing_and_counts_both_ways(old: Bench) -> None:
    order = replay(old, 120)
    put(old, [name for place, name in enumerate(order) if place % 10 != 5])
    old.say("v2")
    found = decide(old)
    assert isinstance(found, Decision)
    put(old, order)
    whole = decide(old)
    assert isinstance(whole, Decision)
    assert (found.labels, whole.labels) == (108, 120)
    assert found.low < whole.low
    assert found.high == whole.high == 1.0


def test_labels_that_come_after_a_version_need_no_word(old: Bench) -> None:
    # v2 shadows v1 from now on; what was labelled before it is another stream.
    names = [f"{truth}-late {number}" for number in range(20) for truth in OTHER]
    queries = [old.log(truth_of(name), version="v1", input=name) for name in names]
    for name in names[:-1]:
        old.log(truth_of(name), version="v2", input=name)
    for name, query in zip(names, queries, strict=True):
        old.label(query, truth_of(name), sampling="random")
    found = decide(old)
    assert isinstance(found, Decision)
    assert found.labels == 39
    # One that it was put to after its label was there is as good as missing.
    old.log(OTHER[truth_of(names[-1])], version="v2", input=names[-1])
    assert decide(old) == found


def test_inputs_that_were_not_labelled_at_random_decide_nothing(bench: Bench) -> None:
    for version, said in (("v1", {"label": "YES", "sampling": "targeted"}), ("v2", {})):
        bench.log("YES", version=version, input="a", **said)
    found = bench.estimate(version="v2", target=0.6, population="replayed")
    assert (found.decision, found.no_decision_because) == (None, NOT_RANDOM)


def test_references_are_replayed_too(bench: Bench) -> None:
    bench.log_all(
        {"input": name, "label": truth_of(name), "sampling": "random"}
        for name in INPUTS
    )
    put(bench, INPUTS[:60])
    bench.say("v2")
    assert "60 of the 120 inputs" in str(decide(bench))
    put(bench, INPUTS[60:])
    found = decide(bench)
    assert isinstance(found, Decision)
    assert (found.verdict, found.labels) == ("met", 120)
    bench.say("v2", unseen=False)
    assert decide(bench) == SEEN


def test_a_version_put_to_the_mistakes_of_another_is_not_better(old: Bench) -> None:
    put(old, INPUTS[:12])
    old.say("v2")
    found = old.compare()
    assert found.paired is not None
    assert (found.paired.overall.gained, found.paired.overall.lost) == (12, 0)
    assert (found.decision, found.verdict) == (None, "undecided")
    assert "it was put to 12 of the 120 inputs" in (found.no_decision_because or "")
    with pytest.raises(ConflictError, match="it was put to 12 of the 120"):
        ask(old, version="v2", not_worse_than="v1", max_width=0.9, population="live")


def test_a_whole_replay_is_compared_once_the_labels_were_unseen(old: Bench) -> None:
    put(old, INPUTS)
    assert SEEN in (old.compare().no_decision_because or "")
    old.say("v2")
    found = old.compare()
    assert found.decision is not None
    assert (found.verdict, found.no_decision_because) == ("better", None)
    # A gate without a target goes by the comparison, and not by the replay's width.
    gate = ask(old, version="v2", not_worse_than="v1")
    assert (gate.verdict, gate.population) == ("met", "replayed")
    old.say("v2", unseen=False)
    with pytest.raises(ConflictError, match="may have been made with them"):
        ask(old, version="v2", not_worse_than="v1")
    gate = ask(old, version="v2", not_worse_than="v1", unseen=True)
    assert gate.verdict == "met"
    with pytest.raises(ConflictError, match="about a target only"):
        ask(old, version="v2", not_worse_than="v1", max_width=0.9)
    # What labels are named changes what is counted.
    for population, pairs in (("live", 120), ("replayed", 120), ("unstated", 0)):
        named = old.compare(population=population)
        counted = 0 if named.paired is None else named.paired.pairs
        assert (population, counted) == (population, pairs)
