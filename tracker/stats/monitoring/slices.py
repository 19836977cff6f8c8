"""Whether a slice of the queries is worse or better than the rest, at every look.

A *block* is what was labelled of a slice since its last block, m labels, with the
r labels of the rest since then; it ends as soon as there are four of each.  With p
the accuracy of the slice and q that of the rest under some alternative, and
c = (m p + r q) / (m + r), the block multiplies the evidence by p / c for each right
label of the slice, by q / c for each right one of the rest, and by the same with
chances of being wrong for wrong ones.  If slice and rest have one true accuracy t,
the mean of that is (1 + a)**m (1 + b)**r with m a + r b = 0, where
a = (t - c)(p - c) / (c (1 - c)) and so has b; so it is at most 1.  For p < q a
better slice or a poorer rest only lowers it.  So while the slice is not worse, the
evidence that it is ever reaches 1/error with a probability of at most error (Ville),
and what all slices do together is no evidence at all.  When a block ends must not
depend on what is right in it; accuracies may change from block to block.

R. J. Turner, A. Ly and P. D. Grünwald, Statistics and Probability Letters 198 (2023);
S. Holm, Scandinavian Journal of Statistics 6 (1979), 65-70; R. Wang and A. Ramdas,
Journal of the Royal Statistical Society B 84 (2022), 822-852.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from ..arguments import Floats, shared_level, tail_share
from ..evidence.intervals import anytime
from ..exact import Interval

SliceState = Literal["better", "worse", "no_difference_shown", "too_few_labels"]
"""What is shown of a slice."""

TOO_WIDE = 0.2
"""Width of a slice's interval from which on its labels are too few to say anything."""

_RESTS = np.array([0.6, 0.8, 0.9, 0.95, 0.98, 0.995])
_ODDS_RATIOS = np.array([1.4, 2.0, 4.0, 8.0])

# Labels of each side that a block has at least.  With one, a block that happens to
# have few of the rest would waste its label: a sixth of all evidence where the slice
# is a tenth of the queries, and a 25th with four.
_BLOCK = 4

# The accuracy of the rest and that of the slice under each alternative: worse, better.
_REST = np.repeat(_RESTS, _ODDS_RATIOS.size)
_RATIOS = np.tile(_ODDS_RATIOS, _RESTS.size)
_ODDS = _REST / (1.0 - _REST) * np.stack([1.0 / _RATIOS, _RATIOS])
_HERE = _ODDS / (1.0 + _ODDS)

# Many blocks are multiplied in at once, which takes a tenth of the time.
_AT_ONCE = 256

# Sums and logarithms of a block are off by a few 2**-53 of their terms and for each
# label; evidence is lowered by more than that.
_FEW_UNITS = 2.0**-48


class SliceEvidence(NamedTuple):
    """The counts of a slice, and how much says that it is worse, or better.

    The latter are logarithms of evidence, now and at their largest so far.
    """

    correct: int
    labelled: int
    worse: float
    better: float
    worse_peak: float
    better_peak: float


class SliceJudgement(NamedTuple):
    """What is said of a slice, and its accuracy's interval.

    *likely* names what the evidence of this moment suggests where *state* does not
    say it yet.
    """

    state: SliceState
    likely: Literal["better", "worse"] | None
    low: float
    high: float


class SliceWatch:
    """Compare each of the slices that a key makes with all others, label by label.

    A label changes the evidence of its own slice alone, however many slices there
    are.  *state* continues from what `dump` returned, to the last bit.
    """

    def __init__(self, state: Mapping[str, Any] | None = None) -> None:
        """Begin, or continue from *state*."""
        self._correct: int
        self._labelled: int
        self._correct, self._labelled = state["all"] if state else (0, 0)
        self._slices: dict[str, _Slice] = {}
        for value, parts in (state["slices"] if state else {}).items():
            self.restore(value, parts)

    def __contains__(self, value: str) -> bool:
        """Return whether the slice with this *value* has been seen, or restored."""
        return value in self._slices

    def restore(self, value: str, parts: Sequence[Any]) -> None:
        """Continue with the slice of this *value* from what `dump` said of it.

        So of five hundred slices only those with new labels need be read.
        """
        self._slices[value] = _Slice(*parts)

    def add(self, value: str, is_right: bool) -> None:
        """Take the next label, of the slice with this *value*."""
        part = self._slices.get(value)
        if part is None:
            # What was labelled before the slice appeared is not compared with it.
            begun = (0, 0, self._correct, self._labelled)
            part = self._slices[value] = _Slice(begun=begun)
        self._correct += is_right
        self._labelled += 1
        part.add(is_right, self._correct, self._labelled)

    def evidence(self) -> dict[str, SliceEvidence]:
        """Return the evidence about each slice that has a label."""
        return {value: part.evidence() for value, part in self._slices.items()}

    def dump(self) -> dict[str, Any]:
        """Return the state: numbers and lists that JSON keeps to the last bit."""
        return {
            "all": [self._correct, self._labelled],
            "slices": {value: part.dump() for value, part in self._slices.items()},
        }


