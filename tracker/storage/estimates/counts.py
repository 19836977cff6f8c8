"""Running confusion counts, kept by the job."""

from collections.abc import Collection, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    ForeignKey,
    Select,
    bindparam,
    func,
    select,
)
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId, Name, on_postgresql, stream
from tracker.storage.detectors import Version
from tracker.storage.dialect import upsert
from tracker.storage.estimates.pending import (
    Pending,
    PendingBatch,
    batch_of,
    belongs_to,
    ends_of,
    lies_among,
    list_pending_batches,
)
from tracker.storage.labelling.labels import (
    CountedLabel,
    Label,
    is_of_query,
    is_replaced,
)
from tracker.storage.queries.queries import Query
from tracker.storage.queries.where import Condition
from tracker.words import TARGETED, UNCLEAR, UNSTATED

# What decides where the label of a query counts.
_COUNTED = (
    Query.version_id,
    Query.label,
    Query.predicted,
    Query.sampling,
    Query.is_repeat,
)


class Count(Base):
    """How many queries of a version have this label and this prediction."""

    __tablename__ = "counts"
    __table_args__ = (
        CheckConstraint("number >= 0", name="number"),
        {"sqlite_with_rowid": False},
    )

    version_id: Mapped[int] = mapped_column(ForeignKey(Version.id), primary_key=True)
    label: Mapped[str] = mapped_column(Name, primary_key=True)
    predicted: Mapped[str] = mapped_column(Name, primary_key=True)
    is_targeted: Mapped[bool] = mapped_column(primary_key=True)
    number: Mapped[int] = mapped_column(BigId)


class Cell(NamedTuple):
    """A cell of the confusion counts of one version."""

    label: str
    predicted: str
    is_targeted: bool

    @property
    def is_scored(self) -> bool:
        """Whether its labels count for accuracy."""
        return self.label != UNCLEAR and not self.is_targeted


def read_change(row: CountedLabel) -> tuple[Cell | None, Cell | None]:
    """Return the cells that a label counts in and that it takes a label from.

    None for a repeat, which counts in none, and for the label before the first one.
    """
    new = old = None
    if not row.is_repeat:
        new = Cell(row.label, row.predicted, row.sampling == TARGETED)
    if row.old_label is not None and not row.old_is_repeat:
        old = Cell(row.old_label, row.predicted, row.old_sampling == TARGETED)
    return new, old


def changes_scored(new: Cell | None, old: Cell | None) -> bool:
    """Return whether a label that moves from *old* to *new* changes an accuracy."""
    return new != old and (
        (new is not None and new.is_scored) or (old is not None and old.is_scored)
    )


# Built once: every estimate begins with this.
_OF_VERSIONS = select(Count).where(
    Count.version_id.in_(bindparam("ids", expanding=True))
)


def load_counts(
    session: Session, version_ids: Iterable[int]
) -> dict[int, dict[Cell, int]]:
    """Return the stored counts of each version."""
    counts: dict[int, dict[Cell, int]] = {version_id: {} for version_id in version_ids}
    for row in session.scalars(_OF_VERSIONS, {"ids": tuple(counts)}):
        cell = Cell(row.label, row.predicted, row.is_targeted)
        counts[row.version_id][cell] = row.number
    return counts


def store_counts(session: Session, counts: Mapping[int, Mapping[Cell, int]]) -> None:
    """Set the stored counts of some cells by version, and leave the others."""
    rows = [
        {"version_id": version_id, **cell._asdict(), "number": cells[cell]}
        for version_id, cells in sorted(counts.items())
        for cell in sorted(cells)
    ]
    upsert(session, Count, rows)


@dataclass(slots=True)
class VersionCounts:
    """What was counted of a version, or what waiting labels change in that."""

    cells: dict[Cell, int] = field(default_factory=dict)
    # Scored labels of which nobody said why their query was chosen.
    unstated: int = 0
    # Labelled queries that repeat an input; they are in no cell.
    repeats: int = 0
    corrections: int = 0
    last_label_at: datetime | None = None

    @property
    def scored(self) -> int:
        """How many labels count for accuracy."""
        return sum(number for cell, number in self.cells.items() if cell.is_scored)

    def add(
        self, label: str, predicted: str, sampling: str, is_repeat: bool, number: int
    ) -> None:
        """Count so many labels more of one kind."""
        if is_repeat:
            self.repeats += number
            return
        cell = Cell(label, predicted, sampling == TARGETED)
        self.cells[cell] = self.cells.get(cell, 0) + number
        self.unstated += number * is_unstated(label, sampling)


def is_unstated(label: str, sampling: str | None) -> bool:
    """Return whether a label is scored though nobody said why it was given."""
    return sampling == UNSTATED and label != UNCLEAR


def count_pending_labels(
    session: Session,
    detector_ids: Collection[int],
    conditions: Iterable[ColumnElement[bool]] = (),
) -> dict[int, VersionCounts]:
    """Return what the labels of detectors that wait for the job change, by version.

    Or those of queries that meet all *conditions*.

    A label adds one to its cell and takes one from the cell of the label that it
    replaces; where that was of another class, it corrects it.  The database does the
    counting, because a file of a million labels may be waiting.
    """
    changes: dict[int, VersionCounts] = {}
    batches = list_pending_batches(session, detector_ids)
    if not batches:
        return changes
    for is_old in (False, True):
        shown = aliased(Label) if is_old else Label
        columns = (
            Query.version_id,
            shown.label,
            Query.predicted,
            shown.sampling,
            shown.is_repeat,
        )
        chosen = select(
            *columns,
            func.count(),
            func.count().filter(~Label.is_repeat, Label.label != shown.label),
            func.max(Label.created_at),
        )
        statement = _of_pending(chosen, Label, batches).join(Query, is_of_query())
        statement = statement.where(*conditions).group_by(*columns)
        if is_old:
            statement = statement.join(shown, is_replaced(shown))
        rows: Iterable[Any] = session.execute(statement)
        for version_id, label, predicted, sampling, is_repeat, *rest in rows:
            number, corrected, at = rest
            sign = -1 if is_old else 1
            found = changes.setdefault(version_id, VersionCounts())
            found.add(label, predicted, sampling, is_repeat, sign * number)
            found.corrections += corrected
            found.last_label_at = max(found.last_label_at or at, at)
    return changes


