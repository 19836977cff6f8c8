"""Drift alarms found once more, in the plainest way, from labels in their order.

For every start there could be, all factors since then are multiplied, where the product
keeps running sums.  The references of classes come from SciPy's beta distribution; that
of the balanced accuracy alone is taken from `tracker.stats`, where its own tests are.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import beta

from tests.web.census import Count
from tracker.stats import joint_lower_bound

CLASSES = ("YES", "NO")
# A change is looked for from this reference, against these falls and with these bets.
REFERENCE, MEAN_RUN = 100, 20_000
FALLS = np.array([0.02, 0.04, 0.08, 0.15, 0.3, 0.5])
BETS = [0.5, 1, 2, 4, 8, 14, 19]


@dataclass(frozen=True)
class Told:
    """A label as its row says: the class, what was predicted, and when it was kept."""

    label: str
    predicted: str
    at: str

    @property
    def is_right(self) -> bool:
        return self.label == self.predicted


@dataclass(frozen=True)
class Alarm:
    scope: str
    reference: float
    label: int
    since: int


class Starts:
    """For every start so far, the product of all factors since then."""

    def __init__(self) -> None:
        self.marks: list[int] = []
        self.weights: list[int] = []
        self.products = np.empty((0, 0))

    def multiply(self, factors: Sequence[float], mark: int, weight: int = 1) -> None:
        self.marks.append(mark)
        self.weights.append(weight)
        before = self.products.reshape(-1, len(factors))
        self.products = np.vstack([before, np.ones(len(factors))]) * factors

    @property
    def evidence(self) -> float:
        """The sum over the starts, on average over the alternatives."""
        if not self.marks:
            return 0.0
        return float((np.array(self.weights) @ self.products).mean())

    @property
    def likeliest(self) -> int:
        start, _ = np.unravel_index(self.products.argmax(), self.products.shape)
        return self.marks[int(start)]


def first_alarm(labels: Sequence[Told], begun: int) -> Alarm | None:
    """Return the first alarm of the labels after so many."""
    seen = {name: Count(0, 0) for name in CLASSES}
    firsts: dict[str, Count] = {}
    references: dict[str, float] = {}
    classes = {name: Starts() for name in CLASSES}
    together, of_all, round_of = Starts(), 0.0, dict.fromkeys(CLASSES, 0)
    in_round: list[tuple[int, Told]] = []
    for number, one in enumerate(labels[begun:], start=begun + 1):
        found = seen[one.label]
        found = seen[one.label] = Count(
            found.correct + one.is_right, found.labelled + 1
        )
        if one.label not in references:
            if found.labelled == REFERENCE:
                # Half of the error is for the classes, which share it.
                k, n = found.correct, found.labelled
                references[one.label] = float(beta.ppf(0.025 / 2, k, n - k + 1))
                firsts[one.label] = found
            if len(references) == len(CLASSES) and not of_all:
                counts = [firsts[name] for name in CLASSES]
                of_all = float(
                    joint_lower_bound(
                        [one.correct for one in counts],
                        [one.labelled for one in counts],
                        0.025,
                    )
                )
                rarest = min(one.labelled for one in seen.values())
                round_of = {n: round(c.labelled / rarest) for n, c in seen.items()}
            continue
        p = references[one.label]
        q = p * (1 - FALLS)
        classes[one.label].multiply(
            q / p if one.is_right else (1 - q) / (1 - p), number
        )
        loudest = max(CLASSES, key=lambda name: classes[name].evidence)
        alarm = None
        if sum(starts.evidence for starts in classes.values()) >= MEAN_RUN:
            since = classes[loudest].likeliest
            alarm = Alarm(loudest, references[loudest], number, since)
        if of_all:
            in_round.append((number, one))
            parts = [[x for _, x in in_round if x.label == name] for name in CLASSES]
            if all(len(p) >= round_of[n] for p, n in zip(parts, CLASSES, strict=True)):
                share = sum(sum(x.is_right for x in p) / len(p) for p in parts) / 2
                most = 0.999 / (1 - of_all)
                bets = [bet for bet in BETS if bet < most]
                bets += [most] if len(bets) < len(BETS) else []
                factors = [1 + bet * (of_all - share) for bet in bets]
                together.multiply(factors, in_round[0][0], len(in_round))
                in_round = []
                if together.evidence >= MEAN_RUN:
                    alarm = Alarm("balanced", of_all, number, together.likeliest)
        if alarm:
            return alarm
    return None


def find_alarms(labels: Sequence[Told]) -> list[Alarm]:
    """After each alarm the labels that follow are looked at by themselves."""
    found: list[Alarm] = []
    while alarm := first_alarm(labels, found[-1].label if found else 0):
        found.append(alarm)
    return found
