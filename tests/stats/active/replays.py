"""Carry out audits of made-up pools, and see whether an interval ever misses."""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import expit, logit

from tracker.demo.digits import DETECTORS, load_digits
from tracker.stats.active.betting import (
    EDGES,
    GRID,
    LOG_PRIOR,
    BalancedBets,
    ClassBets,
    balanced_ends,
)
from tracker.stats.active.learning import next_round, round_length
from tracker.stats.active.ledger import Goal, Ledger, build_rows
from tracker.stats.active.looks import look
from tracker.stats.active.strata import MISSING, build_strata, choose_stratum
from tracker.stats.arguments import tail_share


@dataclass
class Pool:
    """A fixed set: what was said, how surely, and what labelling will say of each."""

    classes: int
    predicted: np.ndarray
    confidence: np.ndarray
    labels: np.ndarray
    verdicts: np.ndarray | None = None

    def __post_init__(self):
        self.strata, self.index = build_strata(
            self.classes, self.predicted, self.confidence, self.verdicts
        )

    def truths(self):
        """Return the class accuracies, NaN for those without a query, and overall."""
        right = self.predicted == self.labels
        scored = self.labels < self.classes
        classes = [
            right[self.labels == c].mean() if (self.labels == c).any() else math.nan
            for c in range(self.classes)
        ]
        return [*classes, right[scored].mean() if scored.any() else math.nan]

    def counts(self, items):
        known = np.zeros((len(self.strata.sizes), self.classes + 1), dtype=np.int64)
        np.add.at(known, (self.index[items], self.labels[items]), 1)
        return known


@dataclass
class Plan:
    """How an audit is carried out.

    Each query has the label *first* until the last draw, OPEN for one that is late,
    and that of the pool from then on.
    """

    draws: int
    aim: int | None = None
    half_width: float = 0.05
    known: tuple[int, ...] = ()
    is_uniform: bool = False
    length: Callable[[int], int] = round_length
    first: np.ndarray | None = None
    # Whether an earlier audit has taught the opposite of what the detector says.
    is_poisoned: bool = False

    @property
    def goal(self):
        return Goal(self.aim, self.half_width, None)


def carry_out(pool: Pool, plan: Plan, seed: int) -> Ledger:
    """Draw, label and learn; return the record."""
    rng = np.random.default_rng(seed)
    known = pool.counts(list(plan.known))
    lines = []
    for stratum in range(len(pool.strata.sizes)):
        members = np.setdiff1d(np.flatnonzero(pool.index == stratum), plan.known)
        lines.append(rng.permutation(members))
    left = np.array([len(line) for line in lines])
    taken = np.zeros_like(left)
    ledger = Ledger(pool.strata, (), (), np.zeros(0, int), np.zeros(0, int))
    first = pool.labels if plan.first is None else plan.first
    drawn, labels, items = [], [], []
    carried = opposite(pool) if plan.is_poisoned else None
    for draw in range(min(plan.draws, int(left.sum()))):
        last = ledger.rounds[-1].start if ledger.rounds else -math.inf
        if draw - last >= plan.length(max(0, last)):
            ledger = replace(
                ledger, drawn=np.array(drawn, int), labels=np.array(labels, int)
            )
            following = next_round(
                *(ledger, known, plan.goal),
                is_even=plan.is_uniform,
                carried=carried,
            )
            ledger = replace(
                ledger,
                rounds=(*ledger.rounds, following),
                known=(*ledger.known, known),
            )
        weights = ledger.rounds[-1].weights
        stratum = choose_stratum(b"%d" % seed, draw, left - taken, weights)
        item = lines[stratum][taken[stratum]]
        taken[stratum] += 1
        drawn.append(stratum)
        labels.append(first[item])
        items.append(item)
    final = pool.labels[np.array(items, int)]
    return replace(ledger, drawn=np.array(drawn, int), labels=final)


