"""Resampling studies: their rounds read, checked, and added once."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from typing import Any, BinaryIO, Literal

from pydantic import Field
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, FieldError, InvalidInputError
from tracker.services.by import By
from tracker.services.fields import (
    Input,
    Instant,
    Note,
    Probability,
    StudyName,
    VersionName,
    parse_input,
)
from tracker.services.imports.reading.csv_rows import CsvRows, with_number
from tracker.services.imports.reading.files import iter_parquet
from tracker.services.imports.reading.rows import Row, iter_json, iter_jsonl
from tracker.services.imports.reports import RowError
from tracker.services.wording import missing, show
from tracker.shapes import Shape
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import Detector
from tracker.storage.labelling import studies as storage

ROUND_FIELDS = ("accuracy", "validation", "training", "no_information")
# What a round of each kind may hold; the first one it must.
KINDS = {
    "bootstrap": ("validation", "training", "no_information"),
    "seeds": ("accuracy",),
}
MOST_ROUNDS = 100_000
_MOST_ERRORS = 100
_FIELD_OF_ROUND = re.compile(r"rounds\.(\d+)\.?(.*)", re.DOTALL)

Kind = Literal["bootstrap", "seeds"]


class NewRound(Input):
    """The accuracies of one training; all rounds of a study have the same fields."""

    accuracy: Probability | None = Field(
        default=None,
        description="The accuracy of a random seed, on the same test set as "
        "the others.",
    )
    validation: Probability | None = Field(
        default=None,
        description="The accuracy of a bootstrap round on the data it did not "
        "train on.",
    )
    training: Probability | None = Field(
        default=None,
        description="The accuracy of that round on the whole training set.",
    )
    no_information: Probability | None = Field(
        default=None,
        description="The accuracy of that round if predictions and labels were "
        "paired at random.",
    )


class NewStudy(Input):
    """A resampling study to be added: an experiment that trained many times."""

    name: StudyName = Field(description="Unique among the studies of the detector.")
    kind: Kind = Field(
        description="bootstrap: rounds have validation, and training and "
        "no_information if known; seeds: rounds have accuracy."
    )
    version: VersionName | None = Field(
        default=None,
        description="The version that was studied; it need not have queries yet.",
    )
    note: Note | None = Field(
        default=None, description="A note on how the study was done."
    )
    rounds: list[NewRound] = Field(min_length=2, max_length=MOST_ROUNDS)


def parse_study(values: Mapping[str, Any]) -> NewStudy:
    """Return *values* as a study.

    Raises InvalidInputError that names the fields, and of a round its row too,
    counted from 1.
    """
    rounds = values.get("rounds")
    if isinstance(rounds, list) and not 2 <= len(rounds) <= MOST_ROUNDS:
        # Here, because what is wrong is their number and not what they are.
        raise InvalidInputError.of(
            "rounds",
            f"there are {len(rounds):,}; a study has from 2 to {MOST_ROUNDS:,}",
        )
    try:
        new = parse_input(NewStudy, values)
    except InvalidInputError as error:
        raise InvalidInputError(map(_with_row, error.errors)) from error
    if wrong := list(islice(_compare_rounds(new), _MOST_ERRORS)):
        raise InvalidInputError(wrong)
    return new


def _with_row(error: FieldError) -> FieldError:
    found = _FIELD_OF_ROUND.fullmatch(error.field)
    if found is None:
        return error
    return RowError(found[2] or "row", error.message, int(found[1]) + 1)


def _compare_rounds(new: NewStudy) -> Iterator[RowError]:
    """Yield what is wrong with rounds that are right in themselves."""
    known = KINDS[new.kind]
    first = _given(new.rounds[0])
    for row, one in enumerate(new.rounds, start=1):
        given = _given(one)
        if unknown := [name for name in given if name not in known]:
            message = (
                f"does not belong to kind {new.kind}, whose rounds have "
                f"{', '.join(known)}"
            )
            yield RowError(unknown[0], message, row)
        elif known[0] not in given:
            yield RowError(known[0], f"is required in kind {new.kind}", row)
        elif missing := [name for name in first if name not in given]:
            message = "is missing, and row 1 has it; all rounds have the same fields"
            yield RowError(missing[0], message, row)
        elif given != first:
            name = next(name for name in given if name not in first)
            message = "is given, and row 1 lacks it; all rounds have the same fields"
            yield RowError(name, message, row)


def _given(one: NewRound) -> tuple[str, ...]:
    return tuple(name for name in ROUND_FIELDS if getattr(one, name) is not None)


def _iter_csv(stream: BinaryIO) -> Iterator[Row]:
    for row in CsvRows(stream, fields=ROUND_FIELDS):
        read = row
        for name in row.values:
            read = with_number(read, name)
        yield read


# How a file of rounds is read, by the end of its name.
READERS: dict[str, Callable[[BinaryIO], Iterable[Row]]] = {
    ".csv": _iter_csv,
    ".tsv": _iter_csv,
    ".txt": _iter_csv,
    ".jsonl": iter_jsonl,
    ".ndjson": iter_jsonl,
    ".json": iter_json,
    ".parquet": partial(iter_parquet, fields=ROUND_FIELDS),
}


def read_rounds(stream: BinaryIO, suffix: str) -> list[dict[str, Any]]:
    """Return the rounds in a file whose name ends in *suffix*, unchecked.

    Raises InvalidInputError for an unknown suffix, and for rows that are no rows.
    """
    reader = READERS.get(suffix.lower())
    if reader is None:
        raise InvalidInputError.of("file", f"its name must end in {', '.join(READERS)}")
    # One more than there may be: that is enough to see that they are too many.
    rows = list(islice(reader(stream), MOST_ROUNDS + 1))
    wrong = (
        RowError(error.field, error.message, row.number)
        for row in rows
        for error in row.errors
    )
    if errors := list(islice(wrong, _MOST_ERRORS)):
        raise InvalidInputError(errors)
    return [row.values for row in rows]


class Study(Shape):
    """A resampling study: an experiment that trained a detector many times."""

    id: str = Field(description="stu_ and a number.")
    detector: str = Field(description="The id of the detector.")
    name: str
    kind: Kind = Field(description="bootstrap or seeds.")
    version: str | None
    note: str | None
    rounds: int = Field(description="The number of rounds.")
    added_by: str
    created_at: Instant


def describe_study(study: storage.Study) -> Study:
    """Return a study as it is answered."""
    ids = {
        "id": dump_id("stu", study.id),
        "detector": dump_id("det", study.detector_id),
    }
    return Study.from_row(study, **ids)


def add_study(
    session: Session, detector: Detector, new: NewStudy, by: By
) -> tuple[storage.Study, bool]:
    """Add a study, and return it with whether it is new.

    The same again is the stored one; raises ConflictError if its name is taken by
    another.  Should another request bring the name at the same time, the
    constraint decides, and this one is tried again as a whole.
    """
    stored = storage.find_study_by_name(session, detector.id, new.name)
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
    storage.add_rounds(
        session,
        [
            {"study_id": study.id, "number": number, **dict(one)}
            for number, one in enumerate(new.rounds, start=1)
        ],
    )
    by.record(
        session, "study added", detector.name, study=study.name, rounds=study.rounds
    )
    return study, True


def _check_same(session: Session, stored: storage.Study, new: NewStudy) -> None:
    other = next(
        (
            field
            for field in ("kind", "version", "note")
            if getattr(stored, field) != getattr(new, field)
        ),
        None,
    )
    sent = [tuple(getattr(one, name) for name in ROUND_FIELDS) for one in new.rounds]
    if other is None and sent != list(
        map(tuple, storage.list_rounds(session, stored.id))
    ):
        other = "rounds"
    if other is not None:
        raise ConflictError(
            f"there is a study named {show(new.name)} already, with other {other}; "
            "a study is never changed: choose another name"
        )


def get_study(session: Session, reference: str) -> storage.Study:
    """Return the study of that id; raises NotFoundError."""
    study_id = parse_id("stu", reference)
    study = None if study_id is None else storage.find_study(session, study_id)
    if study is None:
        raise missing("study", reference)
    return study
