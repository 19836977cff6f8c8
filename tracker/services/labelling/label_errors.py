"""How often labels are wrong, and what accuracies are worth then."""

from collections.abc import Iterable, Sequence
from itertools import takewhile
from typing import Any

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.services.estimates.estimate import Estimate
from tracker.services.estimates.intervals import ALL
from tracker.services.estimates.measures import Bounds, ClassErrors, LabelErrors
from tracker.services.evidence.populations import standings_of
from tracker.shapes import Shape
from tracker.stats import (
    Cell,
    Drawn,
    Interval,
    label_error_bound,
    recheck_accuracies,
)
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector, Version, list_versions
from tracker.storage.labelling import rechecks as storage
from tracker.words import UNCLEAR

ASSUMES_NOTHING = (
    "none: all second labels that count are by people trusted to know the truth"
)
INDEPENDENT = (
    "the two labelers err independently of each other, and on each input each is right "
    "more often than not"
)


class RecheckReport(Shape):
    """The labels of a version that are given a second time."""

    detector: str = Field(description="The id of the detector.")
    version: str
    drawn: int = Field(description="Labels drawn at random to be given again.")
    answered: int
    waiting: int
    label_errors: LabelErrors | None = Field(description="null until the first answer.")


def get_recheck_report(
    session: Session, detector: Detector, version: Version, estimate: Estimate
) -> RecheckReport:
    """Return what was drawn of *version*, whose *estimate* it is, and what it says."""
    rows = storage.list_rechecks(session, version)
    answered = sum(row.answer is not None for row in rows)
    return RecheckReport(
        detector=dump_id("det", detector.id),
        version=version.name,
        drawn=len(rows),
        answered=answered,
        waiting=len(rows) - answered,
        label_errors=_build(session, detector, version, rows, estimate),
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
    versions = {one.name: one for one in list_versions(session, detector.id)}
    version = versions.get(estimate.version)
    if version is None:
        return None
    rows = storage.list_rechecks(session, version)
    return _build(session, detector, version, rows, estimate)


def _build(
    session: Session,
    detector: Detector,
    version: Version,
    rows: Sequence[Any],
    estimate: Estimate,
) -> LabelErrors | None:
    standings = standings_of(estimate.population.kind, detector.label_sampling)
    # What counts in another population says nothing of this one.
    is_of_this = any(row.standing in standings for row in rows)
    found = storage.find_set(session, version) if is_of_this else None
    if found is None:
        return None
    answered = _count_first(row.answer is not None or row.erased_at for row in rows)
    trusted = _count_first(row.is_trusted or row.erased_at for row in rows)
    # Who answered decides, not what was said.
    is_trusted = bool(trusted) and 2 * trusted >= answered
    counted = trusted if is_trusted else answered
    if not counted:
        return None
    evidence, by_truth = _Evidence(detector.classes, found, rows), None
    level = estimate.confidence_level
    if trusted:
        number = len(detector.classes)
        by_truth = recheck_accuracies(number, *evidence.first(trusted), level)
    return LabelErrors(
        frozen_at=found.frozen_at,
        queries=sum(number for *_, number in found.cells),
        drawn=len(rows),
        answered=sum(row.answer is not None for row in rows),
        counted=counted,
        different=sum(row.answer != row.label for row in rows[:counted]),
        trusted=is_trusted,
        assumption=ASSUMES_NOTHING if is_trusted else INDEPENDENT,
        error_high=label_error_bound(*evidence.first(counted), level),
        classes=[
            ClassErrors(
                name=name,
                drawn=sum(row.label == name for row in rows[:counted]),
                different=sum(
                    row.label == name != row.answer for row in rows[:counted]
                ),
                truth=by_truth and _bounds(by_truth.measures, place),
            )
            for place, name in enumerate(detector.classes)
        ],
        overall=by_truth and _bounds(by_truth.measures, -1),
        balanced=by_truth and _bounds(by_truth.balanced),
        process=by_truth and _bounds(by_truth.process),
    )


class _Evidence:
    """A set and its draws as numbers."""

    def __init__(
        self, classes: Sequence[str], found: storage.RecheckSet, rows: Sequence[Any]
    ) -> None:
        places: dict[str, int | None] = {UNCLEAR: None}
        said_at = {name: place for place, name in enumerate(classes)}
        places |= said_at
        at = {(said, first): n for n, (said, first, _) in enumerate(found.cells)}
        self._cells = tuple(
            # What is no class is no answer, and wrong whatever the label is.
            Cell(said_at.get(said, len(classes)), places[first], number)
            for said, first, number in found.cells
        )
        self._known = tuple(
            (Drawn(at[said, first], places[answer]), number)
            for said, first, answer, number in found.known
        )
        # Nobody can tell any more what was erased.
        answers = (
            UNCLEAR if row.erased_at and not row.is_trusted else row.answer or UNCLEAR
            for row in rows
        )
        self._draws = tuple(
            Drawn(at[row.predicted, row.label], places[answer])
            for row, answer in zip(rows, answers, strict=True)
        )

    def first(self, draws: int) -> tuple[Any, ...]:
        return self._cells, self._known, self._draws[:draws]


def _count_first(are_there: Iterable[Any]) -> int:
    return sum(1 for _ in takewhile(bool, are_there))


def _bounds(found: Interval, place: Any = ()) -> Bounds:
    return Bounds(low=float(found.low[place]), high=float(found.high[place]))
