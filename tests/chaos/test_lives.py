"""Whole lives of detectors near their target: how often what is told changes.

They go through the projections and the rule of the worker, and have
looks where the product has them: after every label up to 100, then at checkpoints.
"""

from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from typing import NamedTuple

import numpy as np
import pytest

from tests.conftest import IS_LONG, START
from tests.telling.evidence import follow_all
from tracker.services.estimates.intervals import score
from tracker.services.estimates.projections import Cells, Checkpoints, VersionFold
from tracker.services.telling.events import Look
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import Cell, Change
from tracker.words import DECIDING_METHOD, RANDOM

TARGET, LEVEL, CLASSES = 0.9, 0.95, ("NO", "YES")
LIVES = 500 if IS_LONG else 40
LABELS = 5_000 if IS_LONG else 2_000
PIECE = 20


class Life(NamedTuple):
    """What was told in a life, and how often the bare verdict changed."""

    events: int
    bare: int
    verdicts: frozenset[str]


@dataclass(frozen=True)
class Lives:
    """Lives of one accuracy, with one seed for each piece of them."""

    accuracy: float
    seed: int

    def live(self) -> list[Life]:
        rng = np.random.default_rng(self.seed)
        return [live(rng, self.accuracy) for _ in range(PIECE)]


def live(rng: np.random.Generator, accuracy: float) -> Life:
    detector = Detector(classes=[*CLASSES], confidence_level=LEVEL)
    version = VersionFold(detector, [Cells, Checkpoints], is_new=True)
    for change in changes(rng, accuracy):
        version.add(change)
    made = version.of(Checkpoints).points
    points = [one for one in made if DECIDING_METHOD in one.methods]
    scores = score(
        [one.correct for one in points],
        [one.labelled for one in points],
        DECIDING_METHOD,
        LEVEL,
    )
    looks = [
        Look(one.correct, one.labelled, found[0].low, found[0].high)
        for one, found in zip(points, scores, strict=True)
    ]
    told = follow_all(looks, TARGET, LEVEL)
    bare = [(one.low > TARGET) - (one.high < TARGET) for one in looks]
    return Life(
        events=len(told),
        bare=int(np.count_nonzero(np.diff([0, *bare]))),
        verdicts=frozenset(one["verdict"] for one in told),
    )


def changes(rng: np.random.Generator, accuracy: float) -> Iterator[Change]:
    """Labels as the worker reads them."""
    truths = rng.integers(0, 2, LABELS).tolist()
    hits = (rng.random(LABELS) < accuracy).tolist()
    for number, (truth, is_right) in enumerate(zip(truths, hits, strict=True)):
        predicted = CLASSES[truth if is_right else 1 - truth]
        yield Change(
            detector_id=1,
            version_id=1,
            id=number,
            day=START.date(),
            added=Cell(RANDOM, CLASSES[truth], predicted),
            created_at=START,
        )


def live_all(accuracy: float) -> list[Life]:
    pieces = [Lives(accuracy, seed) for seed in range(LIVES // PIECE)]
    with ProcessPoolExecutor(2, mp_context=get_context("spawn")) as pool:
        found = pool.map(Lives.live, pieces)
        return [life for piece in found for life in piece]


@pytest.mark.parametrize("accuracy", [0.9, 0.92])
def test_what_is_told_of_a_steady_detector_hardly_ever_changes(
    accuracy: float, record_figure
) -> None:
    lives = live_all(accuracy)
    events = sum(one.events for one in lives) / len(lives)
    bare = sum(one.bare for one in lives) / len(lives)
    wrong = {0.9: {"met", "missed"}}.get(accuracy, {"missed"})
    false = sum(bool(one.verdicts & wrong) for one in lives)
    most = max(one.events for one in lives)
    record_figure(
        f"{len(lives):,} lives of {LABELS:,} labels: {events:.2f} events a life, at "
        f"most {most}, of the interval alone {bare:.2f}; "
        f"{false} lives with a wrong verdict"
    )
    assert false <= (1.0 - LEVEL) * len(lives)
    assert events <= bare
    assert events <= {0.9: 0.15, 0.92: 1.3}[accuracy]
    assert most <= 5
