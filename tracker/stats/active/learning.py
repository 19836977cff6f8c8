"""Learn from the labels so far where the next ones tell most."""

import numpy as np
from scipy.special import expit

from ..arguments import Floats
from .ledger import Goal, Ledger
from .rounds import UNIT, Round, expected_counts, label_chances
from .strata import BINS_PER_LOGIT, MISSING, NO_CONFIDENCE, Ints, Strata

_WEIGHT_UNIT = 2**16
_UNIFORM_PART = 0.5
_FIRST_ROUND, _LONGEST_ROUND = 24, 400

_SLOPE_SPREAD = 0.35
_CLASS_SPREAD = 0.7
_SHARE_LABELS = 1.5
_UNCLEAR_LABELS = 0.1
# What a judge that differs adds to the log odds of being wrong, give or take, and one
# that is missing; and how many labels the class is worth that it says instead.
_JUDGE_SLOPE, _JUDGE_SPREAD, _MISSING_SPREAD = 2.0, 1.5, 0.5
_JUDGE_LABELS = 2.0
# Beyond so many judges their mean counts as one.
_MOST_JUDGES = 3
# So many labels of its own are worth as much to a stratum as what others tell of it.
_OWN_LABELS = 10.0
# The fewer labels, the larger the surprises that bets allow for.
_CAUTION = 30.0
_MOST_CARRIED = 400.0


# The prior of the log odds of being wrong: a factor of what the confidence says, and
# the value without a confidence.
CAUTIOUS, AS_SAID = (0.8, 0.0), (1.0, -2.2)


