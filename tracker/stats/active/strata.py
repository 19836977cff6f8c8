"""Divide a set of queries into strata, and draw from them with known chances."""

import hashlib
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]

NO_CONFIDENCE = -1000
"""The bin of predictions that came without a confidence."""

MISSING, DIFFERS = -1, -2
"""The verdict of a judge that gave none, and one that is only known to differ."""

BINS_PER_LOGIT = 2
_FURTHEST = 1e-9
_BIN_CODES = 2000
_MOST_STRATA, _MOST_JUDGES = 400, 3


class Strata(NamedTuple):
    """The strata of a set: who is in one differs in nothing that the choice goes by.

    *predicted*, *bins* and *sizes* have one entry for each stratum: the class that
    the detector said, `classes` where it gave no answer, which is never right, the bin
    of its confidence and how many queries there are; *verdicts* (strata, columns) says
    what judges said: a class, MISSING or DIFFERS.
    """

    classes: int
    predicted: Ints
    bins: Ints
    sizes: Ints
    verdicts: Ints

    @property
    def own(self) -> tuple[Ints, Ints]:
        """Return which strata have an answer, and which."""
        answered = np.flatnonzero(self.predicted < self.classes)
        return answered, self.predicted[answered]


def build_strata(
    classes: int,
    predicted: npt.ArrayLike,
    confidence: npt.ArrayLike,
    verdicts: npt.ArrayLike | None = None,
) -> tuple[Strata, Ints]:
    """Return the strata of a set, and the stratum of each query.

    *predicted* holds classes from 0 on, their number for no answer, *confidence*
    numbers in [0, 1] or NaN for none, *verdicts* (queries, judges) classes or MISSING.
    Bins are half a unit of the log odds of being wrong wide.  Up to three judges are
    told apart; of more, or where that makes more than 400 strata, it counts how many
    agree with the detector, differ and are missing, and where that makes more, which of
    these is the most.

    Raises ValueError unless there are 2 or more classes, at least one query and
    every class and confidence is in range.
    """
    said = np.asarray(predicted, dtype=np.int64)
    sure = np.asarray(confidence, dtype=np.float64)
    judged = np.asarray([[]] * said.size if verdicts is None else verdicts, np.int64)
    if classes < 2 or said.ndim != 1 or not said.size or said.shape != sure.shape:
        raise ValueError("predicted and confidence must be lists of the same length")
    if judged.shape[:-1] != said.shape or not _in_range(judged, MISSING, classes):
        raise ValueError("verdicts must have a row of classes or MISSING for each")
    if not _in_range(said, 0, classes + 1):
        raise ValueError(f"predicted must hold classes from 0 to {classes}")
    if not (np.isnan(sure) | ((sure >= 0) & (sure <= 1))).all():
        raise ValueError("confidence must lie between 0 and 1")
    # NaN is a bin of its own.
    wrong = np.clip(1.0 - sure, _FURTHEST, 1.0 - _FURTHEST)
    rounded = np.rint(BINS_PER_LOGIT * (np.log(wrong) - np.log1p(-wrong)))
    bins = np.where(np.isnan(sure), NO_CONFIDENCE, rounded).astype(np.int64)
    # One number for both, since sorting pairs takes many times as long.
    base = said * _BIN_CODES + (bins - NO_CONFIDENCE)
    for columns in _told_apart(said, judged):
        codes = base
        for column in columns.T:
            codes = np.unique(codes, return_inverse=True)[1] * (classes + 2) + column
        _, first, index, sizes = np.unique(
            codes, return_index=True, return_inverse=True, return_counts=True
        )
        if len(first) <= _MOST_STRATA:
            break
    strata = Strata(
        classes, said[first], bins[first], sizes.astype(np.int64), columns[first]
    )
    return strata, index.astype(np.int64)


def _in_range(values: Ints, least: int, end: int) -> bool:
    return bool(((values >= least) & (values < end)).all())


def _told_apart(said: Ints, judged: Ints) -> Iterator[Ints]:
    """Yield what strata go by of verdicts, each time with fewer strata."""
    judges = judged.shape[1]
    if judges <= _MOST_JUDGES:
        yield judged
    if not judges:
        return
    mine = said[:, None]
    votes = np.where((judged >= 0) & (judged != mine), DIFFERS, judged)
    yield np.sort(votes, axis=1)
    balance = (votes == mine).sum(axis=1) - (votes == DIFFERS).sum(axis=1)
    most = np.where(balance > 0, said, np.where(balance < 0, DIFFERS, MISSING))
    yield most[:, None]


def rank_of(key: bytes, name: str) -> int:
    """Return the rank in [0, 2**63) by which a query stands in line in its stratum.

    Ranks are independent of what `choose_stratum` chooses: the two hash different
    texts.
    """
    return _hashed(key, f"query {name}") >> 193


def choose_stratum(key: bytes, draw: int, left: Ints, weights: Ints) -> int:
    """Return the stratum of draw number *draw*, from 0 on.

    A stratum comes with the chance left x weight / sum, so that with the next in
    line taken each query has the chance weight / sum exactly: the ranks within a
    stratum are a uniform permutation, independent of the strata chosen.  Weights
    are integers, so that sums are exact; of 2**256 hashes each has its share but
    for one part in 2**190.

    Raises ValueError when nothing is left.
    """
    masses = np.cumsum(left * weights)
    if not masses[-1]:
        raise ValueError("nothing is left to draw from")
    point = _hashed(key, f"draw {draw}") % int(masses[-1])
    return int(np.searchsorted(masses, point, side="right"))


def _hashed(key: bytes, text: str) -> int:
    return int.from_bytes(hashlib.sha256(key + text.encode()).digest(), "big")
