"""Queries of a group count once: by which of them, through every way that they come."""

import io
import random
from collections.abc import Iterable
from hashlib import sha256
from typing import Any

import numpy as np
import pytest
from pydantic import ValidationError
from sqlalchemy import select

from tests.conftest import Clock, by
from tests.services.conftest import Bench
from tracker.jobs.recompute import recompute_all
from tracker.services.detectors import DetectorChange, change_detector
from tracker.services.estimates.history import iter_labels
from tracker.services.estimates.recount import recount
from tracker.services.evidence.populations import compared_standings
from tracker.services.evidence.random_queue import rank_member
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.writing import Order, importing
from tracker.services.labelling.queues import QueueChoice, build_queue, reserve
from tracker.services.queries.queries import erase_query
from tracker.services.queries.where import parse_where
from tracker.stats import clopper_pearson
from tracker.storage.base import dump_id
from tracker.storage.deciding.comparison import count_pairs
from tracker.storage.detectors import list_versions
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query


def rows(bench: Bench) -> list[Any]:
    with bench.database.read() as session:
        found = session.scalars(select(Query).order_by(Query.id)).all()
        session.expunge_all()
        return list(found)


def standings(bench: Bench) -> list[str | None]:
    return [one.standing for one in rows(bench)]


def counted(bench: Bench) -> dict[str, dict[str, int]]:
    """The confusion counts without classes that have no label."""
    return {name: row for name, row in bench.estimate().confusion.items() if row}


def rank(bench: Bench, query: Any) -> float:
    known = {"id": query.id, "key": query.key, "input": query.input}
    return rank_member(bench.detector.queue_seed, known)


def change(bench: Bench, **fields: Any) -> None:
    with bench.database.write() as session:
        detector = bench.attached(session)
        given = DetectorChange.model_validate(fields)
        change_detector(session, detector, given, by("alice", role="editor"))


def import_csv(bench: Bench, lines: Iterable[str]) -> None:
    content = "\n".join(lines).encode()
    file = RowFile("csv", sha256(content).hexdigest(), io.BytesIO(content))
    by_alice = by("alice", bench.clock())
    with (
        importing(bench.database, Order("door", file, by_alice)) as carry_out,
        bench.database.write() as session,
    ):
        carry_out(session)


def check_counts(bench: Bench) -> None:
    """The running counts, a replay of the labels and the current labels must agree."""
    before = bench.estimate()
    recompute_all(bench.database, worker="test", clock=bench.clock)
    after = bench.estimate()
    assert before.confusion == after.confusion
    assert before.grouped_left_out == after.grouped_left_out
    known = bench.estimate(as_known_at=bench.clock())
    assert known.confusion == after.confusion
    with bench.database.read() as session:
        assert recount(session, bench.attached(session)) == []


def test_a_group_counts_by_the_query_that_is_labelled_first(bench: Bench) -> None:
    frames = [bench.log("YES", group="event-1") for _ in range(3)]
    for frame, label in zip(frames, ["NO", "YES", "YES"], strict=True):
        bench.label(frame, label)
    found = bench.estimate()
    assert standings(bench) == ["unstated", "grouped", "grouped"]
    assert counted(bench) == {"NO": {"YES": 1}}
    assert (found.labels, found.grouped_left_out) == (1, 2)
    check_counts(bench)


def test_a_correction_of_the_unit_counts_and_labels_of_others_never_do(
    bench: Bench,
) -> None:
    first = bench.log("YES", "NO", group="g")
    second = bench.log("YES", "YES", group="g")
    bench.label(second, "NO")
    assert counted(bench) == {"NO": {"YES": 1}}
    bench.label(first, "YES")
    assert counted(bench) == {"YES": {"YES": 1}}
    assert standings(bench) == ["unstated", "grouped"]
    check_counts(bench)


