"""A gate that is asked after every label: how often it is ever wrong in a whole life.

The same accuracy stands on both sides, so any verdict but *undecided* is wrong.
"""

import numpy as np
import numpy.typing as npt

from tests.conftest import IS_LONG, by
from tests.services.conftest import Bench, bench  # noqa: F401 - a fixture.
from tests.telling.evidence import may_be_decided
from tracker.services.deciding.gates import GateChoice, ask_gate
from tracker.services.estimates.decision import method_level
from tracker.stats import balanced_interval, decide
from tracker.words import DECIDING_METHOD

TARGET, LEVEL = 0.9, 0.95
LOOKS = 1_000
LIVES = 4_000 if IS_LONG else 1_000
PAIRED_LIVES = 10_000 if IS_LONG else 2_000
ASKED = 200 if IS_LONG else 40
Counts = npt.NDArray[np.int64]


def test_a_version_at_its_target_passes_or_stops_a_build_in_one_life_of_twenty(
    record_figure,
) -> None:
    rng = np.random.default_rng(14)
    # Each accuracy is the target: the classes come in turn.
    right = rng.random((LIVES, LOOKS, 1)) < TARGET
    is_of = np.arange(LOOKS)[:, np.newaxis] % 2 == np.arange(2)
    correct = np.cumsum(right & is_of, axis=1)
    labelled = np.cumsum(is_of, axis=0)
    wrong = np.zeros(LIVES, dtype=bool)
    for look in range(LOOKS):
        # A life in which it was wrong is not asked again.
        speaks = may_be_decided(correct[:, look], labelled[look], [TARGET, TARGET])
        asked = np.flatnonzero(~wrong & speaks)
        if not len(asked):
            continue
        n = np.broadcast_to(labelled[look], (len(asked), 2))
        low, high = balanced_interval(DECIDING_METHOD, correct[asked, look], n, LEVEL)
        wrong[asked] = (low > TARGET) | (high < TARGET)
    record_figure(f"{wrong.sum()} of {LIVES:,} lives of {LOOKS:,} looks, at the target")
    assert wrong.mean() <= 1.0 - LEVEL


def test_a_version_against_itself_is_better_or_worse_in_one_life_of_twenty(
    record_figure,
) -> None:
    rng = np.random.default_rng(15)
    # At each look a label decides a disagreement, which either side wins alike.
    won: Counts = np.cumsum(rng.random((PAIRED_LIVES, LOOKS)) < 0.5, axis=1)
    wrong = np.zeros(PAIRED_LIVES, dtype=bool)
    enough = 1
    for n in range(1, LOOKS + 1):
        # So many wins it takes; one more label asks for at most one more of them.
        while enough <= n and decide(enough, n - enough, LEVEL).verdict != "better":
            enough += 1
        assert enough > n or decide(n - enough, enough, LEVEL).verdict == "worse"
        wrong |= (won[:, n - 1] >= enough) | (n - won[:, n - 1] >= enough)
    record_figure(f"{wrong.sum()} of {PAIRED_LIVES:,} lives, a version against itself")
    assert 0 < wrong.mean() <= 1.0 - LEVEL


def test_the_gate_says_at_each_label_what_those_lives_were_judged_by(
    bench: Bench,  # noqa: F811
) -> None:
    rng = np.random.default_rng(16)
    correct, labelled, won, lost = [0, 0], [0, 0], 0, 0
    classes = ("YES", "NO")
    for look in range(ASKED):
        truth = look % 2
        hits = (rng.random(2) < TARGET).tolist()
        for version, hit in zip(("v1", "v2"), hits, strict=True):
            said = classes[truth if hit else 1 - truth]
            bench.log(said, classes[truth], version=version, input=f"{look}")
        labelled[truth] += 1
        correct[truth] += hits[1]
        won, lost = won + (hits == [False, True]), lost + (hits == [True, False])
        with bench.database.read() as session:
            gate = ask_gate(
                session,
                bench.attached(session),
                GateChoice(target=TARGET, version="v2", not_worse_than="v1"),
                by(at=bench.clock()),
            )
        level = method_level(DECIDING_METHOD, LEVEL, "live")
        low, high = balanced_interval(DECIDING_METHOD, correct, labelled, level)
        assert (gate.low, gate.high) == (float(low), float(high))
        verdicts = {check.name: check.verdict for check in gate.checks}
        words = {"better": "met", "worse": "missed", "undecided": "undecided"}
        decision = decide(won, lost, LEVEL).verdict
        assert verdicts["not-worse-than"] == words[decision]
        assert verdicts["target"] == "undecided"
        assert gate.verdict == "undecided"
