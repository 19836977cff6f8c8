"""Running counts of slices: kept by the job, equal to a recount."""

import random
from collections.abc import Callable
from typing import Any

import pytest
from sqlalchemy import select

from tests.conftest import START, by
from tests.databases import get_by_id, noted_statements
from tests.imports import import_rows
from tests.services.conftest import Bench
from tests.services.folds import compute_fold
from tests.services.test_recompute import import_steps
from tracker.errors import InvalidInputError
from tracker.jobs.recompute import Recompute
from tracker.services.detectors import DetectorChange, change_detector
from tracker.services.estimates.fold import (
    StaleFoldError,
    read_again,
    store_again,
    store_folds,
)
from tracker.services.estimates.recount import recount
from tracker.services.estimates.slice_counts import (
    MOST_VALUES,
    OTHER,
    count_slice,
    read_value,
)
from tracker.services.estimates.slices import Slices, get_slices, list_cuts
from tracker.services.queries.where import parse_where
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.cells import pool
from tracker.storage.estimates.counts import count_window
from tracker.storage.estimates.projections import Projection
from tracker.storage.queries.queries import Query
from tracker.storage.telling import list_detector_events
from tracker.words import NO_VALUE, STANDINGS

CAMERAS = ("north", "south", "east")


def declare(bench: Bench, *names: str) -> None:
    with bench.database.write() as session:
        change = DetectorChange(slices=list(names))
        detector = bench.attached(session)
        change_detector(session, detector, change, by(at=bench.clock()))


def differences(bench: Bench) -> list[Any]:
    with bench.database.read() as session:
        detector = bench.attached(session)
        return recount(session, detector)


def cut(bench: Bench, by_what: str = "metadata.camera", **choices: Any) -> Slices:
    with bench.database.read() as session:
        return get_slices(
            session,
            bench.attached(session),
            by=by_what,
            computed_at=bench.clock(),
            **choices,
        )


def counted(found: Slices) -> dict[str, tuple[int, int, int]]:
    return {
        one.value: (one.queries, one.overall.correct, one.overall.labelled)
        for one in found.items
    }


def stored(bench: Bench) -> list[Any]:
    with bench.database.read() as session:
        columns = Projection.__table__.c
        rows = session.execute(
            select(*columns)
            .where(Projection.name.startswith("slice"))
            .order_by(*Projection.__table__.primary_key)
        ).all()
        return [tuple(row) for row in rows]


def random_step(draw: random.Random) -> dict[str, Any]:
    step: dict[str, Any] = {"predicted": draw.choice(["YES", "NO"])}
    if draw.random() < 0.9:
        step["metadata"] = {
            "camera": draw.choice([*CAMERAS, None, 3, 3.5, True, ["list"]]),
            "site": draw.choice(["a", "b"]),
        }
    if draw.random() < 0.8:
        step["label"] = draw.choice(["YES", "YES", "NO", "UNCLEAR"])
        step["sampling"] = draw.choice(["random", "random", "targeted", "unstated"])
    if draw.random() < 0.2:
        step["version"] = "v2"
    return step


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_running_counts_equal_a_recount_whenever_a_key_is_declared(
    bench: Bench, recompute: Callable[[], None], seed: int
) -> None:
    draw = random.Random(seed)
    declared_at = draw.randrange(60)
    for number in range(90):
        if number == declared_at:
            declare(bench, "camera", "site")
        action = draw.random()
        if action < 0.6:
            bench.log(**random_step(draw))
        elif action < 0.9:
            with bench.database.read() as session:
                ids = session.scalars(select(Query.id)).all()
                query = get_by_id(session, Query, draw.choice(ids)) if ids else None
            if query is not None:
                label = draw.choice(["YES", "NO", "UNCLEAR"])
                bench.label(query, label, sampling=draw.choice(["random", "targeted"]))
        else:
            recompute()
    recompute()

    assert differences(bench) == []
    found = cut(bench, version="v2")
    whole = bench.estimate(version="v2")
    assert (found.labels, found.overall.correct) == (whole.labels, sum(whole.correct))


