"""Alarms for an accuracy that has changed, with a bound on false ones.

An alarm compares labels with a reference accuracy.  While every label's chance of
being right, given all before it, is at least the reference (for a fall; at most, for
a rise), any alarm is false.  On the good side chances may wander and depend on
anything.  One of two things is promised, floating point included:

* `mean_run`: on average at least so many labels pass until a false alarm.
* `ever`: the chance that there ever is a false alarm is at most this.

The promise is about labels in the order and with the truth in which they first came;
a correction changes nothing that was multiplied before.

J. Shin, A. Ramdas and A. Rinaldo, E-detectors, New England Journal of Statistics in
Data Science 2 (2024), 229-260; after A. N. Shiryaev and S. W. Roberts.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

from tracker.stats.arguments import checked_fraction

Direction = Literal["fall", "rise"]

DEFAULT_RUN = 10_000.0
"""Labels that pass on average until a false alarm, unless told otherwise."""

# By how much of itself a chance falls under each alternative: little where it is
# near 1, more where it is small.
_FALLS = (0.02, 0.04, 0.08, 0.15, 0.3, 0.5)
_FALLS_OF_SMALL = (0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
_BETS = (0.5, 1.0, 2.0, 4.0, 8.0, 14.0, 19.0)

# Each step rounds a few times by 2**-53 of the value.  Factors that are smaller by
# this much keep what is computed below what is meant, however many labels there are;
# a billion of them lose 4e-6 of the evidence.
_DEFLATED = 1.0 - 2.0**-48

# Evidence is summed over the classes in whole units, exactly and in any order.
_UNITS = 2.0**40


class Alarm(NamedTuple):
    """An alarm: at which label it sounded, and what it points to.

    *label* counts labels from 1.  *since* is the mark of the label with which the
    change is likeliest to have begun.  *scope* is the class that speaks loudest for
    it, None for the balanced accuracy.
    """

    label: int
    since: int
    scope: int | None


class _Promise:
    """How rarely an alarm is false, as the threshold and the weights that ensure it."""

    def __init__(self, mean_run: float | None, ever: float | None) -> None:
        if mean_run is not None and ever is not None:
            raise ValueError("give mean_run or ever, not both")
        self.is_lifetime = ever is not None
        if ever is not None:
            # The quotient may have been rounded down by half a unit.
            self.threshold = math.nextafter(
                1 / checked_fraction("ever", ever), math.inf
            )
            return
        self.threshold = DEFAULT_RUN if mean_run is None else float(mean_run)
        if not 1.0 <= self.threshold < math.inf:
            raise ValueError(f"mean_run must be at least 1, not {mean_run!r}")

    def weight(self, moment: int, labels: int = 1) -> float:
        """Return the weight of a change at the *moment* that so many *labels* make.

        For a mean run it is the number of labels.  For a lifetime all weights add up
        to less than 1: the sum of 1 / (n log(n)**2) from n = 11 on is less than the
        integral from 10 on, which is 1 / log(10).
        """
        if not self.is_lifetime:
            return float(labels)
        later = moment + 10.0
        return math.log(10.0) / (later * math.log(later) ** 2) * _DEFLATED


class ClassWatch:
    """Watch the accuracy of each class, or of all as one, label by label.

    *reference* holds an accuracy for each class; a single one watches the overall
    accuracy.  The promise is for all classes together, counted in labels of any
    class, so further classes cost nothing.  *direction* is what is looked for.  A
    label costs the same however many there were, and *state* continues from what
    `dump` returned, to the last bit.

    Raises ValueError unless accuracies lie between 0 and 1, when both *mean_run*
    and *ever* are given, unless mean_run >= 1 and unless 0 < ever < 1.
    """

    def __init__(
        self,
        reference: Sequence[float],
        *,
        direction: Direction = "fall",
        mean_run: float | None = None,
        ever: float | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin, or continue from *state*."""
        self._promise = _Promise(mean_run, ever)
        self._is_rise = _is_rise(direction)
        self._factors = [_class_factors(p, self._is_rise) for p in reference]
        self._labels = state["labels"] if state else 0
        kept = state["classes"] if state else ()
        self._classes = {index: _Evidence(*parts) for index, *parts in kept}
        self._units = sum(evidence.units for evidence in self._classes.values())

    def add(self, index: int, is_right: bool, mark: int | None = None) -> Alarm | None:
        """Take the next label, of the class at *index*, and return an alarm it causes.

        *mark* names the label for `Alarm.since`; without one it is its number.  After
        an alarm the watch begins again.
        """
        self._labels += 1
        factors = self._factors[index][is_right is not self._is_rise]
        evidence = self._classes.get(index)
        if evidence is None:
            evidence = self._classes[index] = _Evidence()
        before = evidence.units
        evidence.multiply(
            factors,
            self._promise.weight(self._labels),
            self._labels if mark is None else mark,
        )
        self._units += evidence.units - before
        if self._units < self._promise.threshold * _UNITS:
            return None
        loudest = max(self._classes, key=lambda key: self._classes[key].units)
        alarm = Alarm(self._labels, self._classes[loudest].likeliest_start(), loudest)
        self._classes, self._units = {}, 0
        return alarm

    def dump(self) -> dict[str, Any]:
        """Return the state: numbers and lists that JSON keeps to the last bit."""
        return {
            "labels": self._labels,
            "classes": [[key, *one.dump()] for key, one in self._classes.items()],
        }


