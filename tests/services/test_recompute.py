"""Folding labels into counts, and the checkpoints on the way."""

import itertools
import random
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
from sqlalchemy import select

from tests.conftest import START, Clock, by
from tests.databases import get_by_id
from tests.imports import import_rows
from tests.services.conftest import Bench
from tests.services.folds import compute_fold
from tracker import stats
from tracker.jobs.recompute import Recompute
from tracker.services.detectors import DetectorChange, change_detector
from tracker.services.estimates import fold
from tracker.services.estimates.decision import method_level
from tracker.services.estimates.fold import StaleFoldError, store_folds
from tracker.services.estimates.measures import KEPT_MEASURES
from tracker.services.estimates.projections import QUIET
from tracker.services.estimates.recount import recount
from tracker.services.operations.doctor import check_detector
from tracker.storage.database import Database
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.cells import Cell
from tracker.storage.estimates.job_runs import JobRun
from tracker.storage.estimates.pending import list_pending_batches
from tracker.storage.estimates.projections import (
    CELLS,
    Kept,
    load_counts,
    store_projections,
)
from tracker.storage.estimates.snapshots import (
    Snapshot,
    find_newest_snapshot,
    iter_intervals,
)
from tracker.storage.queries.queries import Query
from tracker.words import STORED_METHODS

Step = tuple[str, str, str | None]


def history(
    bench: Bench, *, kinds: tuple[str, ...] = ("checkpoint", "run")
) -> list[Any]:
    """Return all of the stored history but for when it was computed."""
    with bench.database.read() as session:
        versions = list_versions(session, bench.detector.id)
        return [
            tuple(
                value.hex() if isinstance(value, float) else value
                for name, value in row._mapping.items()
                if name not in {"computed_at", "sequence"}
            )
            for row in iter_intervals(session, versions)
            if row.kind in kinds
        ]


def measures(bench: Bench) -> list[tuple[Any, ...]]:
    """Return the other measures of all checkpoints, to the last bit."""
    with bench.database.read() as session:
        versions = list_versions(session, bench.detector.id)
        return [
            (measure, row.labels, row.position, row.correct, row.labelled, *bounds)
            for measure in KEPT_MEASURES
            for row in iter_intervals(session, versions, measure=measure)
            for bounds in [(str(row.accuracy), row.low.hex(), row.high.hex())]
            if row.kind == "checkpoint"
        ]


def checkpoints(bench: Bench) -> list[int]:
    """Return the numbers of labels at which there are checkpoints."""
    return [
        row[3]
        for row in history(bench, kinds=("checkpoint",))
        if row[4:6] == ("exact", 0)
    ]


def import_steps(bench: Bench, steps: list[dict[str, Any]]) -> None:
    rows = steps
    with bench.database.write() as session:
        import_rows(
            session,
            bench.attached(session),
            rows,
            by("file", bench.clock()),
            digest="0" * 64,
        )