def test_queries_of_other_groups_and_of_none_count_by_themselves(bench: Bench) -> None:
    for group in ("a", "a", "b", None, None):
        bench.log("YES", "YES", group=group)
    assert counted(bench) == {"YES": {"YES": 4}}


def test_each_version_has_a_unit_of_its_own(bench: Bench) -> None:
    for version in ("v1", "v1", "v2", "v2"):
        bench.log("YES", "YES", group="g", version=version)
    assert standings(bench) == ["unstated", "grouped", "unstated", "grouped"]


def test_an_unclear_unit_stays_that_of_its_group(bench: Bench) -> None:
    bench.log("YES", "UNCLEAR", group="g")
    bench.log("YES", "YES", group="g")
    found = bench.estimate()
    assert (found.labels, found.unclear, found.grouped_left_out) == (0, 1, 1)


def test_a_targeted_label_is_no_unit(bench: Bench) -> None:
    bench.log("YES", "NO", group="g", sampling="targeted")
    bench.log("YES", "YES", group="g")
    assert standings(bench) == ["targeted", "unstated"]


def test_a_repeated_input_is_no_unit(bench: Bench) -> None:
    bench.log("YES", "NO", group="a", input="x")
    bench.log("YES", "NO", group="b", input="x")
    bench.log("YES", "YES", group="b", input="y")
    assert standings(bench) == ["unstated", "repeat", "unstated"]
    check_counts(bench)


def test_a_disputed_unit_stays_that_of_its_group(bench: Bench) -> None:
    change(bench, labels_wanted=2)
    first, second = (bench.log("YES", group="g") for _ in range(2))
    bench.label(first, "YES", labeler=None)
    assert standings(bench) == ["open", None]
    bench.label(second, "YES")
    assert standings(bench) == ["open", "grouped"]
    assert bench.estimate().labels == 0
    check_counts(bench)


def test_an_unstated_label_and_a_drawn_one_are_units_of_two_populations(
    bench: Bench,
) -> None:
    change(bench, label_sampling=None)
    bench.log("YES", "NO", group="g")
    bench.log("YES", "NO", group="g")
    bench.log("YES", "YES", group="g", sampling="random")
    bench.log("YES", "YES", group="g", sampling="random")
    assert standings(bench) == ["unstated", "grouped", "random", "grouped"]
    assert bench.estimate(population="live").labels == 1
    assert bench.estimate(population="unstated").labels == 1


def test_a_label_that_is_taken_over_makes_one_unit_of_the_other_version(
    bench: Bench,
) -> None:
    for name in "xyz":
        bench.log("NO", group="g", input=name, version="v2")
    for name in "xyz":
        bench.log("YES", "YES", group=name, input=name, version="v1")
    assert [one.standing for one in rows(bench)[:3]] == [
        "replayed_unstated",
        "grouped",
        "grouped",
    ]
    check_counts(bench)


def test_of_a_file_the_lowest_rank_of_all_pieces_counts(bench: Bench) -> None:
    lines = ["key,group,predicted,label"]
    for number in range(4_500):
        label = "" if number % 7 == 0 else random.Random(number).choice(["YES", "NO"])
        lines.append(f"k{number},g{number % 40},YES,{label}")
    import_csv(bench, lines)
    found = rows(bench)
    for group in {one.group for one in found}:
        members = [one for one in found if one.group == group and one.label]
        lowest = min(members, key=lambda one: rank(bench, one), default=None)
        for one in members:
            assert one.standing == ("unstated" if one is lowest else "grouped")
    assert bench.estimate().labels == len({one.group for one in found if one.label})
    with bench.database.read() as session:
        labels = session.scalars(select(Label.query_id)).all()
    # The unit is known before the first piece is written, and never moved.
    assert len(labels) == len(set(labels))
    assert all(one.queue_rank is None for one in found if one.label is None and one.key)
    check_counts(bench)


