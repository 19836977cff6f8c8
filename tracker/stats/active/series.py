"""What audits of one span after another say together."""

import math
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ..exact import Interval
from .betting import EDGES, GRID, ClassBets, log_mean
from .ledger import OPEN, Ledger, build_rows
from .looks import look_at_aim
from .rounds import UNIT, label_chances
from .strata import Ints, Strata

# What a draw is expected to vary by: any number that is fixed beforehand holds.
_VARIANCE = 0.1
# A guess stays so near to what was known, so that no draw reaches further than 2.4.
_NEAR, _LARGEST_BET = 0.4, 0.375
# Of the error, what the number of queries has where some came late.
_SIZE_PART = 0.1


def log_evidence_below(ledger: Ledger, measure: int, target: float) -> float:
    """Return the log of an e-value against a class or overall being at *target*.

    That is the wealth of those who bet that it lies below.  If a draw is open, the
    e-value takes its answer as the one that speaks least: people may leave open what
    is wrong, so that to stop in front of it would not be fair.
    """
    point = math.floor(target * GRID)
    cell = min(int(np.searchsorted(EDGES, point, "right")), len(EDGES) - 1) - 1
    stop = ledger.settled

    def wealth(answer: int) -> float:
        labels = ledger.labels.copy()
        labels[stop : stop + 1] = answer
        rows = build_rows(replace(ledger, labels=labels)).first(stop + 1)
        return log_mean(ClassBets(rows, measure, -1).log_wealth(cell, point))

    is_open = stop < len(ledger.labels)
    return min(map(wealth, range(ledger.strata.classes + 1) if is_open else [0]))


def list_on_average(
    evidence: Sequence[float], spans: int, confidence_level: float
) -> list[int]:
    """Return the places of log e-values of which few are false on average.

    They are the S largest, where each is at least spans / (error S).  The part that is
    listed wrongly is on average at most the error, however they depend on each other.

    R. Wang and A. Ramdas, J. R. Statist. Soc. B 84 (2022), 822-852 (e-BH).
    """
    order = np.argsort(-np.asarray(evidence), kind="stable")
    for size in range(len(order), 0, -1):
        least = math.log(spans / (1.0 - confidence_level) / size)
        if evidence[order[size - 1]] >= least:
            return sorted(order[:size].tolist())
    return []


def change_since(
    before: Sequence[Ledger], now: Ledger, draws: int, confidence_level: float
) -> tuple[float, Interval] | None:
    """Bound the share of right queries *now* less its mean over the spans *before*.

    Each share is of all queries of its set, and UNCLEAR is not right.  The number of
    *draws* was fixed before the first of these spans; None where one has fewer that
    are settled.  Also returns the difference that is most likely.

    X. Fan, I. Grama and Q. Liu, Electron. J. Probab. 20 (2015), 1-22.
    """
    shares = [*[-1.0 / len(before)] * len(before), 1.0]
    ledgers = [*before, now]
    if any(one.settled < draws for one in ledgers):
        return None
    needed = math.log(2.0 / (1.0 - confidence_level)) + 1e-9
    varies = _VARIANCE * sum(share**2 for share in shares) / draws
    unit = min(math.sqrt(2.0 * needed / varies), _LARGEST_BET * draws)
    middle, losses = 0.0, np.zeros(2)
    for share, ledger in zip(shares, ledgers, strict=True):
        rows = build_rows(ledger).first(draws)
        size = float(ledger.strata.sizes.sum())
        seen, known = rows.right[:, -1] / size, rows.right_off[:, -1] / size
        earlier = np.cumsum(seen) - seen
        guess = (earlier + 5.0 * known) / (np.arange(draws) + 5.0)
        guess = np.clip(guess, known - _NEAR, known + _NEAR)
        middle += share * float(seen.mean())
        for side, sign in enumerate((1.0, -1.0)):
            # A high share of this span speaks for one bound, a low one for the other.
            end = 0 if sign * share > 0 else 1
            reach = rows.reach / size * rows.ends[end, :, -1, 0][rows.which]
            most = reach + np.abs(guess - known)
            bet = unit * abs(share) / draws * most
            if (bet >= 1.0).any():
                return None
            surprise = (seen - guess) / most
            losses[side] += float((-np.log1p(-bet) - bet) @ surprise**2)
    low, high = (losses + needed) / unit * (-1.0, 1.0) + middle
    return middle, Interval(low, high)


def bound_for_late(
    ledger: Ledger, aim: int | None, confidence_level: float
) -> tuple[float, float, int]:
    """Bound an accuracy and the number of its queries, both at once.

    The queries of the balanced accuracy are those of the smallest class.
    With L queries more, of any label, it lies from low n / (n + L) to
    1 - (1 - high) n / (n + L), where n are the *queries*: for all L, whatever they
    depend on, with a chance of at least *confidence_level*.
    """
    error, classes = 1.0 - confidence_level, ledger.strata.classes
    found = look_at_aim(ledger, 1.0 - (1.0 - _SIZE_PART) * error, aim)
    measures = range(classes) if aim is None else [aim]
    part = _SIZE_PART * error / len(measures)
    labels, in_all, least = np.arange(classes + 1), int(ledger.strata.sizes.sum()), []
    for one in measures:
        is_counted: Ints = np.less(labels, one) if one == classes else labels == one
        share = look_at_aim(_as_share(ledger, is_counted), 1.0 - 2.0 * part, 2)
        least.append(math.ceil(share.aimed(2)[0] * in_all))
    return *found.aimed(aim), min(least)


def _as_share(ledger: Ledger, is_counted: Ints) -> Ledger:
    """Return a ledger whose overall accuracy is the share of certain labels.

    Each query is predicted to have one of them; label 0 is that it has, 1 that not.
    """
    strata = ledger.strata

    def fold(known: Ints) -> Ints:
        none = np.zeros(len(known), dtype=np.int64)
        return np.column_stack([known @ is_counted, known @ ~is_counted, none])

    rounds = []
    # A round for the share follows from what was written down alone.
    for number, frozen in enumerate(ledger.rounds):
        chances = label_chances(strata, frozen.wrong, frozen.rows) @ is_counted[:-1]
        left = ledger.left_before(frozen.start, number)
        # Nobody is so sure after so few labels.
        rare = 1.0 / (frozen.start + int(ledger.known[number].sum()) + 10)
        q = np.clip(chances / UNIT, rare, 1.0 - rare)
        inverse = float(left @ frozen.weights) * (left / frozen.weights)
        spread = max(1e-9, inverse @ (q * (1.0 - q)) / int(strata.sizes.sum()))
        rounds.append(
            replace(
                frozen,
                wrong=UNIT - chances,
                directions=np.zeros(2),
                rows=np.tile([0, UNIT], (len(strata.sizes), 1)),
                spreads=np.full(4, spread),
            )
        )
    labels = np.where(ledger.labels == OPEN, OPEN, ~is_counted[ledger.labels])
    known = tuple(map(fold, ledger.known))
    folded = Strata(2, np.zeros_like(strata.sizes), *strata[2:])
    return Ledger(folded, tuple(rounds), known, ledger.drawn, labels)
