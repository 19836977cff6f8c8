"""What an import did, and what was wrong with it."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from tracker.errors import FieldError, InvalidInputError

_MOST_ERRORS = 1_000


@dataclass(frozen=True, slots=True)
class RowError(FieldError):
    """One thing wrong with one row, counted from 1 without a header."""

    row: int


class RejectedImportError(InvalidInputError):
    """Rows are wrong, and nothing was written."""

    def __init__(self, report: "ImportReport") -> None:
        """Carry the errors of *report*."""
        super().__init__(report.errors)
        self.report = report
        # A thousand errors in one line would say nothing.
        self.args = (
            f"{report.bad_rows:,} of {report.rows:,} rows are wrong; nothing written",
        )


@dataclass(slots=True)
class ImportReport:
    """What an import did."""

    rows: int = 0
    queries_added: int = 0
    labels_added: int = 0
    unchanged: int = 0
    bad_rows: int = 0
    errors: list[RowError] = field(default_factory=list)

    @property
    def has_changed(self) -> bool:
        """Whether anything was added."""
        return bool(self.queries_added or self.labels_added)

    @property
    def counts(self) -> dict[str, Any]:
        """How much it was, for the audit log."""
        return {
            "rows": self.rows,
            "queries_added": self.queries_added,
            "labels_added": self.labels_added,
        }

    def add_error(self, row: int, errors: Iterable[FieldError]) -> None:
        """Count a bad row and keep what is wrong with it, up to a thousand."""
        self.bad_rows += 1
        for error in errors:
            if len(self.errors) < _MOST_ERRORS:
                self.errors.append(RowError(error.field, error.message, row))