def test_a_file_does_not_move_a_unit_that_is_there(bench: Bench) -> None:
    bench.log("YES", "NO", key="old", group="g")
    import_csv(
        bench,
        ["key,group,predicted,label", *(f"k{n},g,YES,YES" for n in range(2_500))],
    )
    assert counted(bench) == {"NO": {"YES": 1}}
    assert bench.estimate().grouped_left_out == 2_500


def test_a_file_that_labels_what_is_stored_takes_the_lowest_rank(bench: Bench) -> None:
    for number in range(30):
        bench.log("YES", key=f"k{number}", group=f"g{number % 3}")
    import_csv(bench, ["key,label", *(f"k{n},YES" for n in range(30))])
    found = rows(bench)
    for group in ("g0", "g1", "g2"):
        members = [one for one in found if one.group == group]
        lowest = min(members, key=lambda one: rank(bench, one))
        assert [one for one in members if one.standing == "unstated"] == [lowest]


def test_answers_of_a_file_that_are_taken_over_are_one_batch(bench: Bench) -> None:
    for number in range(6):
        bench.log("YES", "YES", input=f"x{number}", version="v1")
    lines = ["key,group,input,version,predicted,label"]
    lines += [f"a{n},g,x{n},v2,NO," for n in range(6)]
    # Labels that the same file brings with rows of another version.
    lines += [f"b{n},h,y{n},v2,NO," for n in range(2_100)]
    lines += [f"c{n},,y{n},v3,NO,NO" for n in range(2_100)]
    import_csv(bench, lines)
    for group in ("g", "h"):
        members = [one for one in rows(bench) if one.group == group]
        lowest = min(members, key=lambda one: rank(bench, one))
        units = [one for one in members if one.standing != "grouped"]
        assert units == [lowest]
        assert units[0].standing == "replayed_unstated"
    check_counts(bench)


def test_the_same_file_once_more_changes_nothing(bench: Bench) -> None:
    lines = ["key,group,predicted,label"]
    lines += [f"k{n},g{n % 7},YES,YES" for n in range(50)]
    import_csv(bench, lines)
    before = standings(bench)
    import_csv(bench, [*lines, ""])
    assert standings(bench) == before


def test_an_erased_unit_stays_spent(bench: Bench) -> None:
    unit = bench.log("YES", "NO", group="secret")
    with bench.database.write() as session:
        erase_query(session, dump_id("iq", unit.id), by("alice", role="admin"))
    bench.log("YES", "YES", group="secret")
    erased, other = rows(bench)
    assert "secret" not in erased.group
    assert other.standing == "grouped"
    assert counted(bench) == {"NO": {"YES": 1}}
    check_counts(bench)


def test_an_erased_unit_stays_spent_when_groups_are_counted_again(
    bench: Bench,
) -> None:
    frames = [bench.log("YES", "NO", group="g") for _ in range(3)]
    change(bench, label_sampling="all")
    with bench.database.write() as session:
        for frame in frames[:2]:
            erase_query(session, dump_id("iq", frame.id), by("alice", role="admin"))
    recompute(bench)
    assert standings(bench) == ["unstated", "grouped", "grouped"]
    check_counts(bench)


def draw(bench: Bench) -> Query | None:
    with bench.database.write() as session:
        detector = bench.attached(session)
        person = by("bob", bench.clock())
        queue = build_queue(
            session, detector, QueueChoice(queue="random", version="*"), person
        )
        return next(iter(reserve(session, queue, person)), None)


def test_the_queue_gives_one_query_of_each_group(bench: Bench) -> None:
    for number in range(30):
        bench.log("YES", group=f"g{number % 4}")
    bench.log("YES")
    given = []
    while (query := draw(bench)) is not None:
        given.append(query.group)
        bench.label(query, "YES")
    assert sorted(map(str, given)) == ["None", "g0", "g1", "g2", "g3"]
    # What arrives later in a group that has its unit does not wait.
    bench.log("YES", group="g0")
    assert draw(bench) is None


