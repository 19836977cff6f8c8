"""How two versions differ on the same queries, to be looked at after every pair."""

import math
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arguments import (
    Floats,
    checked_count_pair,
    checked_counts,
    tail_share,
    total_of,
)
from .intervals import anytime, build_mixture, checked_shares
from .programme import Bets, least_mean

# A bet of 1 would lose all by one pair.
_USUAL_TILT, _LARGEST_BET = 0.4, 0.9


class PairedDecision(NamedTuple):
    """What pairs say of a new version: a verdict, and the bounds behind it."""

    verdict: Literal["better", "worse", "undecided"]
    low: float
    high: float

    @classmethod
    def by(cls, low: float, high: float, even: float) -> "PairedDecision":
        """Return the verdict of bounds: better above *even*, worse below it."""
        if low > even:
            return cls("better", low, high)
        return cls("worse" if high < even else "undecided", low, high)


def decide(won: int, lost: int, confidence_level: float) -> PairedDecision:
    """Return whether the new version is better, to be looked at after every label.

    Of the inputs on which the versions disagree, in random order, the new one alone
    was right about *won* and the old one alone about *lost*.  The bounds are for the
    share of disagreements that the new version wins.  While it is no more accurate, in
    the overall accuracy, it wins each with a chance of at most one half, given all
    before: so whatever is looked at, and whenever labelling stops, *better* is ever
    said wrongly with a probability of at most (1 - confidence_level) / 2, and so is
    *worse*.

    Raises ValueError unless won and lost are from 0 to 10**9 in all and
    0 < confidence_level < 1.

    J. Ville, Etude critique de la notion de collectif (1939).
    """
    won, decided = checked_count_pair(won, won + lost)
    low, high = anytime(won, decided, confidence_level)
    return PairedDecision.by(float(low), float(high), 0.5)


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
    low = _Pairs.of(gained, lost, pairs, shares).low(needed)
    high = -_Pairs.of(lost, gained, pairs, shares).low(needed)
    return PairedDecision.by(low, high, 0.0)


class _Pairs(NamedTuple):
    """Counts of one row, (1, K), with the classes in an order that counts decide."""

    gained: Floats
    lost: Floats
    pairs: Floats
    shares: Floats | None

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
        known = checked_shares(1.0 if shares is None else shares, of.shape)
        order = np.lexsort((known, fewer, more, of))
        more, fewer, of, known = (
            array[order][None, :] for array in (more, fewer, of, known)
        )
        return cls(more, fewer, of, None if shares is None else known)

    def bets(self) -> Bets:
        bets, log_nodes, log_weights = build_mixture(
            self.shares,
            self.pairs.size,
            usual_tilt=_USUAL_TILT,
            largest_tilt=_LARGEST_BET,
        )
        won = np.log1p(bets) * self.gained.T
        scores = won + np.log1p(-bets) * self.lost.T
        return Bets(
            scores=log_nodes + scores,
            growth=bets,
            labelled=self.pairs,
            log_weights=log_weights,
            floor=-1.0,
        )

    def low(self, needed: float) -> float:
        """Return the lower bound of the difference by so much log evidence."""
        size = self.pairs + 1.0
        middle = (self.gained - self.lost) / size
        spread = (self.gained + self.lost + 1.0) / (size + 1.0) / size
        cost = 1.0 / self.pairs.size
        weighted = cost * spread
        size = np.sqrt(total_of(cost * weighted))[:, None]
        start = middle - math.sqrt(2.0 * (needed + 1.5)) * weighted / size
        found = least_mean(self.bets(), needed, np.clip(start, -0.999, 1.0))
        return max(float(found[0]), -1.0)
