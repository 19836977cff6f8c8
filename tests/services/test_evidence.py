"""What a label counts for, by how it came and by who gave it."""

from types import SimpleNamespace
from typing import Any

import pytest

from tests.conftest import Clock, by
from tests.databases import get_by_id
from tests.services.conftest import Bench
from tracker.errors import ConflictError, InvalidInputError
from tracker.services.detectors import NewDetector
from tracker.services.estimates.counts import pick_population
from tracker.services.evidence.measure import parse_measure
from tracker.services.evidence.populations import (
    standings_of,
    targeted_standings,
)
from tracker.services.evidence.standing import (
    decide_standing,
    find_consensus,
    keeps_rank,
    stand,
    take_over,
)
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.storage.database import Database
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import Cell, Counts
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query

ONE = SimpleNamespace(labels_wanted=1, consensus="majority", label_sampling=None)
THREE = SimpleNamespace(labels_wanted=3, consensus="majority", label_sampling=None)


def query(**known: Any) -> dict[str, Any]:
    blank = {"sampling": "unstated", "standing": None, "is_replayed": False}
    return blank | {"is_repeat": False, "agreement": None} | known


@pytest.mark.parametrize(
    ("known", "said", "standing"),
    [
        ({}, None, "unstated"),
        ({}, "random", "random"),
        ({}, "targeted", "targeted"),
        ({"sampling": "random"}, None, "random"),
        ({"sampling": "targeted"}, None, "targeted"),
        ({"is_repeat": True}, "random", "repeat"),
        # The first label decides, whatever a correction says of itself.
        ({"sampling": "random", "standing": "random"}, "targeted", "random"),
        ({"sampling": "random", "standing": "random"}, "unstated", "random"),
        ({"standing": "unstated"}, None, "unstated"),
        # Chance moves a query into the sample, and nothing moves it out.
        ({"standing": "unstated"}, "random", "random"),
        ({"sampling": "targeted", "standing": "targeted"}, "random", "random"),
        # A correction of a label that was taken over stays what it was.
        (
            {"standing": "replayed_unstated", "is_replayed": True},
            None,
            "replayed_unstated",
        ),
        ({"standing": "replayed_unstated", "is_replayed": True}, "random", "random"),
    ],
)
def test_the_standing_follows_from_how_the_label_came(
    known: dict[str, Any], said: str | None, standing: str
) -> None:
    assert (
        decide_standing(query(**known), ONE, "YES", said=said, words={}).standing
        == standing
    )


@pytest.mark.parametrize(
    ("known", "sampling", "standing"),
    [
        ({}, "random", "replayed"),
        ({}, "unstated", "replayed_unstated"),
        ({}, "targeted", "targeted"),
        ({"is_repeat": True}, "random", "repeat"),
        # What it was labelled with itself stays live, and its class is corrected.
        ({"sampling": "random", "standing": "random"}, "unstated", "random"),
        ({"standing": "unstated"}, "random", "unstated"),
    ],
)
def test_a_label_of_another_version_is_replayed(
    known: dict[str, Any], sampling: str, standing: str
) -> None:
    given = decide_standing(query(), ONE, "NO", said=sampling, words={})
    taken = take_over(query(**known), given)
    assert (taken.label, taken.standing) == ("NO", standing)


@pytest.mark.parametrize(
    ("words", "label", "agreement", "standing"),
    [
        ({"a": "YES"}, "YES", None, "open"),
        ({"a": "YES", "b": "YES"}, "YES", "agreed", "open"),
        ({"a": "YES", "b": "NO"}, "NO", "disputed", "open"),
        ({"a": "YES", "b": "YES", "c": "NO"}, "YES", "majority", "random"),
        ({"a": "NO", "b": "YES", "c": "NO"}, "NO", "majority", "random"),
        ({"a": "NO", "b": "NO", "c": "NO"}, "NO", "agreed", "random"),
        ({"a": "YES", "b": "UNCLEAR", "c": "NO"}, "NO", "disputed", "disputed"),
        ({"a": "UNCLEAR", "b": "UNCLEAR", "c": "NO"}, "UNCLEAR", "majority", "random"),
    ],
)
def test_of_three_people_the_majority_is_scored_once_all_have_answered(
    words: dict[str, str], label: str, agreement: str | None, standing: str
) -> None:
    newest = list(words.values())[-1]
    found = decide_standing(query(), THREE, newest, said="random", words=words)
    assert (found.label, found.agreement, found.standing) == (
        label,
        agreement,
        standing,
    )