def round_length(draws: int) -> int:
    """Return how many draws the round that begins after *draws* has."""
    return min(_LONGEST_ROUND, max(_FIRST_ROUND, draws // 5))


def next_round(
    ledger: Ledger,
    known: Ints,
    goal: Goal,
    *,
    is_even: bool = False,
    carried: Floats | None = None,
) -> Round:
    """Return the next round: its weights, its model and its bets.

    *ledger* may have open draws; *known* (strata, classes + 1) counts the labels
    that are there without a draw.  Half of the chances are uniform, so that what
    confidences hide is found; half go by how much a label is expected to move the
    aim.  If *is_even* all are uniform, which is random labelling with the same bets.
    What other audits taught is *carried*, counts like *known*: the model learns from
    them, and they are no evidence.

    J. Neyman, Journal of the Royal Statistical Society 97 (1934), 558-625.
    """
    strata = ledger.strata
    counts = ledger.count_labels(known)
    drawn = np.bincount(ledger.drawn, minlength=len(strata.sizes))
    left: Ints = strata.sizes - drawn - known.sum(axis=1)
    seen = counts if carried is None else counts + carried
    labels = float(seen.sum())
    wrong, rows = fitted(strata, seen, CAUTIOUS)
    # Nobody is so sure after so few labels.
    wrong = np.clip(wrong, 0.1 / (labels + 10.0), 1.0 - 0.1 / (labels + 10.0))
    wrong_units = np.maximum(np.rint(wrong * UNIT), 1).astype(np.int64)
    row_units = np.floor(rows * UNIT).astype(np.int64)
    chances = label_chances(strata, wrong_units, row_units)
    belief = _Expected(strata, chances, left, counts)
    directions = 1.0 / (strata.classes * belief.sizes)
    # A class that nobody predicts and nobody has found cannot be bet on.
    of_class = counts[:, :-1].sum(axis=0)
    is_said = np.isin(np.arange(strata.classes), strata.predicted)
    directions[(of_class == 0) & ~is_said] = 0.0
    spread = np.sqrt(belief.variance_of(goal.aim, directions))
    mean = float(left @ spread) / max(1, int(left.sum()))
    relative = spread / mean if mean > 0 else np.ones_like(spread)
    even = 1.0 if is_even else _UNIFORM_PART
    weights = even + (1.0 - even) * relative
    whole = np.maximum(np.rint(_WEIGHT_UNIT * weights), 1).astype(np.int64)
    return Round(
        start=len(ledger.drawn),
        weights=whole,
        wrong=wrong_units,
        rows=row_units,
        directions=directions,
        spreads=belief.spreads(directions, whole) * (1.0 + _CAUTION / (labels + 10.0)),
        wanted=goal.wanted(belief.accuracy_of(goal.aim)),
    )


def carry_over(ledger: Ledger, carried: Floats | None, strata: Strata) -> Floats:
    """Return what an audit and those before it teach of the strata of the next one.

    Labels count half as much with each audit, and at most as many as 400 do.  They
    are those of the same prediction, confidence and verdicts.
    """
    labels = ledger.count_labels(ledger.known[-1])
    before = (labels if carried is None else labels + carried) / 2.0
    before *= min(1.0, _MOST_CARRIED / max(1.0, float(before.sum())))
    mine, theirs = (
        np.column_stack([one.predicted, one.bins, one.verdicts])
        for one in (strata, ledger.strata)
    )
    places = {tuple(key): place for place, key in enumerate(mine.tolist())}
    found = np.zeros((len(strata.sizes), strata.classes + 1))
    for row, key in zip(before, map(tuple, theirs.tolist()), strict=True):
        if key in places:
            found[places[key]] += row
    return found


class _Expected:
    """What the model of one round expects of the set, counts of labels included."""

    def __init__(self, strata: Strata, chances: Ints, left: Ints, counts: Ints) -> None:
        self.q = chances / UNIT
        self.left = left
        self.said = strata.predicted[:, None] == np.arange(strata.classes)
        right, of = (left @ x[:, :-1] / UNIT for x in expected_counts(strata, chances))
        right = right + (counts[:, :-1] * self.said).sum(axis=0)
        of = of + counts[:, :-1].sum(axis=0)
        self.sizes: Floats = np.maximum(of, 1.0)
        self.accuracies: Floats = np.clip(right / self.sizes, 0.0, 1.0)
        # What the variance of a measure is divided by to be one of counts.
        self.scales = np.append(self.sizes, [max(1.0, float(self.sizes.sum())), 1.0])

    def accuracy_of(self, aim: int | None) -> float:
        if aim is None:
            return float(self.accuracies.mean())
        overall = self.sizes @ self.accuracies / self.sizes.sum()
        return float(np.append(self.accuracies, overall)[aim])

    def variance_of(self, aim: int | None, directions: Floats) -> Floats:
        """Return the variance that one label of each stratum has in the aim."""
        classes = len(self.accuracies)
        if aim is not None and aim < classes:
            directions = np.eye(classes)[aim]
        if aim == classes:
            values = self.said - self.accuracy_of(classes)
        else:
            values = directions * (self.said - self.accuracies)
        mean = (self.q * values).sum(axis=1)
        variance = (self.q * values**2).sum(axis=1) - mean**2
        return np.asarray(np.maximum(variance, 0.0))

    def spreads(self, directions: Floats, weights: Ints) -> Floats:
        """Return the variance of one draw for each measure, over its scale."""
        by_class = self.q * (1.0 - self.q) * (self.said - self.accuracies) ** 2
        aims = len(self.accuracies), None
        others = [self.variance_of(aim, directions) for aim in aims]
        per_query = np.column_stack([by_class, *others])
        shares = (self.left / weights)[:, None] * per_query
        variance = float(self.left @ weights) * shares.sum(axis=0)
        # Where the model expects no variance at all, bets are still finite.
        least = 1e-9 * np.append(np.ones(len(self.sizes) + 1), 1e-9)
        return np.asarray(np.maximum(variance / self.scales, least))


def fitted(
    strata: Strata, counts: Ints | Floats, before: tuple[float, float]
) -> tuple[Floats, Floats]:
    """Return how likely each stratum is wrong, and as which class (rows sum to < 1).

    *counts* (strata, classes + 1) are the labels so far, and *before* is believed
    without any.
    """
    said, classes, own = strata.predicted, strata.classes, strata.own
    total = counts.sum(axis=1).astype(np.float64)
    missed = total.copy()
    missed[own[0]] -= counts[own]
    wrong = expit(_logistic(strata, missed, total, before))
    wrong = (missed + _OWN_LABELS * wrong) / (total + _OWN_LABELS)
    wrong[said == classes] = 1.0
    # A class that nobody predicts is as likely to be missed as others.
    shares = np.bincount(said, weights=strata.sizes, minlength=classes)
    shares = shares[:classes] / shares.sum()
    shares = _SHARE_LABELS * (shares + 1.0 / classes) / 2.0
    seen = np.zeros((classes + 1, classes + 1))
    np.add.at(seen, said, counts)
    mass = (seen + np.append(shares, _UNCLEAR_LABELS))[said]
    mass[own] = 0.0
    mass /= mass.sum(axis=1, keepdims=True)
    for verdict in strata.verdicts.T:
        says = np.flatnonzero((verdict >= 0) & (verdict != said))
        mass[says, verdict[says]] += _JUDGE_LABELS
    mass *= _OWN_LABELS / mass.sum(axis=1, keepdims=True)
    mass += counts
    mass[own] = 0.0
    return np.asarray(wrong), mass[:, :-1] / mass.sum(axis=1, keepdims=True)


def _votes(strata: Strata) -> tuple[Floats, Floats]:
    """Return how far each judge differs, from -1 to 1, and how far it is missing."""
    missing = (strata.verdicts == MISSING).astype(np.float64)
    agrees = strata.verdicts == strata.predicted[:, None]
    differs = np.where(missing, 0.0, np.where(agrees, -1.0, 1.0))
    if missing.shape[1] > _MOST_JUDGES:
        return differs.mean(axis=1)[None], missing.mean(axis=1)[None]
    return differs.T, missing.T


def _logistic(
    strata: Strata, wrong: Floats, total: Floats, before: tuple[float, float]
) -> Floats:
    """Return log odds of being wrong by ridge regression on confidence and verdicts.

    Newton's steps are halved until the loss falls: undamped ones overshoot far from
    the middle, and the model becomes absurdly sure.
    """
    none = strata.bins == NO_CONFIDENCE
    # The log odds in the middle of each bin, 0 without a confidence.
    z = np.where(none, 0, strata.bins) / BINS_PER_LOGIT
    of_class = strata.predicted[:, None] == np.arange(strata.classes)
    scale, unsure = before
    terms = [(np.ones_like(z), 0.0, 1.0), (z, scale, _SLOPE_SPREAD)]
    terms += [(none, unsure, 1.0)]
    terms += [(one, 0.0, _CLASS_SPREAD) for one in of_class.T]
    for differs, is_missing in zip(*_votes(strata), strict=True):
        terms += [(differs, _JUDGE_SLOPE, _JUDGE_SPREAD)]
        terms += [(is_missing, 0.0, _MISSING_SPREAD)]
        terms += [(differs * one, 0.0, _CLASS_SPREAD) for one in of_class.T]
    design = np.column_stack([column for column, _, _ in terms])
    centre = np.array([middle for _, middle, _ in terms])
    precision = np.array([spread for _, _, spread in terms]) ** -2.0

    def loss(b: Floats) -> float:
        x = design @ b
        fit = total @ np.logaddexp(0.0, x) - wrong @ x
        return float(fit + precision @ (b - centre) ** 2 / 2.0)

    b, now = centre, loss(centre)
    for _ in range(30):
        p = expit(design @ b)
        slope = design.T @ (total * p - wrong) + precision * (b - centre)
        curve = (design * (total * p * (1.0 - p))[:, None]).T @ design
        step = np.linalg.solve(curve + np.diag(precision), slope)
        size = 1.0
        while size > 1e-6 and loss(b - size * step) > now:
            size /= 2.0
        b, was = b - size * step, now
        now = loss(b)
        if was - now < 1e-9 * (1.0 + abs(now)):
            break
    return np.asarray(design @ b)