def compare_once(
    correct: Sequence[int], labelled: Sequence[int]
) -> list[SliceEvidence]:
    """Return the evidence about each of the slices from their counts, for one look.

    Each is compared with all others together as a single block.  That is evidence at
    one look that was fixed beforehand; for every look there is `SliceWatch`.
    """
    found = []
    for k, n in zip(correct, labelled, strict=True):
        part = _Slice(k, n)
        part.close(sum(correct) - k, sum(labelled) - n)
        found.append(part.evidence())
    return found


def judge_slices(
    evidence: Sequence[SliceEvidence],
    confidence_level: float,
    *,
    room_for: int = 0,
) -> list[SliceJudgement]:
    """Return what may be said of each slice, all of them together, at every look.

    There is *evidence* about each slice, or about each class in each slice.  A
    false `better` or `worse` is ever said of any of them with a probability of at
    most 1 - confidence_level, by Holm's rule on the largest evidence so far.  Among
    those that are called likely, by e-BH on the evidence of this moment, at most that
    share is expected to be false.  Where the interval is wider than `TOO_WIDE` and
    nothing is shown, there are too few labels.

    The promise is for *room_for* slices where that is more than there are: name the
    most that there may be where new ones appear.

    Raises ValueError as `slice_intervals` does.
    """
    slices = max(len(evidence), room_for)
    intervals = slice_intervals(
        np.array([one.correct for one in evidence], dtype=np.int64),
        np.array([one.labelled for one in evidence], dtype=np.int64),
        confidence_level,
        slices=slices,
    )
    error = tail_share(confidence_level, 1)
    shown = _holm(
        [peak for one in evidence for peak in (one.worse_peak, one.better_peak)],
        2 * slices,
        error,
    )
    likely = discoveries(
        [now for one in evidence for now in (one.worse, one.better)], 2 * slices, error
    )
    judged = []
    for i, (one, low, high) in enumerate(
        zip(evidence, intervals.low.tolist(), intervals.high.tolist(), strict=True)
    ):
        said = _stronger(one, *shown[2 * i : 2 * i + 2])
        silent: SliceState = (
            "too_few_labels" if high - low > TOO_WIDE else "no_difference_shown"
        )
        maybe = None if said else _stronger(one, *likely[2 * i : 2 * i + 2])
        judged.append(SliceJudgement(said or silent, maybe, low, high))
    return judged


def slice_intervals(
    correct: npt.ArrayLike,
    labelled: npt.ArrayLike,
    confidence_level: float,
    *,
    slices: int,
) -> Interval:
    """Return intervals that hold for so many *slices* at once, and at every look.

    *correct* and *labelled* broadcast; both bounds have that shape.  Each interval is
    `anytime` at its share of the error.

    Raises ValueError as `anytime` and `shared_level` do.
    """
    return anytime(correct, labelled, shared_level(confidence_level, max(slices, 1)))