def test_the_newest_label_is_scored_where_the_detector_says_so() -> None:
    newest = SimpleNamespace(labels_wanted=3, consensus="newest", label_sampling=None)
    words = {"a": "YES", "b": "YES", "c": "NO"}
    found = decide_standing(query(), newest, "NO", said="random", words=words)
    assert (found.label, found.agreement, found.standing) == (
        "NO",
        "disputed",
        "random",
    )
    assert decide_standing(
        query(), newest, "NO", said="random", words={"a": "NO"}
    ).is_open


def test_a_second_label_of_a_recheck_moves_no_query_out_of_the_sample() -> None:
    known = query(standing="random", sampling="random", agreement="disputed")
    found = decide_standing(
        known, ONE, "YES", said=None, words={"a": "YES"}, second="NO"
    )
    assert (found.label, found.agreement, found.standing) == (
        "YES",
        "disputed",
        "random",
    )


def test_only_a_dispute_can_be_settled() -> None:
    with pytest.raises(ConflictError, match="nothing to settle"):
        find_consensus(ONE, None, "YES", {}, settles=True)
    settled = find_consensus(THREE, "disputed", "YES", {"a": "NO"}, settles=True)
    assert (settled.label, settled.agreement, settled.is_scored) == (
        "YES",
        "settled",
        True,
    )


@pytest.mark.parametrize("word", [None, "random", "all", "targeted"])
def test_the_queue_asks_again_for_what_somebody_may_have_picked(
    word: str | None,
) -> None:
    is_asked = word not in {"random", "all"}
    assert keeps_rank("unstated", word, is_open=False) == is_asked
    assert keeps_rank("replayed_unstated", word, is_open=False) == is_asked
    assert keeps_rank("targeted", word, is_open=False)
    assert not keeps_rank("random", word, is_open=False)
    assert keeps_rank("random", word, is_open=True)


def test_a_repeat_and_a_targeted_query_count_nowhere_whatever_people_say() -> None:
    assert stand("random", is_repeat=True) == "repeat"
    open_ = find_consensus(THREE, None, "YES", {"a": "YES"})
    assert stand("targeted", open_) == "targeted"
    assert stand("random", open_, is_repeat=True) == "repeat"


def standings(bench: Bench, one: Query) -> list[tuple[str, str | None, str]]:
    with bench.database.read() as session:
        labels = session.query(Label).filter_by(query_id=one.id).order_by(Label.id)
        return [(label.label, label.truth, label.standing) for label in labels]


def test_each_label_is_stored_with_what_it_counts_for(
    database: Database, clock: Clock
) -> None:
    bench = Bench(database, clock, ["YES", "NO"])
    old = bench.log("YES", "YES", input="a", version="v1", sampling="random")
    new = bench.log("NO", input="a", version="v2")
    again = bench.log("NO", input="a", version="v2")
    bench.label(new, "NO")
    assert standings(bench, old) == [("YES", None, "random"), ("NO", None, "random")]
    assert standings(bench, new) == [
        ("YES", None, "replayed"),
        ("NO", None, "replayed"),
    ]
    assert [row[2] for row in standings(bench, again)] == ["repeat", "repeat"]


MATRIX = {
    "YES": {"YES": 23, "NO": 5},
    "NO": {"YES": 3, "NO": 41},
}


@pytest.mark.parametrize(
    ("name", "right", "counted"),
    [
        ("balanced", (23, 41), (28, 44)),
        ("overall", (64,), (72,)),
        ("recall:YES", (23,), (28,)),
        ("precision:YES", (23,), (26,)),
        ("precision:NO", (41,), (46,)),
    ],
)
def test_a_measure_says_which_counts_it_is_made_of(
    name: str, right: tuple[int, ...], counted: tuple[int, ...]
) -> None:
    measure = parse_measure(name, MATRIX)
    assert measure.count_right(MATRIX) == (right, counted)
    assert str(measure) == name


@pytest.mark.parametrize("name", ["", "f1", "recall", "recall:", "recall:MAYBE", "YES"])
def test_an_unknown_measure_is_refused_by_name(name: str) -> None:
    with pytest.raises(InvalidInputError, match="measure"):
        parse_measure(name, MATRIX)


def test_no_answer_is_wrong_for_its_label_and_is_no_class(
    database: Database, clock: Clock
) -> None:
    bench = Bench(database, clock, ["YES", "NO"])
    for said, label in (("YES", "YES"), (None, "YES"), (None, "NO"), ("NO", "NO")):
        bench.log(said, label)
    found = bench.estimate()
    assert (found.labels, found.unanswered) == (4, 2)
    assert found.confusion == {
        "YES": {"YES": 1, "NO_ANSWER": 1},
        "NO": {"NO": 1, "NO_ANSWER": 1},
    }
    assert found.balanced.accuracy == 0.5
    assert (found.answered.correct, found.answered.labelled) == (2, 2)
    assert (found.coverage.correct, found.coverage.labelled) == (2, 4)