def test_the_queue_takes_small_groups_as_soon_as_large_ones(bench: Bench) -> None:
    sizes = [1] * 40 + [2] * 40 + [25] * 40
    for number, size in enumerate(sizes):
        bench.log_all(
            {"predicted": "YES", "group": f"g{number}", "key": f"{number}-{n}"}
            for n in range(size)
        )
    first = sorted(rows(bench), key=lambda one: one.queue_rank)
    order = list(dict.fromkeys(one.group for one in first))[:60]
    drawn = [sizes[int(group.removeprefix("g"))] for group in order]
    observed = np.array([drawn.count(size) for size in (1, 2, 25)])
    # 20 of each kind are expected, with a variance of 20 * 2/3 * 60/119.  The seed is
    # new each time: one run in a million is beyond 27.6; with the large first it is 60.
    assert ((observed - 20) ** 2 / (20 * 60 / 119)).sum() < 27.6
    # All of a group wait behind each other.
    assert [one.group for one in first] == [
        group
        for group in dict.fromkeys(one.group for one in first)
        for _ in range(sizes[int(group.removeprefix("g"))])
    ]


def act(bench: Bench, chance: random.Random, step: int) -> None:
    """Log a query, label one, or import a few, by chance."""
    version = chance.choice(["v1", "v2"])
    kind = chance.choice(["new", "new", "label", "label", "file"])
    known = rows(bench)
    if kind == "new":
        label = chance.choice(["YES", "NO", "UNCLEAR", None])
        bench.log("YES", label, group=f"g{chance.randrange(6)}", version=version)
    elif kind == "label" and known:
        bench.label(chance.choice(known), chance.choice(["YES", "NO"]))
    elif kind == "file":
        bench.log_all(
            {
                "key": f"{step}-{number}",
                "predicted": "YES",
                "group": f"g{chance.randrange(6)}",
                "version": version,
            }
            | ({"label": "NO"} if chance.random() < 0.7 else {})
            for number in range(chance.randrange(1, 9))
        )


@pytest.mark.parametrize("seed", range(4))
def test_counts_are_those_of_a_reference_whatever_the_order(
    bench: Bench, seed: int
) -> None:
    chance = random.Random(seed)
    units: dict[tuple[int, str | None], int] = {}
    answered: set[int] = set()
    for step in range(60):
        act(bench, chance, step)
        new = [one for one in rows(bench) if one.label and one.id not in answered]
        answered |= {one.id for one in new}
        # Of those answered at once the lowest rank, and never another one after it.
        for one in sorted(new, key=lambda one: rank(bench, one)):
            units.setdefault((one.version_id, one.group), one.id)
    for one in rows(bench):
        if one.label is not None:
            is_unit = units[one.version_id, one.group] == one.id
            assert (one.standing == "grouped") != is_unit
    check_counts(bench)


def test_an_interval_by_units_holds_where_one_by_frames_does_not() -> None:
    # 20 events of 20 frames, all of an event right or all wrong: summed exactly.
    events, size, accuracy = 20, 20, 0.9
    chances = np.array([1.0])
    for _ in range(events):
        chances = np.convolve(chances, [1 - accuracy, accuracy])
    right = np.arange(events + 1)
    covered = {}
    for name, many in (("units", 1), ("frames", size)):
        found = clopper_pearson(right * many, np.full_like(right, events * many), 0.95)
        holds = (np.asarray(found.low) <= accuracy) & (
            np.asarray(found.high) >= accuracy
        )
        covered[name] = float(chances[holds].sum())
    assert covered["units"] >= 0.95
    assert covered["frames"] < 0.5


def test_a_group_of_one_query_is_as_no_group(bench: Bench) -> None:
    for number in range(5):
        bench.log("YES", "YES" if number else "NO", group=f"g{number}")
    alone = Bench(bench.database, Clock(), ["YES", "NO"], name="alone")
    for number in range(5):
        alone.log("YES", "YES" if number else "NO")
    assert bench.estimate().confusion == alone.estimate().confusion