@pytest.mark.thorough
def test_the_same_labels_in_one_run_or_in_many_give_the_same_rows(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    draw = random.Random(5)
    declare(bench, "camera")
    steps = [random_step(draw) | {"version": "v1"} for _ in range(120)]
    for step in steps:
        bench.log(**step)
        if draw.random() < 0.3:
            recompute()
    recompute()
    one_by_one = stored(bench)

    with bench.database.write() as session:
        detector = bench.attached(session)
        detector.counted_slices = []
    with bench.database.read() as session:
        found = read_again(session, bench.attached(session))
    assert found is not None
    with bench.database.write() as session:
        store_again(session, found, computed_at=START)

    assert stored(bench) == one_by_one


@pytest.mark.parametrize("measure", ["balanced", "overall", "recall:YES"])
@pytest.mark.parametrize("is_dated", [False, True])
def test_a_file_sorted_by_what_is_right_makes_no_slice_worse(
    bench: Bench, recompute: Callable[[], None], measure: str, is_dated: bool
) -> None:
    draw = random.Random(3)
    declare(bench, "camera")
    with bench.database.write() as session:
        bench.attached(session).measure = measure
    rows = [
        {
            "predicted": "YES" if draw.random() < 0.8 else "NO",
            "label": "YES",
            "metadata": {"camera": draw.choice(CAMERAS)},
            **(
                {"asked_at": f"2026-01-0{1 + number % 7}T00:00:00Z"} if is_dated else {}
            ),
        }
        for number in range(900)
    ]
    rows.sort(key=lambda row: (row["predicted"] == "YES", str(row["metadata"])))
    with bench.database.write() as session:
        detector, at = bench.attached(session), by("alice", bench.clock())
        import_rows(session, detector, rows, at, digest="sorted")
    recompute()
    assert {one.state for one in cut(bench).items} == {"no_difference_shown"}


def test_a_key_declared_later_is_counted_by_the_job(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    for camera, label in [("north", "YES"), ("north", "NO"), ("south", "YES")]:
        bench.log("YES", label, metadata={"camera": camera})
    recompute()
    declare(bench, "camera")
    before = cut(bench)
    recompute()

    assert not before.is_counted
    assert before.items == []
    after = cut(bench)
    assert after.is_counted
    assert counted(after) == {"north": (2, 1, 2), "south": (1, 1, 1)}


def test_a_recount_that_labels_overtake_is_done_once_more(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    bench.log("YES", "YES", metadata={"camera": "north"})
    recompute()
    declare(bench, "camera")
    with bench.database.read() as session:
        found = read_again(session, bench.attached(session))
    assert found is not None
    bench.log("YES", "NO", metadata={"camera": "north"})
    with bench.database.read() as session:
        fold = compute_fold(session, bench.attached(session))
    assert fold is not None
    with bench.database.write() as session:
        store_folds(session, [fold], worker="w", computed_at=START, seconds=0.0)

    with pytest.raises(StaleFoldError), bench.database.write() as session:
        store_again(session, found, computed_at=START)
    bench.log("YES", "YES", metadata={"camera": "south"})
    job = Recompute(database=bench.database, worker="w", clock=bench.clock)
    job.recompute(bench.detector.id)

    assert counted(cut(bench)) == {"north": (2, 1, 2), "south": (1, 1, 1)}
    assert differences(bench) == []


def test_a_key_that_is_no_longer_declared_leaves_nothing(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    declare(bench, "camera", "site")
    bench.log("YES", "YES", metadata={"camera": "north", "site": "a"})
    recompute()
    declare(bench, "site")
    recompute()

    assert {row[2:4] for row in stored(bench)} == {
        ("slice_evidence.site", '["recall:YES", "a"]'),
        ("slices", "site"),
        ("slices.site", "a"),
    }
    with pytest.raises(InvalidInputError, match=r"metadata\.site"):
        cut(bench)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_an_estimate_of_a_slice_comes_from_its_counts(
    bench: Bench, recompute: Callable[[], None], seed: int
) -> None:
    draw = random.Random(seed)
    declare(bench, "camera")
    values = [*CAMERAS, "(none)", "3", "3.0", "3.5", "true", "null", OTHER, "unknown"]
    kept = 0
    for _ in range(6):
        for _ in range(draw.randrange(12)):
            query = bench.log(**random_step(draw))
            if draw.random() < 0.3:
                bench.label(query, draw.choice(["YES", "NO"]), sampling="targeted")
        if draw.random() < 0.7:
            recompute()
        with bench.database.read() as session:
            detector = bench.attached(session)
            versions = list_versions(session, detector.id)
            for value in values:
                asked = [f"metadata.camera:{value}"]
                where = parse_where(session, detector, asked, at=bench.clock())
                found = count_slice(session, detector, versions, where)
                counts = count_window(
                    session, detector.id, since=None, until=None, where=where
                )
                # What is written in several ways is counted by its queries.
                assert (found is None) == (
                    value in {"3.0", "null", OTHER} or detector.counted_slices == []
                )
                if found is not None:
                    kept += found.count(frozenset(STANDINGS)) > 0
                    assert found.cells == pool(counts.values()).cells
    assert kept
    with bench.database.read() as session:
        detector = bench.attached(session)
        asked = ["metadata.camera:north", "predicted:YES"]
        where = parse_where(session, detector, asked, at=bench.clock())
        versions = list_versions(session, detector.id)
        assert count_slice(session, detector, versions, where) is None


@pytest.mark.thorough
def test_beyond_five_hundred_values_the_rest_is_one_slice(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    declare(bench, "camera")
    steps = [
        {
            "key": str(number),
            "predicted": "YES",
            "label": "YES",
            "metadata": {"camera": f"c{number}"},
        }
        for number in range(MOST_VALUES + 20)
    ]
    import_steps(bench, steps[: MOST_VALUES - 5])
    recompute()
    import_steps(bench, [*steps[MOST_VALUES - 5 :], {"key": "bare", "predicted": "NO"}])
    recompute()

    found = counted(cut(bench))
    assert len(found) == MOST_VALUES + 2
    assert found[OTHER] == (20, 20, 20)
    assert found[NO_VALUE] == (1, 0, 0)
    assert differences(bench) == []


def measure_by(bench: Bench, measure: str) -> None:
    with bench.database.write() as session:
        change = DetectorChange(measure=measure)
        change_detector(session, bench.attached(session), change, by(at=bench.clock()))


def told(bench: Bench) -> list[tuple[str, str]]:
    with bench.database.read() as session:
        events = list_detector_events(
            session, bench.detector.id, kind="slice.worse", limit=10
        )
    return [(event.data["value"], event.data["measure"]) for event in events]


def label_slice(
    bench: Bench, camera: str, label: str, *, right: int, of: int, **more: object
) -> list[dict[str, Any]]:
    """Return rows of one camera and one class, some of them right."""
    other = next(name for name in bench.detector.classes if name != label)
    return [
        {
            "key": f"{camera} {label} {number}",
            "predicted": label if number < right else other,
            "label": label,
            "metadata": {"camera": camera},
            **more,
        }
        for number in range(of)
    ]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("measure", "named"),
    [
        ("balanced", "recall:YES"),
        ("overall", "overall"),
        ("recall:YES", "recall:YES"),
        ("precision:NO", "precision:NO"),
    ],
)
def test_a_slice_that_is_worse_is_told_once(
    bench: Bench, recompute: Callable[[], None], measure: str, named: str
) -> None:
    declare(bench, "camera")
    measure_by(bench, measure)
    draw = random.Random(2)
    for part in range(3):
        steps = []
        for number in range(400):
            camera, label = draw.choice(CAMERAS), draw.choice(["YES", "NO"])
            is_right = draw.random() < (
                0.6 if (camera, label) == ("north", "YES") else 0.97
            )
            step = {"key": f"{part}-{number}", "label": label}
            step["predicted"] = "YES" if is_right == (label == "YES") else "NO"
            steps.append(step | {"metadata": {"camera": camera}})
        import_steps(bench, steps)
        recompute()

    found = cut(bench)
    assert found.measure == measure
    assert [one.value for one in found.find("worse")] == ["north"]
    assert found.items[0].value == "north"
    assert found.items[0].worse_in == [named]
    assert told(bench) == [("north", named)]
    # A recount, and the same measure again, tell nothing new.
    declare(bench)
    declare(bench, "camera")
    recompute()
    assert cut(bench).items == found.items


def test_defects_that_one_camera_never_finds_count_by_the_measure(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    """None of 23 on one camera, all elsewhere: few among all answers."""
    declare(bench, "camera")
    draw = random.Random(3)
    rows = [
        *label_slice(bench, "north", "YES", right=0, of=23),
        *label_slice(bench, "north", "NO", right=1_000, of=1_000),
        *label_slice(bench, "south", "YES", right=60, of=60),
        *label_slice(bench, "south", "NO", right=977, of=1_000),
    ]
    draw.shuffle(rows)
    import_steps(bench, rows)
    measure_by(bench, "overall")
    recompute()
    by_overall = cut(bench)
    measure_by(bench, "recall:YES")
    waiting = cut(bench)
    recompute()
    by_recall = cut(bench)

    assert by_overall.find("worse") == []
    assert told(bench) == [("north", "recall:YES")]
    assert not waiting.is_counted
    (north,) = by_recall.find("worse")
    assert by_recall.measure == "recall:YES"
    assert (north.value, north.worse_in) == ("north", ["recall:YES"])
    assert (north.measured.correct, north.measured.labelled) == (0, 23)
    assert (by_recall.measured.correct, by_recall.measured.labelled) == (60, 83)
    assert (north.overall.correct, north.overall.labelled) == (1_000, 1_023)
    measure_by(bench, "balanced")
    recompute()
    north = next(one for one in cut(bench).items if one.value == "north")
    assert (north.worse_in, north.better_in) == (["recall:YES"], ["recall:NO"])
    assert differences(bench) == []


def test_a_recall_counts_no_mistake_of_another_class_and_a_precision_no_other_answer(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    declare(bench, "camera")
    rows = [
        *label_slice(bench, "north", "YES", right=100, of=100),
        *label_slice(bench, "north", "NO", right=40, of=200),
        *label_slice(bench, "south", "YES", right=100, of=100),
        *label_slice(bench, "south", "NO", right=200, of=200),
    ]
    random.Random(4).shuffle(rows)
    import_steps(bench, rows)
    found = {}
    for measure in ("recall:YES", "precision:YES", "precision:NO", "overall"):
        measure_by(bench, measure)
        recompute()
        parts = {one.value: one for one in cut(bench).items}
        found[measure] = [
            (one.state, one.measured.correct, one.measured.labelled)
            for one in (parts["north"], parts["south"])
        ]

    same, worse, better = "no_difference_shown", "worse", "better"
    assert found == {
        "recall:YES": [(same, 100, 100), (same, 100, 100)],
        "precision:YES": [(worse, 100, 260), (better, 100, 100)],
        "precision:NO": [(same, 40, 40), (same, 200, 200)],
        "overall": [(worse, 140, 300), (better, 300, 300)],
    }


def test_a_slice_that_is_worse_in_one_class_and_better_in_another_is_worse(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    declare(bench, "camera")
    rows = [
        *label_slice(bench, "north", "YES", right=100, of=200),
        *label_slice(bench, "north", "NO", right=200, of=200),
        *label_slice(bench, "south", "YES", right=200, of=200),
        *label_slice(bench, "south", "NO", right=100, of=200),
    ]
    random.Random(5).shuffle(rows)
    import_steps(bench, rows)
    recompute()

    for one in cut(bench).items:
        ways = ["recall:YES"], ["recall:NO"]
        assert one.state == "worse"
        assert (one.worse_in, one.better_in) == (
            ways if one.value == "north" else ways[::-1]
        )
    assert sorted(told(bench)) == [("north", "recall:YES"), ("south", "recall:NO")]


def test_a_recount_that_another_measure_overtakes_is_done_once_more(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    declare(bench, "camera")
    bench.log("YES", "YES", metadata={"camera": "north"})
    recompute()
    measure_by(bench, "overall")
    with bench.database.read() as session:
        found = read_again(session, bench.attached(session))
    assert found is not None
    measure_by(bench, "recall:NO")

    with pytest.raises(StaleFoldError), bench.database.write() as session:
        store_again(session, found, computed_at=START)


def test_the_built_in_cuts_add_up_to_the_whole(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    draw = random.Random(8)
    for number in range(60):
        day = START.replace(day=1 + number % 20)
        bench.log(**random_step(draw), asked_at=day.isoformat())
    recompute()
    with bench.database.read() as session:
        assert list_cuts(bench.attached(session)) == ["version", "predicted", "week"]

    for name in ("predicted", "week"):
        found = cut(bench, name, version="v2")
        whole = bench.estimate(version="v2")
        assert found.labels == sum(one.labels for one in found.items) == whole.labels
        logged = {one.value: one.queries for one in cut(bench, "version").items}
        assert sum(one.queries for one in found.items) == found.queries == logged["v2"]
    assert cut(bench, "version").labels == bench.estimate(version="*").labels
    weeks = cut(bench, "week", version="v2").items
    assert {one.value for one in weeks} <= {
        "2025-12-29",
        "2026-01-05",
        "2026-01-12",
        "2026-01-19",
    }
    for one in weeks:
        estimate = bench.estimate(version="v2", where=[one.where])
        assert (estimate.labels, sum(estimate.correct)) == (
            one.labels,
            one.overall.correct,
        )


def test_a_week_begins_where_days_do_and_counts_queries_without_a_label(
    bench: Bench,
) -> None:
    with bench.database.write() as session:
        bench.attached(session).time_zone = "Europe/Berlin"
    # A Monday in Berlin, and still a Sunday in UTC.
    for label in ("YES", None):
        bench.log(predicted="YES", label=label, asked_at="2026-01-11T23:30:00Z")
    (week,) = cut(bench, "week").items
    assert (week.value, week.queries, week.labels) == ("2026-01-12", 2, 1)
    (said,) = cut(bench, "predicted").items
    assert (said.value, said.queries, said.labels) == ("YES", 2, 1)
    assert bench.estimate(where=[week.where]).labels == 1


def test_a_week_is_counted_by_one_statement_however_many_queries_wait(
    bench: Bench,
) -> None:
    for number in range(30):
        bench.log(predicted="YES", asked_at=f"2026-01-12T00:{number:02}:00Z")
    bench.log(predicted="YES", asked_at="2026-03-04T10:00:00Z")
    with noted_statements(bench.database) as noted:
        weeks = cut(bench, "week").items
    found = {one.value: one.queries for one in weeks}
    assert found == {"2026-01-12": 30, "2026-03-02": 1}
    counted = [one for one in noted if "count(*)" in one and "asked_at <" in one]
    assert len(counted) == 2
    # None cuts each instant, which would give a row a minute.
    assert not [one for one in noted if "asked_at, 1, 16" in one or "HH24:MI" in one]


def test_intervals_of_many_slices_are_wider_than_those_of_one(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    declare(bench, "camera")
    for camera in CAMERAS:
        for label in ["YES"] * 20 + ["NO"] * 4:
            bench.log("YES", label, metadata={"camera": camera})
    recompute()

    found = cut(bench)
    alone = bench.estimate(method="anytime", where=["metadata.camera:north"])
    north = next(one for one in found.items if one.value == "north")
    assert north.classes[0].low < alone.classes[0].low
    assert north.classes[0].high == alone.classes[0].high == 1
    assert north.overall.low < north.overall.accuracy < north.overall.high
    assert north.balanced.accuracy == alone.balanced.accuracy


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("north", "north"),
        (3, "3"),
        (3.0, "3"),
        (3.5, "3.5"),
        (True, "true"),
        (None, NO_VALUE),
        ([1], OTHER),
        ({"a": 1}, OTHER),
        ("x" * 201, OTHER),
        (1e300, str(int(1e300)) if len(str(int(1e300))) <= 200 else OTHER),
    ],
)
def test_a_value_is_written_as_a_condition_finds_it(
    value: object, expected: str
) -> None:
    assert read_value({"camera": value}, "camera") == expected
    assert read_value({}, "camera") == NO_VALUE