@pytest.mark.parametrize("name", ["NO_ANSWER", "no_answer", "Unclear"])
def test_no_class_has_a_reserved_name(name: str) -> None:
    with pytest.raises(ValueError, match="must not be called"):
        NewDetector(name="door", question="?", classes=["YES", name])


@pytest.mark.parametrize(
    ("word", "live", "replayed", "unstated"),
    [
        (None, {"random"}, {"replayed"}, {"unstated", "replayed_unstated"}),
        ("random", {"random", "unstated"}, {"replayed", "replayed_unstated"}, set()),
        ("all", {"random", "unstated"}, {"replayed", "replayed_unstated"}, set()),
        ("targeted", {"random"}, {"replayed"}, set()),
    ],
)
def test_a_label_counts_in_one_population_at_most(
    word: str | None, live: set[str], replayed: set[str], unstated: set[str]
) -> None:
    found = [standings_of(one, word) for one in ("live", "replayed", "unstated")]
    assert found == [live, replayed, unstated]
    both = [*live, *replayed, *unstated, *targeted_standings(word)]
    assert len(both) == len(set(both))


@pytest.mark.parametrize(
    ("word", "standings", "population"),
    [
        (None, {"random", "replayed", "unstated"}, "live"),
        (None, {"replayed", "unstated"}, "replayed"),
        (None, {"unstated"}, "unstated"),
        ("random", {"unstated", "replayed"}, "live"),
        ("targeted", {"unstated"}, "live"),
        (None, set(), "live"),
    ],
)
def test_an_estimate_is_live_else_replayed_else_unstated(
    word: str | None, standings: set[str], population: str
) -> None:
    counts = Counts({Cell(one, "YES", "YES"): 1 for one in standings})
    found, _ = pick_population(Detector(label_sampling=word), counts)
    assert found == population


def test_a_targeted_label_is_no_word_of_a_majority(bench: Bench) -> None:
    with bench.database.write() as session:
        bench.attached(session).labels_wanted = 2

    def give(query: Query, name: str, label: str, sampling: str) -> tuple[Any, ...]:
        with bench.database.write() as session:
            new = NewLabel(label=label, sampling=sampling)
            add_label(session, query.id, new, by(name, bench.clock()))
            now = get_by_id(session, Query, query.id)
            return now.label, now.standing, now.agreement

    first = bench.log("YES")
    assert give(first, "ann", "YES", "random") == ("YES", "open", None)
    assert give(first, "bob", "NO", "targeted") == ("YES", "open", None)
    assert give(first, "cem", "YES", "random") == ("YES", "random", "agreed")
    picked = bench.log("YES")
    assert give(picked, "ann", "YES", "targeted") == ("YES", "targeted", None)
    assert give(picked, "bob", "NO", "random") == ("NO", "open", None)
    assert give(picked, "cem", "NO", "random") == ("NO", "random", "agreed")


def stand_of(bench: Bench, *queries: Query) -> list[tuple[str | None, str | None]]:
    with bench.database.read() as session:
        found = [get_by_id(session, Query, one.id) for one in queries]
        return [(one.label, one.standing) for one in found]


def test_a_label_that_comes_with_a_query_is_one_word_of_several(bench: Bench) -> None:
    with bench.database.write() as session:
        bench.attached(session).labels_wanted = 2
    one = bench.log("YES", "YES", input="a")
    picked = bench.log("YES", "YES", sampling="targeted")
    other = bench.log("NO", version="v2", input="a")
    assert stand_of(bench, one, other) == [("YES", "open"), ("YES", "open")]
    assert stand_of(bench, picked) == [("YES", "targeted")]
    assert bench.estimate(version="default").labels == 0
    # The queue asks others about it.
    with bench.database.read() as session:
        assert get_by_id(session, Query, one.id).queue_rank is not None
        assert get_by_id(session, Query, picked.id).queue_rank is None
    bench.label(one, "YES")
    assert stand_of(bench, one, other) == [
        ("YES", "unstated"),
        ("YES", "replayed_unstated"),
    ]


def test_a_file_that_opens_a_query_again_opens_those_with_its_input(
    bench: Bench,
) -> None:
    one = bench.log("YES", "YES", input="a", key="one", sampling="random")
    other = bench.log("YES", version="v2", input="a")
    assert stand_of(bench, one, other) == [("YES", "random"), ("YES", "replayed")]
    with bench.database.write() as session:
        bench.attached(session).labels_wanted = 3
    bench.log_all([{"key": "one", "label": "YES", "labeler": "bob"}])
    assert stand_of(bench, one, other) == [("YES", "open"), ("YES", "open")]
    bench.log_all([{"key": "one", "label": "YES", "labeler": "cem"}])
    assert stand_of(bench, one, other) == [("YES", "random"), ("YES", "replayed")]
