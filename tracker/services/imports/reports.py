"""The result of an import, and the errors of its rows."""

import operator
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import asdict, replace
from typing import Any

from pydantic import ConfigDict, Field, PrivateAttr

from tracker.errors import FieldError, InvalidInputError, RowError
from tracker.services.wording import show
from tracker.shapes import Shape
from tracker.storage.base import dump_id

_MOST_ERRORS = 1_000
_MOST_READINGS = 1_000
# How many rows are named beside the first ones of each mistake.
_MOST_PLACES = 10_000
# How many of the values are named that are wrong in the same way.
_MOST_VALUES = 5
_WRONG = " is not right: "
_QUOTED = re.compile(r"'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"")

# What was read as what in how many rows: field, value, meaning.
Noted = Counter[tuple[str, str, str]]


class RejectedImportError(InvalidInputError):
    """Rows are wrong, and nothing was written."""

    def __init__(self, report: "Outcome") -> None:
        super().__init__(report.errors)
        self.report = report
        # A thousand errors in one line would say nothing.
        self.args = (
            f"{report.bad_rows:,} of {report.rows:,} rows are wrong; "
            "nothing was written",
        )


def _cause_of(message: str) -> tuple[str, str]:
    value, sign, cause = message.partition(_WRONG)
    if sign:
        return value, cause
    return "", _QUOTED.sub("'…'", message)


def _say(error: RowError) -> str:
    """Return the message of an error with the values that are wrong in this way."""
    value, cause = _cause_of(error.message)
    if not value or len(error.values) < 2:
        return error.message
    more = " …" if len(error.values) == _MOST_VALUES else ""
    return f"{', '.join(error.values)}{more}{_WRONG}{cause}"


def say_error(error: RowError) -> str:
    more = f" and {error.rows - 1:,} more" if error.rows > 1 else ""
    return f"row {error.row}{more}, {error.field}: {error.message}"


_SELDOM_ADDED = ("references_added", "verdicts_added")
_ADDED = ("queries_added", "labels_added", "inputs_added", *_SELDOM_ADDED)
_SUMMED = (*_ADDED, "unchanged", "bad_rows", "conflicts")


def _if_any(description: str, factory: Any = None) -> Any:
    default: Any = {"default": 0} if factory is None else {"default_factory": factory}
    return Field(description=description, exclude_if=operator.not_, **default)


class RowProblem(Shape):
    """One error in one row of an import."""

    row: int = Field(description="Counted from 1, without a header.")
    field: str
    message: str
    rows: int = Field(
        default=1,
        description="The number of rows with this error, if more than one.",
        exclude_if=lambda rows: rows == 1,
    )
    also: list[int] = _if_any("The other rows, at most 10,000 in one report.", list)


class ReadValue(Shape):
    """A value that was converted."""

    field: str
    value: str = Field(description="The value as the file has it, or its kind.")
    read_as: str
    rows: int = Field(description="The number of rows.")


def _taken_back(what: str) -> Any:
    return _if_any(f"{what} when the import was undone.")


class ImportReport(Shape):
    """The result of an import."""

    id: str | None = Field(
        default=None,
        description="imp_ and a number, by which it can be undone; null if it added "
        "nothing, or in the report of GET /imports/{id}.",
        exclude_if=lambda value: value is None,
    )
    queries_added: int
    labels_added: int
    references_added: int = Field(
        default=0,
        description="Labels of inputs that no query has yet: predictions that come "
        "later for these inputs take them over.",
    )
    verdicts_added: int = _if_any(
        "Verdicts of judges, from columns named judge:NAME, that are new."
    )
    unchanged: int
    inputs_added: int = _if_any("Known queries that had no input and were given one.")
    queries_taken_back: int = _taken_back("Queries")
    labels_taken_back: int = _taken_back("Labels, with those passed on by input,")
    references_taken_back: int = _taken_back("References")
    verdicts_taken_back: int = _taken_back("Verdicts of judges")
    kept: int = _taken_back(
        "Queries left as they are, since later labels or audits rest on them,"
    )
    bad_rows: int = Field(description="The number of rows that were skipped.")
    conflicts: int = _if_any(
        "Those of the skipped rows that were right when the file was checked; others "
        "wrote the same keys while it was written."
    )
    errors: list[RowProblem] = Field(
        description="The errors of the skipped rows, at most 1,000."
    )
    columns: dict[str, str] = _if_any(
        "By field: the columns whose name differs from the field.", dict
    )
    values: list[ReadValue] = _if_any(
        "Values that were converted, at most 1,000.", list
    )
    notes: list[str] = _if_any("Further notes on how the file was read.", list)
    warnings: list[str] = _if_any(
        "What may make the figures wrong, such as a column that looks like the truth "
        "and was not read.",
        list,
    )


class Outcome(ImportReport):
    """The result of an import while it is made, and as it is stored."""

    model_config = ConfigDict(frozen=False)

    rows: int = 0
    queries_added: int = 0
    labels_added: int = 0
    unchanged: int = 0
    bad_rows: int = 0
    errors: list[RowError] = Field(default_factory=list)  # type: ignore[assignment]
    values: list[list[Any]] = Field(default_factory=list)  # type: ignore[assignment]
    import_id: int | None = None
    _places: dict[tuple[str, str], int] = PrivateAttr(default_factory=dict)
    _named: int = 0
    _noted: Noted = PrivateAttr(default_factory=Counter)

    @property
    def has_changed(self) -> bool:
        return any(getattr(self, name) for name in _ADDED)

    @property
    def counts(self) -> dict[str, Any]:
        always = "rows", "queries_added", "labels_added"
        counts = {name: getattr(self, name) for name in (*always, *_SELDOM_ADDED)}
        return {name: one for name, one in counts.items() if one or name in always}

    def add_error(self, row: int, errors: Iterable[FieldError]) -> None:
        """Count a bad row and keep what is wrong with it, up to a thousand things.

        What is wrong with several rows for the same cause is kept once.
        """
        self.bad_rows += 1
        places = self._places
        for error in errors:
            value, cause = _cause_of(error.message)
            place = places.get((error.field, cause))
            if place is not None:
                known = self.errors[place]
                self.errors[place] = replace(known, rows=known.rows + 1)
                if value and len(known.values) < _MOST_VALUES:
                    known.values.setdefault(value)
                if self._named < _MOST_PLACES:
                    self._named += 1
                    known.also.append(row)
            elif len(self.errors) < _MOST_ERRORS:
                places[error.field, cause] = len(self.errors)
                values = {value: None} if value else {}
                self.errors.append(
                    RowError(error.field, error.message, row, values=values)
                )

    def after(self, written: "Outcome") -> "Outcome":
        """Return what came of the rows that this one checked, of which *written* were.

        All errors are in it, in the order of their rows.
        """
        read = {n: getattr(self, n) for n in ("columns", "values", "notes", "warnings")}
        found = self.plus(written, rows=self.rows).model_copy(update=read)
        found.put_in_order()
        return found

    def plus(self, written: "Outcome", *, rows: int) -> "Outcome":
        """Return the sum of what was written before and in another piece of *rows*."""
        sums = {n: getattr(self, n) + getattr(written, n) for n in _SUMMED}
        errors = [*self.errors, *written.errors][:_MOST_ERRORS]
        more = {**sums, "rows": rows, "errors": errors}
        return written.model_copy(update=more)

    def put_in_order(self) -> None:
        """Order the errors by row: each piece is read whole before it is compared."""
        ordered = []
        for error in self.errors:
            first, *also = sorted([error.row, *error.also])
            message = _say(error)
            ordered.append(replace(error, row=first, also=also, message=message))
        self.errors = sorted(ordered, key=operator.attrgetter("row"))
        self._places = {
            (error.field, _cause_of(error.message)[1]): place
            for place, error in enumerate(self.errors)
        }

    def note_values(self, noted: Noted) -> None:
        for reading, rows in noted.items():
            if reading in self._noted or len(self._noted) < _MOST_READINGS:
                self._noted[reading] += rows

    def note_file(
        self,
        columns: Mapping[str, str],
        notes: Iterable[str],
        warnings: Iterable[str] = (),
    ) -> None:
        """Say how the file was read, at its end."""
        self.columns = dict(columns)
        self.warnings = list(warnings)
        self.notes = list(notes)
        self.values = [[*reading, rows] for reading, rows in self._noted.items()]


def describe_outcome(outcome: Outcome) -> ImportReport:
    """Return what an import did as it is answered."""
    number = outcome.import_id
    id_ = None if number is None else dump_id("imp", number)
    errors = [RowProblem.from_row(error) for error in outcome.errors]
    values = [
        ReadValue(field=name, value=value, read_as=meaning, rows=rows)
        for name, value, meaning, rows in outcome.values
    ]
    return ImportReport.from_row(outcome, errors=errors, values=values, id=id_)


def pack_report(report: Outcome) -> dict[str, Any]:
    packed = {name: value for name, value in report if name != "id"}
    return packed | {"errors": list(map(asdict, report.errors))}


def say_readings(outcome: Outcome) -> list[str]:
    """Return in words how a file was read, where it was not as it stands."""
    return [
        *(f"the column {show(c)} as {name}" for name, c in outcome.columns.items()),
        *(
            f"{name} `{value}` as {meaning}, {rows:,} {'row' if rows == 1 else 'rows'}"
            for name, value, meaning, rows in outcome.values
        ),
        *outcome.notes,
    ]
