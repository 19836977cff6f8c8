"""Labels whose mistakes come in bursts are warned of, until groups are named."""

import random
from collections.abc import Iterable
from datetime import timedelta

import pytest

from tests.conftest import START, by
from tests.services.conftest import Bench
from tests.services.test_groups import change, recompute
from tracker.mcp.server import _say_estimate
from tracker.services.deciding.gates import GateChoice, ask_gate
from tracker.services.estimates import fold
from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.measures import add_measure
from tracker.services.estimates.report import add_sentence
from tracker.services.evidence.measure import Measure
from tracker.storage.detectors import list_versions
from tracker.storage.estimates.projections import BURSTS, load_states


def log_bursts(bench: Bench, wrong: Iterable[bool], *, first: int = 0) -> None:
    bench.log_all(
        {
            "key": f"k{number}",
            "predicted": "NO" if is_wrong else "YES",
            "label": "YES",
            "metadata": {"event": f"e{number // 5}"},
        }
        for number, is_wrong in enumerate(wrong, start=first)
    )


def in_fives(events: int, *, every: int) -> list[bool]:
    """Events of five frames, of which every so many are wrong as a whole."""
    return [event % every == 0 for event in range(events) for _ in range(5)]


def codes(found: Estimate) -> list[str]:
    return [one.code for one in found.warnings]


def test_bursts_are_warned_of_before_and_after_the_job(bench: Bench) -> None:
    log_bursts(bench, in_fives(20, every=8))
    before = bench.estimate()
    assert codes(before) == ["dependent_mistakes"]
    [found] = before.warnings
    # Three events of five, in one class and two blocks: four follow another in each.
    assert (found.labels, found.neighbours) == (100, 12)
    assert 1 < found.expected < 4
    assert "12 neighbouring pairs" in found.message
    recompute(bench)
    assert bench.estimate().warnings == before.warnings


def test_gates_and_language_models_are_told_of_bursts(bench: Bench) -> None:
    log_bursts(bench, in_fives(20, every=8))
    found = add_measure(bench.estimate(method="anytime"), "recall")
    with bench.database.read() as session:
        detector, at = bench.attached(session), by("alice", bench.clock())
        asked = ask_gate(session, detector, GateChoice(target=0.1), at)
        said = _say_estimate(add_sentence(detector, found), Measure("balanced"))
    for words in (asked.basis, said):
        assert "Mistakes come in bursts (12 neighbouring pairs" in words


def test_mistakes_in_random_order_are_not_warned_of(bench: Bench) -> None:
    wrong = in_fives(20, every=8)
    random.Random(1).shuffle(wrong)
    log_bursts(bench, wrong)
    assert bench.estimate().warnings == []


@pytest.mark.parametrize("most", [20_000, 300])
@pytest.mark.parametrize("days", [range(80, 100), range(60, 80)])
def test_a_sudden_fall_is_no_burst(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, most: int, days: range
) -> None:
    """Not a fall to the end, nor one before a rise."""
    # In one piece, or in several of which only the last one knows of the change.
    monkeypatch.setattr(fold, "_MOST_IN_A_PIECE", most)
    draw = random.Random(2)
    rows = []
    for number in range(1_000):
        day, minute = divmod(number, 10)
        label = draw.choice(["YES", "NO"])
        is_right = draw.random() < (
            (0.6 if days.stop == 100 else 0.3) if day in days else 0.98
        )
        other = "NO" if label == "YES" else "YES"
        rows.append(
            {
                "key": f"k{number}",
                "predicted": label if is_right else other,
                "label": label,
                "asked_at": START + timedelta(days=day - 100, minutes=minute),
            }
        )
    draw.shuffle(rows)
    # The look at 800 labels, with the change that they prove.
    bench.log_all(rows)
    found = bench.estimate()
    assert found.change is not None
    assert found.warnings == []
    recompute(bench)
    assert bench.estimate().warnings == []


def test_the_first_hundred_labels_are_the_first_look(bench: Bench) -> None:
    wrong = in_fives(20, every=8)
    log_bursts(bench, wrong[:99])
    assert bench.estimate().warnings == []
    log_bursts(bench, wrong[99:], first=99)
    assert codes(bench.estimate()) == ["dependent_mistakes"]


def test_between_two_looks_nothing_is_looked_at(bench: Bench) -> None:
    log_bursts(bench, [False] * 100)
    log_bursts(bench, in_fives(19, every=3), first=100)
    recompute(bench)
    assert bench.estimate().warnings == []
    log_bursts(bench, [False] * 5, first=195)
    assert codes(bench.estimate()) == ["dependent_mistakes"]
    recompute(bench)
    assert bench.estimate().warnings[0].labels == 200


def test_the_job_keeps_what_it_found_and_reads_it_no_more(bench: Bench) -> None:
    log_bursts(bench, in_fives(20, every=8))
    recompute(bench)
    with bench.database.read() as session:
        [version] = list_versions(session, bench.detector.id)
        state = load_states(session, [version])[version.id][BURSTS, "live"]
    assert (state["look"], state["found"]["labels"]) == (1, 100)


def test_groups_end_the_warning(bench: Bench) -> None:
    log_bursts(bench, in_fives(20, every=8))
    change(bench, group_by="metadata.event")
    recompute(bench)
    found = bench.estimate()
    assert (found.labels, found.grouped_left_out, found.warnings) == (20, 80, [])


def test_only_an_estimate_of_all_labels_of_a_version_warns(bench: Bench) -> None:
    log_bursts(bench, in_fives(20, every=8))
    assert bench.estimate(version="*").warnings == []
    assert bench.estimate(window="50").warnings == []
    assert bench.estimate(where=["predicted:NO"]).warnings == []