class _Slice:
    """The counts of one slice and the evidence about it, for each alternative."""

    __slots__ = ("_begun", "_blocks", "_logs", "_peaks", "correct", "labelled")

    def __init__(
        self,
        correct: int = 0,
        labelled: int = 0,
        begun: Sequence[int] = (0, 0, 0, 0),
        logs: Sequence[Sequence[float]] = ((0.0,), (0.0,)),
        peaks: Sequence[float] = (0.0, 0.0),
    ) -> None:
        self.correct, self.labelled = correct, labelled
        self._begun = tuple(begun)
        shape = (2, _RESTS.size * _ODDS_RATIOS.size)
        self._logs: Floats = np.broadcast_to(np.array(logs, dtype=float), shape).copy()
        self._peaks = list(peaks)
        # Blocks that have ended and are not multiplied in yet.
        self._blocks: list[tuple[int, int, int, int]] = []

    def add(self, is_right: bool, all_correct: int, all_labelled: int) -> None:
        self.correct += is_right
        self.labelled += 1
        self.close(all_correct - self.correct, all_labelled - self.labelled)

    def close(self, rest_correct: int, rest_labelled: int) -> None:
        """End the block, if there are enough labels of both sides in it."""
        k, m, rest_k, r = self._begun
        m, r = self.labelled - m, rest_labelled - r
        if min(m, r) < _BLOCK:
            return
        k, rest_k = self.correct - k, rest_correct - rest_k
        self._begun = (self.correct, self.labelled, rest_correct, rest_labelled)
        self._blocks.append((k, m - k, rest_k, r - rest_k))
        if len(self._blocks) >= _AT_ONCE:
            self._multiply()

    def _multiply(self) -> None:
        """Take up the blocks that have ended: many at once give the same bits."""
        if not self._blocks:
            return
        counts = np.array(self._blocks, dtype=float)
        self._blocks = []
        m = (counts[:, 0] + counts[:, 1])[:, None, None]
        r = (counts[:, 2] + counts[:, 3])[:, None, None]
        common = (m * _HERE + r * _REST) / (m + r)
        # What each label multiplies by: right and wrong of the slice, and of the rest;
        # by blocks, worse and better, and alternatives.
        factors = np.log(
            [
                _HERE / common,
                (1.0 - _HERE) / (1.0 - common),
                _REST / common,
                (1.0 - _REST) / (1.0 - common),
            ]
        )
        terms = factors * counts.T[:, :, None, None]
        steps, sizes = terms.sum(axis=0), np.abs(terms).sum(axis=0)
        logs = np.empty_like(steps)
        now = self._logs
        for i, labels in enumerate(counts.sum(axis=1).tolist()):
            doubt = sizes[i] + np.abs(now) + labels
            now = now + (steps[i] - _FEW_UNITS * doubt)
            logs[i] = now
        self._logs = now
        worse, better = _log_mean(logs).max(axis=0).tolist()
        self._peaks = [max(self._peaks[0], worse), max(self._peaks[1], better)]

    def evidence(self) -> SliceEvidence:
        self._multiply()
        worse, better = _log_mean(self._logs[None])[0].tolist()
        return SliceEvidence(self.correct, self.labelled, worse, better, *self._peaks)

    def dump(self) -> list[Any]:
        self._multiply()
        return [
            self.correct,
            self.labelled,
            list(self._begun),
            self._logs.tolist(),
            list(self._peaks),
        ]


def _log_mean(logs: Floats) -> Floats:
    top = logs.max(axis=-1, keepdims=True)
    means = np.log(np.exp(logs - top).mean(axis=-1))
    return np.asarray(top[..., 0] + means - _FEW_UNITS)


def discoveries(logs: Sequence[float], hypotheses: int, error: float) -> list[bool]:
    """Return which of the claims stand, by e-BH.

    *logs* are the logarithms of the evidence for each claim, so that the expectation
    of the evidence is at most 1 while the claim is false; *hypotheses* says how many
    claims there are in all, those without evidence among them.  Of the claims that
    stand the expected share of false ones is at most *error*, however the pieces of
    evidence depend on one another.  With evidence that may be looked at at any time
    this holds at every such look, too.

    R. Wang and A. Ramdas, Journal of the Royal Statistical Society B 84 (2022),
    822-852.
    """
    order = sorted(range(len(logs)), key=lambda i: -logs[i])
    enough = [
        rank
        for rank, i in enumerate(order, 1)
        if logs[i] >= _log_threshold(hypotheses / (error * rank))
    ]
    stand = set(order[: max(enough, default=0)])
    return [i in stand for i in range(len(logs))]


def _log_threshold(evidence: float) -> float:
    # Rounded up.
    return math.log(evidence) * (1.0 + _FEW_UNITS)


def _holm(logs: Sequence[float], hypotheses: int, error: float) -> list[bool]:
    rejected = [False] * len(logs)
    order = sorted(range(len(logs)), key=lambda i: -logs[i])
    for rank, i in enumerate(order):
        if logs[i] < _log_threshold((hypotheses - rank) / error):
            break
        rejected[i] = True
    return rejected


def _stronger(
    evidence: SliceEvidence, is_worse: bool, is_better: bool
) -> Literal["better", "worse"] | None:
    # Over a life both may have been true in turn; the evidence now says which is.
    if is_worse and (not is_better or evidence.worse >= evidence.better):
        return "worse"
    return "better" if is_better else None
