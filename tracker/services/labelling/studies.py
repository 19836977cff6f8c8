"""Resampling studies: rounds that are read, checked and added once, and intervals."""

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from typing import Annotated, Any, Literal

import numpy as np
import numpy.typing as npt
from pydantic import Field, PrivateAttr
from sqlalchemy.orm import Session

from tracker import errors, shapes, stats, words
from tracker.services import fields
from tracker.services.by import By
from tracker.services.detectors import get_by_id
from tracker.services.wording import invalid, show
from tracker.storage.base import dump_id, find_row
from tracker.storage.detectors import Detector
from tracker.storage.inserting import insert_rows
from tracker.storage.labelling import studies as storage

ROUND_FIELDS = ("accuracy", "validation", "training", "no_information")
# What a round of each kind may hold; the first one it must.
KINDS = {
    "bootstrap": ("validation", "training", "no_information"),
    "seeds": ("accuracy",),
}
MOST_ROUNDS = 100_000
MOST_ERRORS = 100
_FIELD_OF_ROUND = re.compile(r"rounds\.(\d+)\.?(.*)", re.DOTALL)

Kind = Literal["bootstrap", "seeds"]


class NewRound(fields.Input):
    """The accuracies of one training; all rounds of a study have the same fields."""

    accuracy: fields.Probability | None = Field(
        default=None,
        description="The accuracy of a random seed, on the same test set as "
        "the others.",
    )
    validation: fields.Probability | None = Field(
        default=None,
        description="The accuracy of a bootstrap round on the data it did not "
        "train on.",
    )
    training: fields.Probability | None = Field(
        default=None,
        description="The accuracy of that round on the whole training set.",
    )
    no_information: fields.Probability | None = Field(
        default=None,
        description="The accuracy of that round if predictions and labels were "
        "paired at random.",
    )


class NewStudy(fields.Input):
    """A resampling study to be added: an experiment that trained many times."""

    name: fields.StudyName = Field(
        description="Unique among the studies of the detector."
    )
    kind: Kind = Field(
        description="bootstrap: rounds have validation, and training and "
        "no_information if known; seeds: rounds have accuracy."
    )
    version: fields.VersionName | None = Field(
        default=None,
        description="The version that was studied; it need not have queries yet.",
    )
    note: fields.Note | None = Field(
        default=None, description="A note on how the study was done."
    )
    rounds: list[NewRound] = Field(min_length=2, max_length=MOST_ROUNDS)


def parse_study(values: Mapping[str, Any]) -> NewStudy:
    """Parse a study; raises InvalidInputError with fields, and rows counted from 1."""
    rounds = values.get("rounds")
    if isinstance(rounds, list) and not 2 <= len(rounds) <= MOST_ROUNDS:
        # Here, because what is wrong is their number and not what they are.
        raise errors.InvalidInputError.of(
            "rounds",
            f"there are {len(rounds):,}; a study has from 2 to {MOST_ROUNDS:,}",
        )
    try:
        new = fields.parse_input(NewStudy, values)
    except errors.InvalidInputError as error:
        said = [
            errors.RowError(found[2] or "row", one.message, int(found[1]) + 1)
            if (found := _FIELD_OF_ROUND.fullmatch(one.field))
            else one
            for one in error.errors
        ]
        raise errors.InvalidInputError(said) from error
    if wrong := list(islice(_compare_rounds(new), MOST_ERRORS)):
        raise errors.InvalidInputError(wrong)
    return new


def _compare_rounds(new: NewStudy) -> Iterator[errors.RowError]:
    known = KINDS[new.kind]
    first = _given(new.rounds[0])
    for row, one in enumerate(new.rounds, start=1):
        given = _given(one)
        if unknown := [name for name in given if name not in known]:
            message = (
                f"does not belong to kind {new.kind}, whose rounds have "
                f"{', '.join(known)}"
            )
            yield errors.RowError(unknown[0], message, row)
        elif known[0] not in given:
            yield errors.RowError(known[0], f"is required in kind {new.kind}", row)
        elif missing := [name for name in first if name not in given]:
            message = "is missing, and row 1 has it; all rounds have the same fields"
            yield errors.RowError(missing[0], message, row)
        elif given != first:
            name = next(name for name in given if name not in first)
            message = "is given, and row 1 lacks it; all rounds have the same fields"
            yield errors.RowError(name, message, row)


def _given(one: NewRound) -> tuple[str, ...]:
    return tuple(one.model_dump(exclude_none=True))


class Study(shapes.Shape):
    """A resampling study: an experiment that trained a detector many times."""

    id: str = Field(description="stu_ and a number.")
    detector: str = Field(description="The id of the detector.")
    name: str
    kind: Kind = Field(description="bootstrap or seeds.")
    version: str | None
    note: str | None
    rounds: int = Field(description="The number of rounds.")
    added_by: str
    created_at: fields.Instant


def describe_study(study: storage.Study) -> Study:
    detector = dump_id("det", study.detector_id)
    return Study.from_row(study, id=dump_id("stu", study.id), detector=detector)