def log_sessions(bench: Bench) -> None:
    for number in range(12):
        label = ("YES", "NO", "UNCLEAR", None)[number % 4]
        metadata = {"session": f"s{number % 3}", "camera": number % 2}
        bench.log("YES", label, metadata=metadata)
    bench.log_all(
        {
            "key": f"k{number}",
            "predicted": "YES",
            "label": "YES" if number % 2 else "NO",
            "metadata": {"session": f"s{number % 5}", "camera": number % 2},
        }
        for number in range(20)
    )


def recompute(bench: Bench) -> None:
    recompute_all(bench.database, worker="test", clock=bench.clock)


def test_a_metadata_key_can_name_the_groups(bench: Bench) -> None:
    change(bench, group_by="metadata.session")
    recompute(bench)
    log_sessions(bench)
    found = rows(bench)
    assert {one.group for one in found} == {f"s{number}" for number in range(5)}
    bench.log("YES", group="mine", metadata={"session": "s1"})
    assert rows(bench)[-1].group == "mine"
    check_counts(bench)


def test_groups_that_are_named_later_count_as_if_they_had_always_been(
    bench: Bench,
) -> None:
    later = Bench(bench.database, bench.clock, ["YES", "NO"], name="later")
    with bench.database.write() as session:
        # So that both rank alike.
        later.attached(session).queue_seed = bench.detector.queue_seed
    change(bench, group_by="metadata.session")
    recompute(bench)
    for one in (bench, later):
        log_sessions(one)
    recompute(bench)
    by_frames = later.estimate()
    change(later, group_by="metadata.session")
    recompute(bench)
    by_units = later.estimate()
    assert by_units.labels < by_frames.labels
    # Queries without a key are ranked by their ids, and each was answered alone.
    assert by_units.confusion == bench.estimate().confusion
    assert by_units.grouped_left_out == bench.estimate().grouped_left_out
    check_counts(later)
    change(later, group_by=None)
    recompute(bench)
    assert later.estimate().confusion == by_frames.confusion
    assert later.estimate().grouped_left_out == 0
    check_counts(later)
    change(later, group_by="metadata.session")
    recompute(bench)
    assert later.estimate().confusion == by_units.confusion
    check_counts(later)


def test_the_queue_follows_what_names_the_groups(bench: Bench) -> None:
    for number in range(9):
        bench.log("YES", metadata={"session": f"s{number % 3}"})
    change(bench, group_by="metadata.session")
    recompute(bench)
    first = draw(bench)
    assert first is not None
    bench.label(first, "YES")
    waiting = [one for one in rows(bench) if one.queue_rank is not None]
    assert {one.group for one in waiting} == {"s0", "s1", "s2"} - {first.group}
    assert len(waiting) == 6
    change(bench, group_by=None)
    recompute(bench)
    waiting = [one for one in rows(bench) if one.queue_rank is not None]
    assert len(waiting) == 8


def test_another_word_on_how_labels_come_chooses_units_again(bench: Bench) -> None:
    change(bench, label_sampling=None)
    bench.log("YES", "NO", group="g")
    bench.log("YES", "YES", group="g", sampling="random")
    change(bench, label_sampling="random")
    recompute(bench)
    assert standings(bench) == ["unstated", "grouped"]
    assert bench.estimate().labels == 1
    check_counts(bench)
    change(bench, label_sampling=None)
    recompute(bench)
    assert standings(bench) == ["unstated", "random"]
    check_counts(bench)


def test_a_disputed_query_that_is_left_by_its_group_stays_disputed(
    bench: Bench,
) -> None:
    change(bench, labels_wanted=2)
    frames = [bench.log("YES", metadata={"session": "s"}) for _ in range(2)]
    change(bench, group_by="metadata.session")
    recompute(bench)
    bench.label(frames[0], "YES")
    bench.label(frames[1], "YES")
    assert standings(bench) == ["open", "grouped"]
    change(bench, group_by=None)
    recompute(bench)
    assert standings(bench) == ["open", "open"]
    check_counts(bench)


