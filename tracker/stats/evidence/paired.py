"""How two versions differ on the same queries, to be looked at after every pair."""

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arguments import Floats, checked_counts, tail_share, total_of
from .intervals import build_mixture, checked_shares
from .programme import Bets, least_mean

PairedWord = Literal["better", "worse", "undecided"]

# A bet of 1 would lose all by one pair.
_USUAL_TILT, _LARGEST_BET = 0.4, 0.9


class PairedDecision(NamedTuple):
    """What pairs say of a new version: bounds of the difference, and a verdict."""

    verdict: PairedWord
    low: float
    high: float


def paired_anytime(
    gained: npt.ArrayLike,
    lost: npt.ArrayLike,
    pairs: npt.ArrayLike,
    confidence_level: float,
    *,
    shares: npt.ArrayLike | None = None,
) -> PairedDecision:
    """Return whether a new version is better in the balanced accuracy, at any look.

    Of *pairs* queries of each class, labelled at random whatever both versions said,
    only the new version was right on *gained* and only the old one on *lost*; each is
    a list over the classes.  With one class the difference is that of the overall
    accuracy.  The new version is *better* when its interval lies above 0 and *worse*
    when it lies below.  Over all looks together each of these is ever said wrongly
    with a probability of at most (1 - confidence_level) / 2, whatever the rates of
    gaining and losing, whichever class is labelled next and whenever labelling stops.

    *shares* are those of `balanced_anytime`.

    Raises ValueError unless 0 <= gained and lost, gained + lost <= pairs <= 10**9,
    there is a class, shares are positive and finite, and 0 < confidence_level < 1.
    """
    needed = -math.log(tail_share(confidence_level, 2)) * (1.0 + 2.0**-50)
    low = _low(_Pairs.of(gained, lost, pairs, shares), needed)
    high = -_low(_Pairs.of(lost, gained, pairs, shares), needed)
    verdict: PairedWord = "undecided"
    if low > 0 or high < 0:
        verdict = "better" if low > 0 else "worse"
    return PairedDecision(verdict, low, high)


class _Pairs(NamedTuple):
    """Counts of one row, (1, K), with the classes in an order that counts decide."""

    gained: Floats
    lost: Floats
    pairs: Floats
    shares: Floats | None
    costs: Floats

    @classmethod
    def of(
        cls,
        gained: npt.ArrayLike,
        lost: npt.ArrayLike,
        pairs: npt.ArrayLike,
        shares: npt.ArrayLike | None,
    ) -> "_Pairs":
        more, of = checked_counts(gained, pairs)
        fewer, _ = checked_counts(lost, pairs)
        shapes = {np.shape(array) for array in (gained, lost, pairs)}
        if len(shapes) > 1 or of.ndim != 1 or not of.size:
            raise ValueError("gained, lost and pairs must be one list each, as long")
        if (more + fewer > of).any():
            raise ValueError(
                f"gained + lost must not exceed pairs, but are {gained!r:.80}, "
                f"{lost!r:.80} of {pairs!r:.80}"
            )
        known = checked_shares("shares", 1.0 if shares is None else shares, of.shape)
        order = np.lexsort((known, fewer, more, of))
        more, fewer, of, known = (
            array[order][None, :] for array in (more, fewer, of, known)
        )
        costs = np.full(of.shape, 1.0 / of.size)
        return cls(more, fewer, of, None if shares is None else known, costs)

    def guess(self) -> tuple[Floats, Floats]:
        """Return about the difference of each class, and its variance."""
        size = self.pairs + 1.0
        spread = (self.gained + self.lost + 1.0) / (size + 1.0) / size
        return (self.gained - self.lost) / size, spread

    def bets(self) -> Bets:
        bets, log_nodes, log_weights = build_mixture(
            self.shares,
            self.costs,
            usual_tilt=_USUAL_TILT,
            largest_tilt=_LARGEST_BET,
        )
        won = np.log1p(bets) * self.gained[:, None, :, None]
        scores = won + np.log1p(-bets) * self.lost[:, None, :, None]
        return Bets(
            scores=log_nodes + scores,
            growth=bets,
            labelled=self.pairs,
            log_weights=log_weights[None, :],
            costs=self.costs,
            floor=-1.0,
        )


def _low(counts: _Pairs, needed: float) -> float:
    middle, spread = counts.guess()
    weighted = counts.costs * spread
    size = np.sqrt(total_of(counts.costs * weighted))[:, None]
    start = middle - math.sqrt(2.0 * (needed + 1.5)) * weighted / size
    found = least_mean(counts.bets(), needed, np.clip(start, -0.999, 1.0))
    return max(float(found[0]), -1.0)