def test_each_label_up_to_a_hundred_makes_a_checkpoint_then_each_hundredth_more(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    import_steps(bench, [{"predicted": "YES", "label": "YES"}] * 1000)
    recompute()

    numbers = checkpoints(bench)

    assert numbers[:100] == list(range(1, 101))
    expected = 100
    for number in numbers[100:]:
        expected = -(-101 * expected // 100)
        assert number == expected
    assert 0 <= 1000 - numbers[-1] < 0.01 * 1000 + 1


def test_labels_that_end_between_checkpoints_get_a_snapshot_once_it_is_quiet(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    import_steps(bench, [{"predicted": "YES", "label": "YES"}] * 104)
    recompute()
    bench.clock.at += QUIET - timedelta(seconds=1)
    recompute()
    assert history(bench, kinds=("run",)) == []
    bench.clock.at += timedelta(seconds=1)
    recompute()
    recompute()

    rows = history(bench, kinds=("run",))
    assert {row[3] for row in rows} == {104}
    assert [row[5] for row in rows if row[4] == "exact"] == [0, 1, 2]


@pytest.mark.slow
def test_a_day_has_at_most_24_run_snapshots_and_the_next_one_begins_with_another(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    numbers = []
    import_steps(bench, [{"predicted": "YES", "label": "YES"}] * 4_003)
    recompute()
    for _ in range(26):
        bench.log("YES", "YES")
        recompute()
        bench.clock.at += QUIET
        recompute()
        numbers.append(len({row[3] for row in history(bench, kinds=("run",))}))
    assert numbers == [*range(1, 25), 24, 24]

    bench.clock.at = bench.clock.at.replace(hour=0, minute=0) + timedelta(days=1)
    recompute()

    assert history(bench, kinds=("run",))[-1][3] == 4_029


def test_every_stored_method_is_there_at_every_checkpoint(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    import_steps(bench, [{"predicted": "YES", "label": "YES"}] * 150)
    recompute()
    bench.clock.at += QUIET
    recompute()

    rows = history(bench)

    for method in STORED_METHODS:
        mine = [row for row in rows if row[4] == method]
        assert [row[5] for row in mine] == [0, 1, 2] * (len(mine) // 3)
        assert [row[3] for row in mine[::3]][:100] == list(range(1, 101))
        assert mine[-1][3] == 150
        for row in mine[:: 3 * 20]:
            counts, shares = [row[3], 0], [151 / 152, 1 / 152]
            low, high = stats.balanced_interval(
                method,
                counts,
                counts,
                method_level(method, 0.95, "live"),
                shares=shares,
            )
            formula = stats.get_method(method).formula
            bounds = (float(low).hex(), float(high).hex())
            assert row[-4:] == (*bounds, formula, "live")


@pytest.mark.slow
def test_a_costly_joint_interval_waits_for_five_percent_more_labels(
    database: Database, clock: Clock, recompute: Callable[[], None]
) -> None:
    classes = [f"c{number}" for number in range(100)]
    bench = Bench(database, clock, classes)
    assert stats.joint_is_costly([3] + [1] * 99)
    # Costly once more than 64 classes have labels, and not all as many.
    labels = [classes[0]] * 3 + classes[1:98]
    import_steps(bench, [{"predicted": label, "label": label} for label in labels[:70]])
    recompute()
    for label in labels[70:]:
        bench.log(label, label)
    recompute()

    joint = [row[3] for row in history(bench) if row[4:6] == ("joint", 0)]

    costly_from = next(i for i, number in enumerate(joint) if number > 66)
    for before, after in itertools.pairwise(joint[costly_from:]):
        assert after == -(-105 * before // 100)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2])
def test_labels_one_by_one_and_in_one_file_give_the_same_checkpoints(
    bench: Bench,
    database: Database,
    recompute: Callable[[], None],
    seed: int,
) -> None:
    draw = random.Random(seed)
    steps = [
        {
            "key": f"k{number}",
            "predicted": draw.choice(["YES", "NO"]),
            "label": draw.choice(["YES", "YES", "NO", "UNCLEAR"]),
            "sampling": draw.choice(["random", "random", "targeted"]),
        }
        for number in range(172)
    ]
    import_steps(bench, steps)
    recompute()
    other = Bench.__new__(Bench)
    other.database, other.clock = database, bench.clock
    with database.write() as session:
        other.detector = _second_detector(session)
    for number, step in enumerate(steps):
        other.log(**step)
        if number % 7 == 0:
            recompute()
    recompute()

    mine = [row[2:] for row in history(bench, kinds=("checkpoint",))]
    theirs = [row[2:] for row in history(other, kinds=("checkpoint",))]
    assert len(mine) > 100
    assert mine == theirs
    # Overall, and macro and two classes of precision and of F1.
    assert len(measures(bench)) == 7 * len(checkpoints(bench))
    assert measures(bench) == measures(other)


def _second_detector(session: Any) -> Any:
    from tracker.services.detectors import NewDetector, create_detector

    new = NewDetector(name="second", question="Is it closed?", label_sampling="random")
    return create_detector(session, new, by(at=START))


@pytest.mark.parametrize("size", [7, 50])
def test_pieces_give_the_bits_of_one_fold(
    bench: Bench, database: Database, monkeypatch: pytest.MonkeyPatch, size: int
) -> None:
    draw = random.Random(4)
    steps = [
        {
            "key": f"k{number}",
            "predicted": "YES",
            "label": draw.choice(["YES", "NO", "UNCLEAR"]),
            "version": draw.choice(["v1", "v2"]),
        }
        for number in range(40)
    ]
    other = Bench.__new__(Bench)
    other.database, other.clock = database, bench.clock
    with database.write() as session:
        other.detector = _second_detector(session)
    for one in (bench, other):
        import_steps(one, steps)
        for query in [one.log("NO", "NO") for _ in range(5)]:
            one.label(query, "YES")
        import_steps(one, [{"predicted": "NO", "label": "YES"}] * 15)
        if one is other:
            monkeypatch.setattr(fold, "_FEWEST_IN_A_PIECE", 1)
            monkeypatch.setattr(fold, "_MOST_IN_A_PIECE", size)
        job = Recompute(database=database, worker="w", clock=one.clock)
        job.recompute(one.detector.id)

    runs = []
    with database.read() as session:
        for one in (bench, other):
            detector = one.attached(session)
            runs.append(
                session.query(JobRun).filter_by(detector_id=detector.id).count()
            )
            assert recount(session, detector) == []
            versions = list_versions(session, detector.id)
            assert sum(version.queries for version in versions) == 60
            assert list_pending_batches(session, [detector.id]) == {}
    assert runs == [1, -(-65 // size)]
    mine = [row[2:] for row in history(bench, kinds=("checkpoint",))]
    theirs = [row[2:] for row in history(other, kinds=("checkpoint",))]
    assert len(mine) > 60
    assert mine == theirs


def test_a_piece_ends_behind_the_labels_that_its_own_replace(
    bench: Bench, recompute: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fold, "_FEWEST_IN_A_PIECE", 1)
    monkeypatch.setattr(fold, "_MOST_IN_A_PIECE", 1)
    replace_a_later_label(bench)

    with bench.database.read() as session:
        found = compute_fold(session, bench.attached(session))
        assert found is not None
        assert found.labels == 2
    recompute()

    assert [c.labelled for c in bench.estimate().classes] == [1, 0]
    with bench.database.read() as session:
        assert recount(session, bench.attached(session)) == []


def test_corrected_labels_move_the_counts_and_leave_the_history(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    queries = [bench.log("YES", "YES") for _ in range(20)]
    recompute()
    before = history(bench)
    for query in queries[:5]:
        bench.label(query, "NO")
    bench.label(queries[0], "YES")
    recompute()

    assert history(bench)[: len(before)] == before
    estimate = bench.estimate()
    assert [c.correct for c in estimate.classes] == [16, 0]
    assert [c.labelled for c in estimate.classes] == [16, 4]
    assert estimate.corrections == 6
    with bench.database.read() as session:
        assert recount(session, bench.attached(session)) == []


def replace_a_later_label(bench: Bench) -> None:
    """Give a label with a lower id than the one that it replaces.

    A long import draws its ids when it begins; somebody labels the same query
    meanwhile, and the import then corrects that label.
    """
    query = bench.log("YES", key="k")
    from tracker.services.queries.queries import label_row
    from tracker.storage.estimates.pending import add_batch, first_id
    from tracker.storage.inserting import insert_rows
    from tracker.storage.labelling.current import set_current_labels
    from tracker.storage.labels import Label

    with bench.database.write() as session:
        early = first_id(add_batch(session, bench.detector.id, created_at=START))
    bench.label(query, "NO")
    with bench.database.write() as session:
        stored = get_by_id(session, Query, query.id)
        assert stored.label_id is not None
        assert stored.label_id > early
        row = label_row(
            early,
            query.id,
            query.detector_id,
            "YES",
            "unstated",
            by("x"),
            replaces_id=stored.label_id,
        )
        insert_rows(session, Label, [row])
        values = {name: row[name] for name in ("label", "sampling", "standing")}
        values |= {"is_replayed": False, "keeps_rank": False, "agreement": None}
        current = {"query_id": query.id, "label_id": early} | values
        set_current_labels(session, query.detector_id, [current])


def test_a_label_with_a_lower_id_that_replaces_a_higher_one_is_counted_once(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    replace_a_later_label(bench)
    recompute()

    estimate = bench.estimate()
    assert [c.labelled for c in estimate.classes] == [1, 0]
    with bench.database.read() as session:
        assert recount(session, bench.attached(session)) == []


def test_a_worker_that_was_too_slow_writes_nothing(bench: Bench) -> None:
    bench.log("YES", "YES")
    with bench.database.read() as session:
        slow = compute_fold(session, bench.attached(session))
        fast = compute_fold(session, bench.attached(session))
    assert slow is not None
    assert fast is not None
    with bench.database.write() as session:
        store_folds(session, [fast], worker="fast", computed_at=START, seconds=0.1)

    with pytest.raises(StaleFoldError), bench.database.write() as session:
        store_folds(session, [slow], worker="slow", computed_at=START, seconds=9.0)

    with bench.database.read() as session:
        assert session.query(Snapshot).count() == 1
        runs = session.scalars(select(JobRun).order_by(JobRun.id.desc())).all()
        assert [run.worker for run in runs] == ["fast"]


def test_labels_that_commit_late_are_in_the_next_snapshot(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    bench.log("YES", "YES")
    if bench.database.is_sqlite:
        # One writer at a time: nothing can commit late there.
        recompute()
    else:
        from tracker.services.queries.queries import NewQuery, log_query

        with bench.database.write() as late:
            new = NewQuery(predicted="YES", label="YES")
            log_query(late, bench.attached(late), new, by("a", START))
            bench.log("NO", "NO")
            recompute()
        recompute()

    assert checkpoints(bench)[-1] == bench.estimate().labels
    with bench.database.read() as session:
        assert recount(session, bench.attached(session)) == []


def test_a_count_that_was_tampered_with_is_found_by_the_recount(
    published: Bench, recompute: Callable[[], None]
) -> None:
    recompute()
    with published.database.write() as session:
        version = list_versions(session, published.detector.id)[0]
        place = (published.detector.id, version.id, CELLS, "")
        counts = load_counts(session, [version])[version.id]
        counts.cells[Cell("unstated", "YES", "YES")] = 24
        store_projections(session, {place: Kept("", counts.dump())})

    with published.database.read() as session:
        [wrong] = recount(session, published.attached(session))

    assert (wrong.running, wrong.recounted) == (24, 23)


def test_a_snapshot_says_how_many_labels_were_left_out(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    bench.log("YES", "UNCLEAR")
    bench.log("NO", "YES", sampling="targeted")
    bench.log("YES", "YES")
    recompute()

    with bench.database.read() as session:
        [snapshot] = session.query(Snapshot).all()

    assert (snapshot.labels, snapshot.unclear, snapshot.targeted_left_out) == (1, 1, 1)


def newest(bench: Bench, version: str) -> tuple[str, str, int]:
    """Return kind, population and number of labels of the newest snapshot."""
    with bench.database.read() as session:
        versions = list_versions(session, bench.detector.id)
        [one] = [one for one in versions if one.name == version]
        snapshot = find_newest_snapshot(session, one)
        assert snapshot is not None
        assert [*check_detector(session, bench.attached(session))] == []
        return snapshot.kind, snapshot.population, snapshot.labels


def test_a_label_that_only_changes_the_population_makes_a_checkpoint(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    bench.log("YES", "YES", input="a", version="v1")
    bench.log("YES", input="a", version="v2")
    recompute()
    assert newest(bench, "v2") == ("checkpoint", "replayed", 1)

    # The first live label of the version, which is not scored.
    query = bench.log("YES", "UNCLEAR", version="v2")
    recompute()
    assert newest(bench, "v2") == ("checkpoint", "live", 0)
    assert bench.estimate(version="v2").population.kind == "live"

    bench.label(query, "YES")
    recompute()
    assert newest(bench, "v2") == ("checkpoint", "live", 1)


def test_a_first_label_that_is_not_scored_makes_no_checkpoint(
    database: Database, clock: Clock, recompute: Callable[[], None]
) -> None:
    bench = Bench(database, clock, ["YES", "NO"])
    state(bench, None)
    bench.log("YES", "UNCLEAR")
    recompute()
    assert history(bench) == []
    bench.log("YES", "YES")
    recompute()
    assert newest(bench, "default") == ("checkpoint", "unstated", 1)


def state(bench: Bench, label_sampling: str | None) -> None:
    """State how labels that do not say so were chosen."""
    change = DetectorChange(label_sampling=label_sampling)
    with bench.database.write() as session:
        who = by("alice", bench.clock())
        change_detector(session, bench.attached(session), change, who)


def test_stating_how_labels_were_chosen_makes_a_snapshot_of_what_counts_now(
    bench: Bench, recompute: Callable[[], None]
) -> None:
    state(bench, None)
    for _ in range(3):
        bench.log("YES", "YES")
    bench.log("YES", "YES", sampling="random")
    bench.log("YES", "YES", version="empty", sampling="targeted")
    bench.log("YES", version="unlabelled")
    recompute()
    assert newest(bench, "default") == ("checkpoint", "live", 1)

    state(bench, "all")
    recompute()
    assert newest(bench, "default") == ("run", "live", 4)

    state(bench, "targeted")
    recompute()
    assert newest(bench, "default") == ("run", "live", 1)
    assert {row[0] for row in history(bench)} == {1}
    bench.log("NO", "NO", sampling="random")
    recompute()
    assert newest(bench, "default") == ("checkpoint", "live", 2)