def test_an_import_that_began_before_is_counted_by_the_groups_of_now(
    bench: Bench,
) -> None:
    lines = ["key,session,predicted,label"]
    lines += [f"k{number},s{number % 2},YES,YES" for number in range(10)]
    content = "\n".join(lines).encode()
    file = RowFile(
        "csv",
        sha256(content).hexdigest(),
        io.BytesIO(content),
        choices=Choices(extra="metadata"),
    )
    with importing(bench.database, Order("door", file, by("alice"))) as carry_out:
        change(bench, group_by="metadata.session")
        recompute(bench)
        with bench.database.write() as session:
            carry_out(session)
    recompute(bench)
    assert bench.estimate().labels == 2
    check_counts(bench)


@pytest.mark.parametrize("wrong", ["session", "metadata.", ""])
def test_what_names_the_groups_is_a_key_of_the_metadata(
    bench: Bench, wrong: str
) -> None:
    with pytest.raises(ValidationError):
        change(bench, group_by=wrong)


def pairs_of(bench: Bench) -> list[tuple[str, int, int, int]]:
    with bench.database.read() as session:
        ids = {one.name: one.id for one in list_versions(session, bench.detector.id)}
        found = count_pairs(
            session,
            bench.detector.id,
            old_id=ids["v1"],
            new_id=ids["v2"],
            standings=compared_standings("random"),
        )
        return [(one.label, one.pairs, one.gained, one.lost) for one in found]


def test_a_pair_is_that_of_the_unit_of_the_old_version(bench: Bench) -> None:
    for name in "xyz":
        for version, said in (("v1", "NO"), ("v2", "YES")):
            bench.log(said, group="g", input=name, version=version)
    for one in rows(bench):
        if one.version_id == rows(bench)[0].version_id and one.input != "x":
            bench.label(one, "YES")
    # The first label made units of both versions, and the second one none.
    assert pairs_of(bench) == [("YES", 1, 1, 0)]
    # A label of the new version is live for that alone.
    bench.label(next(one for one in rows(bench)[1:] if one.input == "x"), "YES")
    assert pairs_of(bench) == [("YES", 1, 1, 0)]


def test_of_an_own_label_and_a_replayed_one_of_a_group_the_own_makes_the_pair(
    bench: Bench,
) -> None:
    for name in "xy":
        for version in ("v1", "v2"):
            bench.log("NO", group="g", input=name, version=version)
    first, second = rows(bench)[1], rows(bench)[2]
    bench.label(first, "NO")
    bench.label(second, "YES")
    assert [one.standing for one in rows(bench)] == [
        "replayed_unstated",
        "unstated",
        "unstated",
        "replayed_unstated",
    ]
    assert pairs_of(bench) == [("YES", 1, 0, 0)]


def test_a_query_is_found_by_its_group_and_exported_with_it(bench: Bench) -> None:
    for number in range(6):
        bench.log("YES", "YES", key=f"k{number}", group=f"g{number % 2}")
    with bench.database.read() as session:
        where = parse_where(session, bench.detector, ["group:g1"], at=bench.clock())
        found = list(iter_labels(session, bench.detector, where))
        everything = list(iter_labels(session, bench.detector))
    assert [one["key"] for one in found] == ["k1", "k3", "k5"]
    assert [one["is_grouped"] for one in found] == [False, True, True]
    other = Bench(bench.database, bench.clock, ["YES", "NO"], name="other")
    fields = ("key", "group", "predicted", "label", "version")
    other.log_all({name: one[name] for name in fields} for one in everything)
    assert other.estimate().confusion == bench.estimate().confusion
    assert other.estimate().grouped_left_out == 4
