"""How often labels are wrong, and what accuracies are worth then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.intervals import ALL
from tracker.services.estimates.measures import Bounds, ClassErrors, LabelErrors
from tracker.services.evidence.populations import Standings, standings_of
from tracker.shapes import Shape
from tracker.stats import (
    Interval,
    choose_counted,
    label_error_bound,
    noise_aware,
    tail_share,
)
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.labelling import rechecks as storage
from tracker.words import COMPARED, UNCLEAR

ASSUMES_NOTHING = (
    "none: all second labels that count are by people trusted to know the truth"
)
INDEPENDENT = (
    "the two labelers err independently of each other, and on each input each is right "
    "more often than not"
)
AT_RANDOM = (
    "labels drawn that have no second one that counts are wrong as often as the others"
)
# How likely the second labeler is right at least, where nobody trusts them.
_LEAST_RIGHT = 0.5


class RecheckReport(Shape):
    """The labels of a version that are given a second time."""

    detector: str = Field(description="The id of the detector.")
    version: str
    drawn: int = Field(description="Labels drawn at random to be given again.")
    answered: int
    waiting: int
    label_errors: LabelErrors | None = Field(description="null until the first answer.")


@dataclass(frozen=True, slots=True)
class _Sample:
    """The labels drawn that are counted, by what was said the second time."""

    # A row for each label, a column for each answer; UNCLEAR comes last.
    table: npt.NDArray[np.int64]
    # Those of each label that have no answer.
    missing: npt.NDArray[np.int64]
    is_trusted: bool

    @classmethod
    def of(
        cls, rows: Sequence[Any], places: Mapping[str, int], *, only_trusted: bool
    ) -> "_Sample":
        """Count *rows*; answers that are not trusted are missing if *only_trusted*."""
        table = np.zeros((len(places), len(places)), dtype=np.int64)
        missing = np.zeros(len(places), dtype=np.int64)
        for row in rows:
            if row.answer is None or (only_trusted and not row.is_trusted):
                missing[places[row.label]] += 1
            else:
                table[places[row.label], places[row.answer]] += 1
        return cls(table, missing, only_trusted)

    @property
    def drawn(self) -> npt.NDArray[np.int64]:
        return np.asarray(self.table.sum(axis=1) + self.missing)

    @property
    def different(self) -> npt.NDArray[np.int64]:
        """How many of each label were given otherwise."""
        return np.asarray(self.table.sum(axis=1) - self.table.diagonal())


def get_recheck_report(
    session: Session, detector: Detector, version: Version, estimate: Estimate
) -> RecheckReport:
    """Return what was drawn of *version*, whose *estimate* it is, and what it says."""
    rows = storage.list_rechecks(session, version.id)
    answered = sum(row.answer is not None for row in rows)
    return RecheckReport(
        detector=dump_id("det", detector.id),
        version=version.name,
        drawn=len(rows),
        answered=answered,
        waiting=len(rows) - answered,
        label_errors=_build(detector, rows, estimate),
    )


def find_label_errors(
    session: Session, detector: Detector, estimate: Estimate
) -> LabelErrors | None:
    """Return how often labels of the version of *estimate* are wrong.

    The estimate is that of all its labels, without the targeted ones.  None before the
    first answer, and for versions that are pooled: each has a sample of its own.
    """
    if estimate.version is None or estimate.version == ALL:
        return None
    ids = {one.name: one.id for one in list_versions(session, detector.id)}
    version_id = ids.get(estimate.version)
    rows = [] if version_id is None else storage.list_rechecks(session, version_id)
    return _build(detector, rows, estimate)


def _assume(*, is_trusted: bool, is_whole: bool) -> str:
    """Return what the bounds assume; how many labels count is chosen by who answered.

    With all answers there is nothing to choose.
    """
    needed = [INDEPENDENT] * (not is_trusted) + [AT_RANDOM] * (not is_whole)
    return "; and ".join(needed) or ASSUMES_NOTHING


def _build(
    detector: Detector, rows: Sequence[Any], estimate: Estimate
) -> LabelErrors | None:
    error = tail_share(estimate.confidence_level, 1)
    standings = standings_of(estimate.population.kind, detector.label_sampling)
    # What counts in another population says nothing of this one.
    others_count = COMPARED - standings
    rows = [row for row in rows if row.standing not in others_count]
    is_answered = [row.answer is not None for row in rows]
    is_trusted = [bool(row.is_trusted) for row in rows]
    counted, only_trusted = choose_counted(is_answered, is_trusted, error)
    if not counted:
        return None
    names = [*detector.classes, UNCLEAR]
    places = {name: place for place, name in enumerate(names)}
    sample = _Sample.of(rows[:counted], places, only_trusted=only_trusted)
    right, labelled, others = _count_as_drawn(estimate, rows, places, standings)
    bounds = noise_aware(
        right,
        labelled,
        sample.table,
        estimate.confidence_level,
        others=others,
        unanswered=sample.missing,
        least_right=1.0 if sample.is_trusted else _LEAST_RIGHT,
    )
    different, missing = int(sample.different.sum()), int(sample.missing.sum())
    return LabelErrors(
        drawn_until=max(row.drawn_at for row in rows),
        drawn=len(rows),
        answered=sum(is_answered),
        counted=counted,
        different=different,
        unanswered=missing,
        untrusted_left_out=sum(is_answered) - sum(is_trusted) if only_trusted else 0,
        trusted=sample.is_trusted,
        assumption=_assume(
            is_trusted=sample.is_trusted,
            is_whole=all(is_trusted if only_trusted else is_answered),
        ),
        error_high=label_error_bound(different + missing, counted, error),
        classes=_build_classes(detector, sample, bounds.classes, error),
        balanced=Bounds(
            low=float(bounds.balanced.low), high=float(bounds.balanced.high)
        ),
    )


def _build_classes(
    detector: Detector, sample: _Sample, bounds: Interval, error: float
) -> list[ClassErrors]:
    drawn, different = sample.drawn.tolist(), sample.different.tolist()
    wrong = (sample.different + sample.missing).tolist()
    low, high = bounds.low.tolist(), bounds.high.tolist()
    return [
        ClassErrors(
            name=name,
            drawn=drawn[place],
            different=different[place],
            error_high=_class_bound(
                wrong[place], drawn[place], error, is_trusted=sample.is_trusted
            ),
            low=low[place],
            high=high[place],
        )
        for place, name in enumerate(detector.classes)
    ]


def _class_bound(wrong: int, drawn: int, error: float, *, is_trusted: bool) -> float:
    """Return what the share of wrong labels of one class stays below.

    Over all classes together, what the second labeler gets wrong makes up for what
    they overlook; within one class it need not.
    """
    bound = label_error_bound(wrong, drawn, error)
    return bound if is_trusted else min(1.0, bound / _LEAST_RIGHT)


def _count_as_drawn(
    estimate: Estimate,
    rows: Sequence[Any],
    places: Mapping[str, int],
    standings: Standings,
) -> tuple[list[int], list[int], int]:
    """Return correct, labelled and unclear, with each label drawn as it was then.

    Of those drawn the wrong ones are corrected, of all others they are not, so that
    after corrections the drawn would no longer stand for the others.
    """
    right, labelled = list(estimate.correct), list(estimate.labelled)
    others = estimate.unclear
    for row in rows:
        # It may be counted nowhere since, as part of a group or by a dispute.
        now = [(row.current, -1)] if row.standing in standings else []
        for label, sign in (*now, (row.label, 1)):
            if label == UNCLEAR:
                others += sign
            else:
                labelled[places[label]] += sign
                right[places[label]] += sign * (label == row.predicted)
    return right, labelled, others