def list_scored(session: Session, detector_ids: Collection[int]) -> set[int]:
    """Return the versions with a scored label, be it folded in or waiting."""
    if not detector_ids:
        return set()
    waiting = count_pending_labels(session, detector_ids)
    stored = load_counts(session, waiting)
    found = {
        version_id
        for version_id, change in waiting.items()
        if any(
            cell.is_scored
            and stored[version_id].get(cell, 0) + change.cells.get(cell, 0) > 0
            for cell in {*stored[version_id], *change.cells}
        )
    }
    has_any = (
        select(Count.number)
        .where(Count.version_id == Version.id)
        .where(Count.label != UNCLEAR, ~Count.is_targeted, Count.number > 0)
        .exists()
    )
    statement = select(Version.id).where(
        Version.detector_id.in_(detector_ids), Version.id.not_in(waiting), has_any
    )
    return {*found, *session.scalars(statement)}


def count_pending_queries(session: Session, batches: Pending) -> dict[int, int]:
    """Count the queries of pending *batches* by version."""
    statement = _of_pending(select(Query.version_id, func.count()), Query, batches)
    return dict(session.execute(statement.group_by(Query.version_id)).all())


def count_pending_rows(session: Session, batches: Pending) -> dict[int, int]:
    """Count the queries and labels of pending *batches* together by detector."""
    found = dict.fromkeys(batches, 0)
    for rows_of in (Query, Label):
        columns = select(PendingBatch.detector_id, func.count())
        statement = _of_pending(columns, rows_of, batches)
        rows: Any = session.execute(statement.group_by(PendingBatch.detector_id))
        for detector_id, number in rows:
            found[detector_id] += number
    return found


def _of_pending(
    columns: Select[*tuple[Any, ...]], rows_of: type[Query | Label], batches: Pending
) -> Select[*tuple[Any, ...]]:
    return (
        columns.select_from(PendingBatch)
        .join(rows_of, belongs_to(rows_of.id))
        .where(PendingBatch.detector_id.in_(batches))
        .where(on_postgresql(rows_of.detector_id.in_(batches)))
        .where(lies_among(rows_of.id, **ends_of(batches)))
    )


def iter_pending_metadata(session: Session, batches: Pending) -> Generator[Any]:
    """Stream version and metadata of the queries of pending *batches*, in order."""
    columns = select(Query.version_id, Query.details)
    statement = _of_pending(columns, Query, batches).order_by(Query.id)
    return stream(session, statement)


def iter_counted_metadata(session: Session, detector_id: int) -> Generator[Any]:
    """Stream version and metadata of the queries that no longer wait, in order."""
    pending = select(PendingBatch.id).where(PendingBatch.detector_id == detector_id)
    statement = (
        select(Query.version_id, Query.details)
        .where(Query.detector_id == detector_id)
        .where(batch_of(Query.id).not_in(pending))
        .order_by(Query.id)
    )
    return stream(session, statement)


def count_window(
    session: Session,
    detector_id: int,
    *,
    since: datetime | None,
    until: datetime | None,
    where: Sequence[Condition] = (),
) -> dict[int, VersionCounts]:
    """Count the labelled queries asked at or after *since* and before *until*.

    Of those the ones for which all of *where* holds.

    Without either it is the recount of everything that ``recompute --all`` holds
    against the running counts.
    """
    statement = (
        select(*_COUNTED, func.count())
        .where(Query.detector_id == detector_id, Query.label.is_not(None))
        .group_by(*_COUNTED)
    )
    if since is not None:
        statement = statement.where(Query.asked_at >= since)
    if until is not None:
        statement = statement.where(Query.asked_at < until)
    statement = statement.where(*(one.test(session) for one in where))
    return _add_up(session.execute(statement))


_Erased = aliased(Query)
# Built once: every list of labelled queries asks this.
_COUNT_ERASED = (
    select(*_COUNTED, func.count())
    .where(
        # Asked for nothing else, SQLite finds them in the index of the erased ones.
        Query.id.in_(
            select(_Erased.id).where(
                _Erased.detector_id == bindparam("detector_id"),
                _Erased.erased_at.is_not(None),
            )
        ),
        Query.label.is_not(None),
        on_postgresql(Query.detector_id == bindparam("detector_id")),
    )
    .group_by(*_COUNTED)
)


def count_erased(session: Session, detector_id: int) -> dict[int, VersionCounts]:
    """Count the labelled queries whose content was taken away, by version."""
    return _add_up(session.execute(_COUNT_ERASED, {"detector_id": detector_id}))


def _add_up(rows: Iterable[Any]) -> dict[int, VersionCounts]:
    counts: dict[int, VersionCounts] = {}
    for version_id, label, predicted, sampling, is_repeat, number in rows:
        found = counts.setdefault(version_id, VersionCounts())
        found.add(label, predicted, sampling, is_repeat, number)
    return counts
