"""Running counts by the day on which queries were asked, kept by the job.

What was asked in a while is the sum of its days: a year of them is read in a moment,
where its queries may be a million.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from datetime import date
from typing import Any

from sqlalchemy import JSON, ForeignKey, select, tuple_
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name
from tracker.storage.detectors import Version
from tracker.storage.dialect import upsert
from tracker.storage.estimates.counts import Cell, VersionCounts

DayChanges = defaultdict[tuple[date, str, str, str, bool], int]
"""How many queries more there are by day, label, prediction, sampling of the label,
and whether they repeat an input."""

# So many days are looked up at once.
_AT_ONCE = 500


class DayCounts(Base):
    """What was counted of the queries of a version that were asked on one day in UTC.

    One row for a day, so that a day of a thousand classes is still one row.
    """

    __tablename__ = "day_counts"
    __table_args__ = ({"sqlite_with_rowid": False},)

    version_id: Mapped[int] = mapped_column(ForeignKey(Version.id), primary_key=True)
    # As 2026-01-31.
    day: Mapped[str] = mapped_column(Name, primary_key=True)
    # By label and by prediction, [not targeted, targeted].
    cells: Mapped[dict[str, dict[str, list[int]]]] = mapped_column(JSON)
    unstated: Mapped[int] = mapped_column(BigId)
    repeats: Mapped[int] = mapped_column(BigId)


_COUNTED = (
    DayCounts.version_id,
    DayCounts.day,
    DayCounts.cells,
    DayCounts.unstated,
    DayCounts.repeats,
)


def sum_days(
    session: Session,
    version_ids: Collection[int],
    *,
    since: date | None = None,
    until: date | None = None,
) -> dict[int, VersionCounts]:
    """Return what was counted by version on the days from *since* to before *until*."""
    statement = select(*_COUNTED).where(DayCounts.version_id.in_(version_ids))
    if since is not None:
        statement = statement.where(DayCounts.day >= since.isoformat())
    if until is not None:
        statement = statement.where(DayCounts.day < until.isoformat())
    found: dict[int, VersionCounts] = {}
    for row in session.execute(statement):
        _add(found.setdefault(row.version_id, VersionCounts()), row)
    return found


def apply_changes(
    session: Session, changes: Mapping[int, DayChanges]
) -> dict[int, list[dict[str, Any]]]:
    """Return by version the rows of its days as they are after its *changes*."""
    found: dict[tuple[int, str], VersionCounts] = defaultdict(VersionCounts)
    for version_id, of_version in changes.items():
        for (asked, label, predicted, sampling, is_repeat), n in of_version.items():
            counts = found[version_id, asked.isoformat()]
            counts.add(label, predicted, sampling, is_repeat, n)
    places = sorted(found)
    place = tuple_(DayCounts.version_id, DayCounts.day)
    for start in range(0, len(places), _AT_ONCE):
        among = place.in_(places[start : start + _AT_ONCE])
        for row in session.execute(select(*_COUNTED).where(among)):
            _add(found[row.version_id, row.day], row)
    rows: dict[int, list[dict[str, Any]]] = {version_id: [] for version_id in changes}
    for version_id, day in places:
        counted = _dump(found[version_id, day])
        rows[version_id].append({"version_id": version_id, "day": day, **counted})
    return rows


def store_days(session: Session, rows: list[dict[str, Any]]) -> None:
    """Set *rows* of days, and leave the others."""
    upsert(session, DayCounts, rows)


def _add(counts: VersionCounts, row: Any) -> None:
    for label, of_label in row.cells.items():
        for predicted, numbers in of_label.items():
            for is_targeted, number in enumerate(numbers):
                if number:
                    cell = Cell(label, predicted, bool(is_targeted))
                    counts.cells[cell] = counts.cells.get(cell, 0) + number
    counts.unstated += row.unstated
    counts.repeats += row.repeats


def _dump(counts: VersionCounts) -> dict[str, Any]:
    cells: dict[str, dict[str, list[int]]] = {}
    for cell, number in sorted(counts.cells.items()):
        if number:
            pair = cells.setdefault(cell.label, {}).setdefault(cell.predicted, [0, 0])
            pair[cell.is_targeted] = number
    return {"cells": cells, "unstated": counts.unstated, "repeats": counts.repeats}