def opposite(pool: Pool) -> np.ndarray:
    """Return 200 labels of an earlier audit, each of which says the next class."""
    sizes = pool.strata.sizes
    carried = np.zeros((len(sizes), pool.classes + 1))
    other = (pool.strata.predicted + 1) % pool.classes
    carried[np.arange(len(sizes)), other] = np.maximum(1, 200 * sizes // sizes.sum())
    return carried


def most_evidence(factors: np.ndarray) -> float:
    """Return the most that the bettors together ever had, as a logarithm."""
    paths = np.cumsum(np.log(factors), axis=1)
    if not paths.shape[1]:
        return 0.0
    return float(np.logaddexp.reduce(LOG_PRIOR[:, None] + paths, axis=0).max())


def ever_missed(ledger: Ledger, truths, level: float) -> list[bool]:
    """Say for classes, overall and balanced whether a look after any label misses.

    A bound passes the truth only if the evidence against it is enough, so that it
    is enough to follow the evidence at the truth through every label.
    """
    error = tail_share(level, 1)
    rows = build_rows(ledger)
    # Of this look the boxes count alone, within which the balanced accuracy lies.
    last = look(ledger, level, wanted=())
    missed = []
    for measure, truth in enumerate(truths):
        most = -math.inf
        for sign, side in ((1, "right"), (-1, "left")):
            point = truth * GRID
            if math.isnan(truth) or (truth == 1 and sign > 0) or (truth == 0 > sign):
                continue
            cell = int(np.searchsorted(EDGES, point, side=side)) - 1
            factors = ClassBets(rows, measure, sign).factors(cell, point)
            most = max(most, most_evidence(factors))
        missed.append(most >= -math.log(error / 2))
    return [*missed, balanced_missed(ledger, rows, last, truths[:-1], error)]


def balanced_missed(ledger, rows, last, truths, error):
    if np.isnan(truths).any():
        return False
    truth = np.array(truths)
    boxes = np.array([standing.box for standing in last.standings])
    if not len(boxes):
        return False
    inside = (boxes[..., 0] <= truth * GRID) & (truth * GRID <= boxes[..., 1])
    ends = np.array(
        [balanced_ends(ledger, number, box) for number, box in enumerate(boxes)]
    )
    for sign in (1, -1):
        bets = BalancedBets(rows, boxes[rows.which], ends[rows.which], sign)
        if most_evidence(bets.factors(truth)) >= -math.log(0.45 * error):
            return True
    return not inside.all()


def rates(pool: Pool, plan: Plan, replays: int, level: float = 0.95, change=None):
    """Return how often each interval ever missed over *replays* audits."""
    truths = pool.truths()
    missed = [
        ever_missed((change or keep)(carry_out(pool, plan, seed), seed), truths, level)
        for seed in range(replays)
    ]
    return np.mean(missed, axis=0)


def keep(ledger: Ledger, seed: int) -> Ledger:
    return ledger


def confident(n, prevalence, seed, *, sharpness=3.0, classes=2, tilt=1.0):
    """Return a pool whose confidences are right if *tilt* is 1, too sure above it."""
    rng = np.random.default_rng(seed)
    label = (rng.random(n) < prevalence).astype(int)
    score = rng.normal(0, 1, n) + np.where(label == 1, 1, -1) * sharpness / 2
    odds = logit(prevalence) + sharpness * score
    return Pool(2, (odds > 0).astype(int), expit(np.abs(odds) * tilt), label)


def shuffled(pool: Pool, seed: int) -> Pool:
    rng = np.random.default_rng(seed)
    return replace(pool, confidence=rng.permutation(pool.confidence))


def inverted(pool: Pool) -> Pool:
    return replace(pool, confidence=1.5 - pool.confidence)


def without_confidence(pool: Pool) -> Pool:
    return replace(pool, confidence=np.full(len(pool.labels), np.nan))


def all_misses_most_confident(pool: Pool) -> Pool:
    sure = np.where(pool.predicted == pool.labels, pool.confidence, 0.9999)
    return replace(pool, confidence=sure)


def ten_digits() -> Pool:
    """Return what the newer version of the demo says of all its digits."""
    detector = DETECTORS[1]
    digits, classes = load_digits(), list(detector.classes)
    found = [one.predictions[detector.name, detector.versions[-1]] for one in digits]
    return Pool(
        len(classes),
        np.array([classes.index(one.predicted) for one in found]),
        np.array([one.confidence for one in found]),
        np.array([classes.index(detector.label_of(one.digit)) for one in digits]),
    )


def class_of_eight() -> Pool:
    rng = np.random.default_rng(3)
    labels = np.zeros(1000, int)
    labels[:8] = 1
    predicted = labels.copy()
    predicted[:3] = 0
    predicted[100:110] = 1
    sure = rng.uniform(0.7, 0.99, 1000)
    sure[:3] = 0.9999
    return Pool(2, predicted, sure, labels)


def several_classes(n, seed, *, unclear=0.05) -> Pool:
    rng = np.random.default_rng(seed)
    labels = rng.choice(4, n, p=[0.5, 0.3, 0.18, 0.02])
    wrong = rng.random(n) < [[0.05, 0.1, 0.2, 0.3][c] for c in labels]
    predicted = np.where(wrong, rng.integers(0, 4, n), labels)
    labels = np.where(rng.random(n) < unclear, 4, labels)
    sure = np.where(wrong, rng.uniform(0.3, 0.9, n), rng.uniform(0.6, 0.999, n))
    return Pool(4, predicted, sure, labels)


def tiny(
    strata_sizes, ones, predicted=(0, 1), unclear=(0, 0), sure=(0.6, 0.95)
) -> Pool:
    """Return a pool of two strata with given numbers of labels 1 and unclear."""
    said, labels, confidence = [], [], []
    for size, one, open_, class_, s in zip(
        strata_sizes, ones, unclear, predicted, sure, strict=True
    ):
        said += [class_] * size
        labels += [1] * one + [2] * open_ + [0] * (size - one - open_)
        confidence += [s] * size
    return Pool(2, np.array(said), np.array(confidence), np.array(labels))


def hostile_judges() -> dict[str, tuple[Pool, dict]]:
    """Return sets with a judge that is good, and with those that would mislead."""
    rng = np.random.default_rng(5)
    pool = confident(500, 0.2, 5, sharpness=2.2)
    y, p = pool.labels, pool.predicted
    good, wrong = np.where(rng.random(500) < 0.92, y, 1 - y), p != y
    half = np.where(np.arange(500) < 250, good, 1 - good)
    sure = np.flatnonzero(wrong)[:12]
    perfect, confidence = y.copy(), pool.confidence.copy()
    perfect[sure], confidence[sure] = p[sure], 0.9999
    judges = {
        "good": good,
        "inverted": 1 - good,
        "copies the detector": p,
        "inverted half-way": half,
        "wrong where the detector is": np.where(wrong, p, good),
        "missing where the detector is wrong": np.where(wrong, MISSING, good),
        "two that contradict": np.column_stack([good, 1 - good]),
    }
    pools = {
        name: replace(pool, verdicts=one.reshape(500, -1))
        for name, one in judges.items()
    }
    pools["perfect but for sure mistakes"] = replace(
        pool, confidence=confidence, verdicts=perfect[:, None]
    )
    pools["some unclear"] = replace(
        pools["good"], labels=np.where(rng.random(500) < 0.06, 2, y)
    )
    four = several_classes(600, 5)
    often = np.where(rng.random(600) < 0.85, four.labels, rng.integers(0, 4, 600))
    pools["four classes"] = replace(
        four, verdicts=np.where(often == 4, MISSING, often)[:, None]
    )
    fails = (np.arange(500) >= 350).astype(int)
    passes = np.where((fails == 1) | (rng.random(500) < 0.95), 0, 1)
    pools["passes all failures"] = Pool(
        2, np.zeros(500, int), np.full(500, np.nan), fails, passes[:, None]
    )
    near = (np.arange(600) >= 582).astype(int)
    judged = np.where(rng.random(600) < 0.85, near, 1 - near)
    pools["a pass rate of 97 %"] = Pool(
        2, np.zeros(600, int), np.full(600, np.nan), near, judged[:, None]
    )
    pools["good, after poisoned labels"] = pools["good"]
    aims = {"draws": 300}
    found = {f"judge: {name}": (one, {**aims}) for name, one in pools.items()}
    for name, one in pools.items():
        found[f"judge: {name}, overall"] = one, aims | {"aim": one.classes}
    for name, (_, options) in found.items():
        if "poisoned" in name:
            options["is_poisoned"] = True
    return found
