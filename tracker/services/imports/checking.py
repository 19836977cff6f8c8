"""The rows of an import: what each may hold, and reading many of them quickly."""

from collections import Counter
from collections.abc import (
    Callable,
    Container,
    Iterable,
    Iterator,
    Mapping,
    Sequence,
    Set,
)
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import Any

from pydantic import TypeAdapter, ValidationError

from tracker.errors import FieldError, InvalidInputError
from tracker.services import fields
from tracker.services.detectors import check_class, check_prediction
from tracker.services.imports.reading.mapping import MappedPiece
from tracker.services.imports.reading.rows import JUDGE, ImportRow, Row, read_given
from tracker.services.imports.reports import Outcome
from tracker.services.wording import describe_errors
from tracker.storage.detectors import Detector
from tracker.storage.estimates.pending import BATCH_LIMIT
from tracker.words import ANSWER, NO_ANSWER, SAMPLINGS, UNCLEAR

# What can be done about a value that is no class.
_WAYS = {
    "predicted": "; if it stands for one, add --class VALUE=CLASS, and if it is none, "
    "--no-answer VALUE",
    "label": "; if it stands for one, add --class VALUE=CLASS",
}
_LONGEST_NAME = 200


@dataclass(frozen=True, slots=True)
class Columns:
    """Rows that are valid by themselves, by column, with None for empty cells.

    Each has its number in the file.  A column in which no row says anything is left
    out.
    """

    numbers: Sequence[int]
    values: Mapping[str, list[Any]]

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Columns":
        names = dict.fromkeys(name for row in rows for name in row.values)
        values = {name: [row.values.get(name) for row in rows] for name in names}
        return cls([row.number for row in rows], values)

    def __len__(self) -> int:
        return len(self.numbers)

    def pick(self, kept: Sequence[bool]) -> "Columns":
        """Return the rows that are *kept*; itself where all are."""
        if all(kept):
            return self
        values = {name: list(compress(one, kept)) for name, one in self.values.items()}
        filled = {
            name: one for name, one in values.items() if one.count(None) < len(one)
        }
        return Columns(list(compress(self.numbers, kept)), filled)

    def get(self, name: str, default: object = None) -> list[Any]:
        """Return a column, with *default* where a row says nothing."""
        values = self.values.get(name)
        if values is None:
            return [default] * len(self)
        if default is None or None not in values:
            return values
        return [default if value is None else value for value in values]

    def brings_queries(self) -> bool:
        return None not in self.values.get("predicted", [None])

    def are_complete(self) -> bool:
        """Return whether each row says what it must."""
        if self.brings_queries():
            return True
        if any(name.startswith(JUDGE) for name in self.values):
            return False
        needed = map(self.get, ("predicted", "key", "label", "input"))
        return len(self) > 0 and all(
            predicted is not None
            or (name is not None and (label is not None or key is not None))
            or (key is not None and label is not None)
            for predicted, key, label, name in zip(*needed, strict=True)
        )

    def rows(self) -> list[Row]:
        """Return them row by row."""
        lines = zip(*self.values.values(), strict=True)
        named = (zip(self.values, line, strict=True) for line in lines)
        return [
            Row(number, {name: one for name, one in cells if one is not None})
            for number, cells in zip(self.numbers, named, strict=True)
        ]


