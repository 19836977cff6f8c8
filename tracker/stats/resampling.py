"""Intervals from the rounds of a study that trained the detector many times.

None of them is guaranteed: rounds share their data, so they are not independent.

The last axes of the arguments run over the rounds, and broadcast: *validation* are the
accuracies on what a round did not train on, *training* those on its whole training set,
and *no_information* those that it would have had if predictions and labels were paired
at random.  Both bounds have the shape that remains, in [0, 1].

All raise ValueError unless there are two rounds or more, accuracies lie in [0, 1] and
0 < confidence_level < 1.

S. Raschka, Creating Confidence Intervals for Machine Learning Classifiers (2022).
"""

import math

import numpy as np
import numpy.typing as npt
from scipy.special import stdtrit

from .arguments import Floats, checked_accuracy, half_error
from .exact import Interval

# A training set drawn with replacement holds this part of the data: 1 - 1/e.
_PART_DRAWN = 0.632


def bootstrap_t(validation: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the t interval of one more bootstrap round, clipped to [0, 1].

    The deviation is that of a round, not that of their mean, so more rounds make the
    interval no narrower.  It is Raschka's method 2.1.
    """
    return _t_interval(_checked_rounds("validation", validation), confidence_level, 1)


def seeds_t(accuracy: npt.ArrayLike, confidence_level: float) -> Interval:
    """Return the t interval for the mean accuracy over all seeds, clipped to [0, 1].

    *accuracy* holds that of each seed that was tried, on the same test set.  Only the
    luck of the seed is covered, not that of the test set.  It is Raschka's method 4.
    """
    rounds = _checked_rounds("accuracy", accuracy)
    return _t_interval(rounds, confidence_level, rounds.shape[-1])


def bootstrap_percentile(
    validation: npt.ArrayLike, confidence_level: float
) -> Interval:
    """Return the percentiles of the bootstrap rounds, interpolated between them.

    B. Efron, The Jackknife, the Bootstrap and Other Resampling Plans (1982), ch. 10.
    """
    return _percentiles(_checked_rounds("validation", validation), confidence_level)


def point_632(
    validation: npt.ArrayLike,
    training: npt.ArrayLike,
    confidence_level: float,
    *,
    is_swapped: bool = False,
) -> Interval:
    """Return the percentiles of the bootstrap rounds, corrected by the .632 rule.

    A round sees 63.2 % of the data and so does too badly on the rest: 0.632 of its
    validation accuracy and 0.368 of its training accuracy are taken.  With *is_swapped*
    the two weights change places, as in Raschka's article (method 2.3); in a simulation
    by him that held the truth 83 % of the time at a level of 95 %.

    B. Efron, Journal of the American Statistical Association 78 (1983), 316-331.
    """
    rounds = corrected_632(validation, training, is_swapped=is_swapped)
    return _percentiles(rounds, confidence_level)


def point_632_plus(
    validation: npt.ArrayLike,
    training: npt.ArrayLike,
    no_information: npt.ArrayLike,
    confidence_level: float,
    *,
    is_swapped: bool = False,
) -> Interval:
    """Return the percentiles of the bootstrap rounds, corrected by the .632+ rule.

    The further a round fell from its training accuracy towards that without
    information, the more weight its validation accuracy gets: from 0.632 for none of
    the way to 1 for all of it.  *is_swapped* is as for `point_632` (Raschka's method
    2.4).

    B. Efron and R. Tibshirani, Journal of the American Statistical Association 92
    (1997), 548-560.
    """
    rounds = corrected_632_plus(
        validation, training, no_information, is_swapped=is_swapped
    )
    return _percentiles(rounds, confidence_level)


def corrected_632(
    validation: npt.ArrayLike, training: npt.ArrayLike, *, is_swapped: bool = False
) -> Floats:
    """Return the accuracy of each round by the .632 rule; see `point_632`."""
    outside = _checked_rounds("validation", validation)
    inside = _checked_rounds("training", training)
    return _mixed(outside, inside, np.float64(_PART_DRAWN), is_swapped)


def corrected_632_plus(
    validation: npt.ArrayLike,
    training: npt.ArrayLike,
    no_information: npt.ArrayLike,
    *,
    is_swapped: bool = False,
) -> Floats:
    """Return the accuracy of each round by the .632+ rule; see `point_632_plus`."""
    outside = _checked_rounds("validation", validation)
    inside = _checked_rounds("training", training)
    chance = _checked_rounds("no_information", no_information)
    room = inside - chance
    is_defined = room > 0
    fallen = (inside - outside) / np.where(is_defined, room, 1.0)
    overfit = np.where(is_defined, np.clip(fallen, 0.0, 1.0), 0.0)
    weight = _PART_DRAWN / (1.0 - (1.0 - _PART_DRAWN) * overfit)
    return _mixed(outside, inside, weight, is_swapped)


def _mixed(
    validation: Floats, training: Floats, weight: Floats | np.float64, is_swapped: bool
) -> Floats:
    share = 1.0 - weight if is_swapped else weight
    return np.asarray(share * validation + (1.0 - share) * training, dtype=np.float64)


def _t_interval(rounds: Floats, confidence_level: float, averaged: int) -> Interval:
    tail = half_error(confidence_level)
    deviate = -float(stdtrit(rounds.shape[-1] - 1, tail))
    centre = rounds.mean(axis=-1)
    half = deviate * rounds.std(axis=-1, ddof=1) / math.sqrt(averaged)
    return Interval(
        np.asarray(np.clip(centre - half, 0.0, 1.0)),
        np.asarray(np.clip(centre + half, 0.0, 1.0)),
    )


def _percentiles(rounds: Floats, confidence_level: float) -> Interval:
    tail = half_error(confidence_level)
    low, high = np.quantile(rounds, [tail, 1.0 - tail], axis=-1)
    return Interval(np.asarray(low), np.asarray(high))


def _checked_rounds(name: str, value: npt.ArrayLike) -> Floats:
    rounds = np.asarray(value, dtype=np.float64)
    if not rounds.ndim or rounds.shape[-1] < 2:
        raise ValueError(f"{name} must hold two rounds or more, not {value!r:.80}")
    return checked_accuracy(value, name)
