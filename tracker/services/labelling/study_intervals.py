"""What the rounds of a resampling study say: intervals, none of them guaranteed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any

import numpy as np
import numpy.typing as npt
from pydantic import Field
from sqlalchemy.orm import Session

from tracker import stats
from tracker.services.labelling.studies import (
    KINDS,
    ROUND_FIELDS,
    Study,
    describe_study,
)
from tracker.services.wording import invalid
from tracker.shapes import Shape
from tracker.stats import Interval
from tracker.storage.detectors import Detector
from tracker.storage.labelling import studies as storage
from tracker.words import one_of

_Rounds = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class _Method:
    """A way from the rounds of one kind to an interval.

    The fields that it *needs* are the arguments of *correct*, which gives the accuracy
    of each round, and go before the confidence level in *interval*.
    """

    name: str
    kind: str
    needs: tuple[str, ...]
    correct: Callable[..., _Rounds]
    interval: Callable[..., Interval]
    meaning: str


_METHODS = (
    _Method(
        "bootstrap-t",
        "bootstrap",
        ("validation",),
        np.asarray,
        stats.bootstrap_t,
        "An approximation that covers what one more training on a draw of the same "
        "data may give, as if rounds followed a bell curve; it does not cover what "
        "other data would give, because all rounds share theirs.",
    ),
    _Method(
        "percentile",
        "bootstrap",
        ("validation",),
        np.asarray,
        stats.bootstrap_percentile,
        "An approximation that covers the middle of the rounds just as they came; it "
        "does not cover what other data would give, nor that a round trains on only "
        "63.2 % of its data and so does a little too badly.",
    ),
    _Method(
        "632",
        "bootstrap",
        ("validation", "training"),
        stats.corrected_632,
        stats.point_632,
        "An approximation that covers the middle of the rounds, with a part of the "
        "training accuracy added for what a round did not train on; it does not "
        "cover overfitting, which makes it too hopeful, nor what other data would "
        "give.",
    ),
    _Method(
        "632+",
        "bootstrap",
        ("validation", "training", "no_information"),
        stats.corrected_632_plus,
        stats.point_632_plus,
        "An approximation that covers the middle of the rounds, with less of the "
        "training accuracy added the more a round overfitted; it does not cover what "
        "other data would give, because all rounds share theirs.",
    ),
    _Method(
        "seeds-t",
        "seeds",
        ("accuracy",),
        np.asarray,
        stats.seeds_t,
        "An approximation that covers the luck of the random seed in the mean over "
        "all seeds; it does not cover the luck of the training data or of the test "
        "set, nor what a single seed may give.",
    ),
)


class StudyInterval(Shape):
    """The mean accuracy of the rounds by one method, and its interval."""

    method: Annotated[str, one_of(method.name for method in _METHODS)] = Field(
        description="bootstrap-t, percentile, 632 or 632+; of seeds, seeds-t."
    )
    accuracy: float
    low: float
    high: float
    is_guaranteed: bool = Field(
        description="Always false: the interval is an approximation."
    )
    meaning: str = Field(description="What the interval covers, and what it does not.")


class StudyReport(Study):
    """A study with the interval of every method that its rounds allow."""

    confidence_level: float
    intervals: list[StudyInterval]


@dataclass(frozen=True, slots=True)
class StudyAnalysis:
    """A study with what its rounds say at a confidence level."""

    study: storage.Study
    detector: Detector
    confidence_level: float
    columns: Mapping[str, _Rounds]
    intervals: Sequence[StudyInterval]

    @property
    def measured(self) -> _Rounds:
        """The accuracy of each round as it was measured."""
        return self.columns[KINDS[self.study.kind][0]]


def build_study_report(
    session: Session, study: storage.Study, *, confidence_level: float | None = None
) -> StudyAnalysis:
    """Return what *study* says, at the confidence level of its detector by default.

    Raises InvalidInputError unless the level lies between 0 and 1.
    """
    detector = session.get_one(Detector, study.detector_id)
    level = detector.confidence_level if confidence_level is None else confidence_level
    if not 0 < level < 1:
        raise invalid(
            "confidence_level", level, "it must lie between 0 and 1, such as 0.95"
        )
    columns = load_columns(session, study)
    return StudyAnalysis(
        study=study,
        detector=detector,
        confidence_level=level,
        columns=columns,
        intervals=[
            _apply(method, columns, level)
            for method in _METHODS
            if method.kind == study.kind and columns.keys() >= set(method.needs)
        ],
    )


def describe_study_report(analysis: StudyAnalysis) -> StudyReport:
    """Return a study with its intervals as it is answered."""
    return StudyReport(
        **dict(describe_study(analysis.study)),
        confidence_level=analysis.confidence_level,
        intervals=list(analysis.intervals),
    )


def load_columns(session: Session, study: storage.Study) -> dict[str, _Rounds]:
    """Return the rounds of *study* by field, in the order of a file of them."""
    rows = storage.list_rounds(session, study.id)
    known = {
        name: column
        for name, column in zip(ROUND_FIELDS, zip(*rows, strict=True), strict=True)
        if column[0] is not None
    }
    return {name: np.array(column, dtype=np.float64) for name, column in known.items()}


def list_study_rows(session: Session, study: storage.Study) -> list[dict[str, Any]]:
    """Return the rounds of *study* as they were uploaded."""
    columns = load_columns(session, study)
    values = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in values]


def _apply(
    method: _Method, columns: Mapping[str, _Rounds], level: float
) -> StudyInterval:
    rounds = [columns[name] for name in method.needs]
    interval = method.interval(*rounds, level)
    return StudyInterval(
        method=method.name,
        accuracy=float(method.correct(*rounds).mean()),
        low=float(interval.low),
        high=float(interval.high),
        is_guaranteed=False,
        meaning=method.meaning,
    )