class RowReader:
    """Reads many rows at once as ``ImportRow`` reads one, in a fraction of the time.

    A column whose values are right beyond doubt is taken as it stands: classes of
    the detector, known versions, short printable keys.  If anything is in doubt, the
    rows are put to the model one by one; it alone decides, and says what is wrong.
    """

    def __init__(
        self, detector: Detector, versions: Iterable[str], report: Outcome
    ) -> None:
        self._detector = detector
        self._report = report
        self._classes = frozenset(detector.classes)
        self._versions = set(versions)
        self._readers: dict[str, Callable[[list[Any]], list[Any]]] = {
            "key": _read_names,
            "input": _read_names,
            "group": _read_names,
            "predicted": _choice(self._classes | {NO_ANSWER}),
            JUDGE: _choice(self._classes),
            "confidence": _read_probabilities,
            "version": _choice(self._versions),
            "asked_at": fields.parse_instants,
            "image": _read_names,
            "label": _choice(self._classes | {UNCLEAR}),
            "sampling": _choice(frozenset(SAMPLINGS)),
            "labelled_at": fields.parse_instants,
        } | _BY_MODEL

    def read(self, piece: MappedPiece) -> Columns:
        """Return the rows that are valid by themselves; note the errors of others."""
        try:
            columns = self._read_columns(piece)
        except (LookupError, TypeError, ValueError):
            rows = piece.rows()
            self._report.rows += len(rows)
            kept = [row for row in rows if not _is_left_out(row, piece)]
            if left_out := len(rows) - len(kept):
                nothing = "label", "nothing", "no label; left out"
                self._report.note_values(Counter({nothing: left_out}))
            read = map(self._read_row, kept)
            return Columns.of([row for row in read if row is not None])
        self._report.rows += len(columns)
        return columns

    def _read_columns(self, piece: MappedPiece) -> Columns:
        """Return the rows if all are right beyond doubt, else raise an error."""
        if self._detector.label_of == ANSWER:
            raise ValueError("a row has to be looked at by itself")
        columns: dict[str, list[Any]] = {}
        for name, values in piece.columns().items():
            is_judge = name.startswith(JUDGE)
            read = self._readers[JUDGE if is_judge else name]
            if values.count(None) < len(values):
                columns[name] = read_given(values, read)
        is_odd = "weight" in columns and not columns.keys() >= {"predicted", "label"}
        end = piece.first + len(next(iter(columns.values()), ()))
        found = Columns(range(piece.first, end), columns)
        if is_odd or not found.are_complete() or end > BATCH_LIMIT:
            raise ValueError("a row has to be looked at by itself")
        return found

    def _read_row(self, row: Row) -> Row | None:
        item: dict[str, Any] = {}
        errors = list(row.errors)
        # Where not even the cells could be told apart, there is nothing to look at.
        if row.values or not errors:
            try:
                given = row.values.items()
                verdicts = {name: one for name, one in given if name.startswith(JUDGE)}
                said = {name: one for name, one in given if name not in verdicts}
                read = ImportRow.model_validate(said)
                item = {name: one for name, one in read if one is not None} | verdicts
            except ValidationError as error:
                errors += describe_errors(error)
            errors += self._check(row, {error.field for error in errors})
        if errors:
            self._report.add_error(row.number, errors)
            return None
        if "version" in item:
            self._versions.add(item["version"])
        return row._replace(values=item)

    def _check(self, row: Row, wrong: Set[str]) -> Iterator[FieldError]:
        if row.number >= BATCH_LIMIT:
            yield FieldError("row", f"at most {BATCH_LIMIT - 1:,} in one import")
        given = {name: value for name, value in row.values.items() if value is not None}
        if not _is_complete(wrong | set(given)):
            yield FieldError(
                "predicted",
                "is required; or label and input, or key and label or input for a "
                "query known already",
            )
        verdicts = [name for name in given if name.startswith(JUDGE)]
        if is_reference({*wrong, *given}):
            of_answers = [*verdicts[:1], *({"weight"} & given.keys())]
            yield from (FieldError(one, "needs predicted or key") for one in of_answers)
            is_of_answer = self._detector.label_of == ANSWER
            message = "is required: a label judges an answer here, and not an input"
            yield from [FieldError("key", message)] * is_of_answer
        for field in ("predicted", "label", *verdicts):
            if field in wrong or field not in given:
                continue
            check: Any = check_prediction
            if field != "predicted":
                check = partial(check_class, may_be_unclear=field == "label")
            try:
                check(self._detector, given[field], field=field)
            except InvalidInputError as error:
                for one in error.errors:
                    way = _WAYS.get(field, _WAYS["label"])
                    yield FieldError(one.field, one.message + way)


def _is_left_out(row: Row, piece: MappedPiece) -> bool:
    """Whether a row of a file of labels has none, and says nothing else."""
    if piece.is_strict or row.errors or "predicted" in piece.names:
        return False
    given = {name for name, value in row.values.items() if value is not None}
    return "label" in piece.names and "label" not in given and not _is_complete(given)


def _is_complete(names: Set[str]) -> bool:
    if "key" in names and any(name.startswith(JUDGE) for name in names):
        return True
    return "predicted" in names or len(names & {"key", "label", "input"}) > 1


def is_reference(item: Container[str]) -> bool:
    return "predicted" not in item and "key" not in item


def _sure(values: list[Any], *, when: bool) -> list[Any]:
    if not when:
        raise ValueError
    return values


def _choice(known: Set[str]) -> Callable[[list[Any]], list[Any]]:
    return lambda values: _sure(values, when=known >= set(values))


def _by_model(kind: Any) -> Callable[[list[Any]], list[Any]]:
    adapter: TypeAdapter[Any] = TypeAdapter(kind, config=ImportRow.model_config)
    return lambda values: list(map(adapter.validate_python, values))


def _read_names(values: list[Any]) -> list[Any]:
    # Of all that is printable, only the plain space is white.
    return _sure(
        values,
        when=set(map(type, values)) == {str}
        and all(values)
        and all(map(str.isprintable, values))
        and max(map(len, values)) <= _LONGEST_NAME
        and values == list(map(str.strip, values)),
    )


def _read_probabilities(values: list[Any]) -> list[Any]:
    is_right = set(map(type, values)) == {float} and all(
        0 <= one <= 1 for one in values
    )
    _sure(values, when=is_right)
    # As the model does: no zero keeps a sign.
    return [value + 0.0 for value in values]


_BY_MODEL = {
    "metadata": _by_model(fields.Metadata),
    "image_url": _by_model(fields.ImageUrl),
    "note": _by_model(fields.Note),
    "labeler": _by_model(fields.KeyName),
    "weight": _by_model(fields.Weight),
}