class BalancedWatch:
    """Watch the balanced accuracy, however the classes make up for each other.

    Labels are gathered in rounds, each with at least *round_of* labels of each class.
    A round counts the mean over the classes of the share right in it, so within a
    round the accuracies must be steady.  *reference* is the balanced accuracy to
    compare with; the rest is as for `ClassWatch`.

    Raises ValueError unless there are two classes and every class has a label in a
    round, and as `ClassWatch` does.
    """

    def __init__(  # noqa: PLR0913 - a watch is told all of it once.
        self,
        reference: float,
        round_of: Sequence[int],
        *,
        direction: Direction = "fall",
        mean_run: float | None = None,
        ever: float | None = None,
        state: Mapping[str, Any] | None = None,
    ) -> None:
        """Begin, or continue from *state*."""
        if len(round_of) < 2 or min(round_of) < 1:
            raise ValueError(
                f"round_of needs two classes with labels, not {round_of!r}"
            )
        self._promise = _Promise(mean_run, ever)
        self._is_rise = _is_rise(direction)
        self._reference = _chance(reference, self._is_rise)
        most = 0.999 / (1.0 - self._reference)
        self._bets = [bet for bet in _BETS if bet < most]
        if most < _BETS[-1]:
            self._bets.append(most)
        self._round_of = list(round_of)
        self._first: list[int]
        self._labels = state["labels"] if state else 0
        self._rounds = state["rounds"] if state else 0
        self._evidence = _Evidence(*(state["evidence"] if state else ()))
        self._begin_round()
        if state:
            self._good, self._seen, self._first = map(list, state["round"])
            self._missing = sum(map(int.__lt__, self._seen, self._round_of))

    def add(self, index: int, is_right: bool, mark: int | None = None) -> Alarm | None:
        """Take the next label, of the class at *index*, and return an alarm it causes.

        *mark* names the label for `Alarm.since`; without one it is its number.  Only
        the last label of a round can cause one; then the watch begins again.
        """
        self._labels += 1
        if not self._first:
            self._first.append(self._labels if mark is None else mark)
        self._seen[index] += 1
        self._good[index] += is_right is not self._is_rise
        self._missing -= self._seen[index] == self._round_of[index]
        if self._missing:
            return None
        self._end_round()
        if self._evidence.units < self._promise.threshold * _UNITS:
            return None
        alarm = Alarm(self._labels, self._evidence.likeliest_start(), None)
        self._evidence = _Evidence()
        return alarm

    def dump(self) -> dict[str, Any]:
        """Return the state: numbers and lists that JSON keeps to the last bit."""
        return {
            "labels": self._labels,
            "rounds": self._rounds,
            "round": [self._good, self._seen, self._first],
            "evidence": self._evidence.dump(),
        }

    def _end_round(self) -> None:
        shares = map(int.__truediv__, self._good, self._seen)
        shortfall = self._reference - math.fsum(shares) / len(self._seen)
        # A factor may be as small as 0.001 while its terms are near 1, so here the
        # margin is one of the terms.
        factors = [
            (1.0 + bet * shortfall - 1e-14 * (1.0 + bet)) * _DEFLATED
            for bet in self._bets
        ]
        self._rounds += 1
        weight = self._promise.weight(self._rounds, sum(self._seen))
        self._evidence.multiply(factors, weight, self._first[0])
        self._begin_round()

    def _begin_round(self) -> None:
        self._good = [0] * len(self._round_of)
        self._seen = [0] * len(self._round_of)
        self._missing = len(self._round_of)
        self._first = []


class _Evidence:
    """Evidence for each of several alternatives, and since when each has been winning.

    Of one alternative, the sum over all starts of the product of factors since then
    times the weight of the start; the largest such product without its weight; and
    the mark of the label with which that one began.
    """

    __slots__ = ("peaks", "since", "sums", "units")

    def __init__(
        self,
        sums: Sequence[float] = (),
        peaks: Sequence[float] = (),
        since: Sequence[int] = (),
    ) -> None:
        self.sums, self.peaks, self.since = list(sums), list(peaks), list(since)
        self.units = _units(self.sums)

    def multiply(self, factors: Sequence[float], weight: float, mark: int) -> None:
        if not self.sums:
            self.sums, self.peaks = [0.0] * len(factors), [1.0] * len(factors)
            self.since = [mark] * len(factors)
        for i, factor in enumerate(factors):
            self.sums[i] = (self.sums[i] + weight) * factor
            if self.peaks[i] <= 1.0:
                self.peaks[i], self.since[i] = factor, mark
            else:
                self.peaks[i] *= factor
        self.units = _units(self.sums)

    def likeliest_start(self) -> int:
        best = max(range(len(self.peaks)), key=self.peaks.__getitem__)
        return self.since[best]

    def dump(self) -> tuple[list[float], list[float], list[int]]:
        return list(self.sums), list(self.peaks), list(self.since)


def _units(sums: Sequence[float]) -> int:
    return int(math.fsum(sums) / len(sums) * _UNITS) if sums else 0


def _class_factors(
    reference: float, is_rise: bool
) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return what a bad and what a good label multiply each alternative by."""
    p = _chance(reference, is_rise)
    others = [p * (1.0 - fall) for fall in (_FALLS if p >= 0.5 else _FALLS_OF_SMALL)]
    return (
        tuple((1.0 - q) / (1.0 - p) * _DEFLATED for q in others),
        tuple(q / p * _DEFLATED for q in others),
    )


def _chance(reference: float, is_rise: bool) -> float:
    """Return the chance that falls: of being right, or of being wrong for a rise."""
    accuracy = checked_fraction("reference", reference)
    # Were the difference rounded up, labels exactly at the reference would be below.
    return math.nextafter(1.0 - accuracy, 0.0) if is_rise else accuracy


def _is_rise(direction: str) -> bool:
    if direction not in ("fall", "rise"):
        raise ValueError(f"direction must be fall or rise, not {direction!r}")
    return direction == "rise"
