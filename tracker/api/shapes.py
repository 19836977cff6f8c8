"""The shapes of the API's pages and errors."""

from typing import Generic, TypeVar

from pydantic import Field

from tracker.services.detectors import Detector
from tracker.services.estimates.history import HistoryRow, LabelRow
from tracker.services.fields import Address
from tracker.services.imports.background import Import
from tracker.services.labelling.labels import Label
from tracker.services.labelling.studies import NewRound, Study
from tracker.services.queries.queries import Query
from tracker.shapes import Shape

Item = TypeVar("Item")


class ListPage(Shape, Generic[Item]):
    """A page of a list."""

    items: list[Item]
    next: Address | None = Field(description="The address of the page after this one.")


class DetectorPage(ListPage[Detector]):
    """A page of detectors, oldest first."""


class QueryPage(ListPage[Query]):
    """A page of queries, newest first unless sorted otherwise."""

    total: int = Field(description="The number of matching queries on all pages.")


class LabelPage(ListPage[Label]):
    """A page of the labels of one query, the current one first."""


class HistoryPage(ListPage[HistoryRow]):
    """Rows of the history in order; a snapshot is never split between pages."""


class LabelFile(Shape):
    """Every label of a detector with its query, oldest first."""

    items: list[LabelRow]
    next: None = Field(description="Always null: all labels are in this one file.")


class RoundFile(Shape):
    """Every round of a study, in order."""

    items: list[NewRound]
    next: None = Field(description="Always null: all rounds are in this one file.")


class ImportPage(ListPage[Import]):
    """A page of imports, newest first."""


class StudyPage(ListPage[Study]):
    """A page of studies, newest first."""


class FieldProblem(Shape):
    """One error in the input."""

    row: int = Field(
        default=0, description="The number of the row or item, counted from 1."
    )
    field: str
    message: str = Field(description="The value received, and what would be right.")
    rows: int = Field(
        default=1, description="The number of rows with this error, if more than one."
    )
    also: list[int] = Field(
        default=[], description="The other rows, at most 10,000 in all."
    )


class Problem(Shape):
    """A problem document (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    errors: list[FieldProblem] = Field(default=[], description="The invalid fields.")