def add_study(
    session: Session, detector: Detector, new: NewStudy, by: By
) -> tuple[storage.Study, bool]:
    """Add a study, and return it with whether it is new.

    The same again is the stored one; raises ConflictError if its name is taken by
    another.
    """
    stored = find_row(session, storage.Study, detector_id=detector.id, name=new.name)
    if stored is not None:
        _check_same(session, stored, new)
        return stored, False
    study = storage.Study(
        detector_id=detector.id,
        **new.model_dump(exclude={"rounds"}),
        rounds=len(new.rounds),
        added_by=by.name,
        created_at=by.at,
    )
    session.add(study)
    session.flush()
    of_study = {"detector_id": detector.id, "study_id": study.id}
    rows = [
        {**of_study, "number": number, **dict(one)}
        for number, one in enumerate(new.rounds, start=1)
    ]
    insert_rows(session, storage.StudyRound, rows)
    about = {"study": study.name, "rounds": study.rounds}
    by.record(session, "study added", detector.name, **about)
    return study, True


def _check_same(session: Session, stored: storage.Study, new: NewStudy) -> None:
    said = ("kind", "version", "note")
    other = [name for name in said if getattr(stored, name) != getattr(new, name)]
    sent = [tuple(getattr(one, name) for name in ROUND_FIELDS) for one in new.rounds]
    if not other and sent != list(map(tuple, storage.list_rounds(session, stored))):
        other = ["rounds"]
    if other:
        raise errors.ConflictError(
            f"there is a study named {show(new.name)} already, with other {other[0]}; "
            "a study is never changed: choose another name"
        )


def get_study(session: Session, reference: str) -> storage.Study:
    return get_by_id(session, storage.Study, "stu", "study", reference)


_Rounds = npt.NDArray[np.float64]


# By name: the fields that a method needs, how these give the accuracy of each round,
# how they give the interval, before the confidence level, and what it means.
_METHODS: dict[
    str,
    tuple[tuple[str, ...], Callable[..., _Rounds], Callable[..., stats.Interval], str],
] = {
    "bootstrap-t": (
        ("validation",),
        np.asarray,
        stats.bootstrap_t,
        "An approximation that covers what one more training on a draw of the same "
        "data may give, as if rounds followed a bell curve; it does not cover what "
        "other data would give, because all rounds share theirs.",
    ),
    "percentile": (
        ("validation",),
        np.asarray,
        stats.bootstrap_percentile,
        "An approximation that covers the middle of the rounds just as they came; it "
        "does not cover what other data would give, nor that a round trains on only "
        "63.2 % of its data and so does a little too badly.",
    ),
    "632": (
        ("validation", "training"),
        stats.corrected_632,
        stats.point_632,
        "An approximation that covers the middle of the rounds, with a part of the "
        "training accuracy added for what a round did not train on; it does not "
        "cover overfitting, which makes it too hopeful, nor what other data would "
        "give.",
    ),
    "632+": (
        ("validation", "training", "no_information"),
        stats.corrected_632_plus,
        stats.point_632_plus,
        "An approximation that covers the middle of the rounds, with less of the "
        "training accuracy added the more a round overfitted; it does not cover what "
        "other data would give, because all rounds share theirs.",
    ),
    "seeds-t": (
        ("accuracy",),
        np.asarray,
        stats.seeds_t,
        "An approximation that covers the luck of the random seed in the mean over "
        "all seeds; it does not cover the luck of the training data or of the test "
        "set, nor what a single seed may give.",
    ),
}


class StudyInterval(shapes.Shape):
    """The mean accuracy of the rounds by one method, and its interval."""

    method: Annotated[str, words.one_of(_METHODS)] = Field(
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
    # The rounds by field.
    _columns: dict[str, _Rounds] = PrivateAttr(default_factory=dict)

    @property
    def columns(self) -> Mapping[str, _Rounds]:
        return self._columns

    @property
    def measured(self) -> _Rounds:
        return self._columns[KINDS[self.kind][0]]


def build_study_report(
    session: Session, study: storage.Study, *, confidence_level: float | None = None
) -> StudyReport:
    """Return what *study* says, at the confidence level of its detector by default.

    Raises InvalidInputError unless the level lies between 0 and 1.
    """
    detector = session.get_one(Detector, study.detector_id)
    level = detector.confidence_level if confidence_level is None else confidence_level
    if not 0 < level < 1:
        raise invalid(
            "confidence_level", level, "it must lie between 0 and 1, such as 0.95"
        )
    given = zip(*storage.list_rounds(session, study), strict=True)
    columns = {
        name: np.array(column, dtype=np.float64)
        for name, column in zip(ROUND_FIELDS, given, strict=True)
        if column[0] is not None
    }
    intervals = []
    for name, (needs, correct, bound, meaning) in _METHODS.items():
        if columns.keys() >= set(needs):
            rounds = [columns[one] for one in needs]
            low, high = bound(*rounds, level)
            interval = StudyInterval(
                method=name,
                accuracy=float(correct(*rounds).mean()),
                low=float(low),
                high=float(high),
                is_guaranteed=False,
                meaning=meaning,
            )
            intervals.append(interval)
    said = dict(describe_study(study))
    report = StudyReport(**said, confidence_level=level, intervals=intervals)
    report._columns = columns
    return report


def list_study_rows(session: Session, study: storage.Study) -> list[dict[str, Any]]:
    rows = storage.list_rounds(session, study)
    named = (dict(zip(ROUND_FIELDS, row, strict=True)) for row in rows)
    return [{name: x for name, x in row.items() if x is not None} for row in named]
