"""What is kept of the changes of a version: one row for each projection and key."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import date
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, delete_rows, equal, remember
from tracker.storage.detectors import Version, is_of_version, of_version
from tracker.storage.dialect import upsert
from tracker.storage.estimates.cells import Counts, pool

# The counts of a version in all, under no key, and by the day on which queries were
# asked, as 2026-01-31.
CELLS = "cells"
DAYS = "days"
# The same of the labels that came on a day in UTC, under that day.
KNOWN = "known"
# What was found of them: changes, and what counts now.
CALENDAR = "calendar"
# The key of a calendar that is to be found again.
DUE = "due"
# What was last found of bursts of mistakes, by population.
BURSTS = "bursts"

# So many rows are looked up at once.
_AT_ONCE = 500

Row = tuple[int, int, str, str]
"""Where a row stands: detector, version, projection and key."""
States = dict[int, dict[tuple[str, str], dict[str, Any]]]
"""By version: the states by name and key."""


class Projection(Base):
    """The state of a projection of one version under a key."""

    __tablename__ = "projections"
    __table_args__ = (of_version(), {"sqlite_with_rowid": False})

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    version_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    name: Mapped[str] = mapped_column(Name, primary_key=True)
    key: Mapped[str] = mapped_column(Name, primary_key=True)
    # What readers read, and what only the fold continues from.
    state: Mapped[dict[str, Any]] = mapped_column(sa.JSON)
    memory: Mapped[str | None] = mapped_column(sa.Text)


class Kept(NamedTuple):
    """A row of a projection."""

    key: str
    state: dict[str, Any]
    memory: str | None = None


_PLACE = Projection.__mapper__.primary_key


def load_projections(session: Session, places: Collection[Row]) -> dict[Row, Kept]:
    """Return the rows at these *places*, those that there are."""
    found: dict[Row, Kept] = {}
    ordered = sorted(places)
    for start in range(0, len(ordered), _AT_ONCE):
        among = sa.tuple_(*_PLACE).in_(ordered[start : start + _AT_ONCE])
        statement = sa.select(*_PLACE, Projection.state, Projection.memory).where(among)
        for *place, state, memory in session.execute(statement):
            found[tuple(place)] = Kept(place[-1], state, memory)
    return found


def list_projections(session: Session, version: Version, name: str) -> Sequence[Kept]:
    """Return the states of a projection of *version* under all keys, in order."""
    found = load_by_name(session, [version.detector_id], name, [version.id])
    return [Kept(*one) for one in sorted(found.get(version.id, {}).items())]


def load_by_name(  # noqa: PLR0913 - one argument for each filter.
    session: Session,
    detector_ids: Collection[int],
    name: str,
    version_ids: Collection[int] | None = None,
    *,
    key: str | None = None,
    until: str | None = None,
) -> dict[int, dict[str, dict[str, Any]]]:
    """Return the states of a projection by version and key, with keys up to *until*."""
    columns = Projection.version_id, Projection.key, Projection.state
    among = Projection.detector_id.in_(detector_ids)
    chosen = [among, *equal(Projection, name=name, key=key)]
    if version_ids is not None:
        chosen.append(Projection.version_id.in_(version_ids))
    if until is not None:
        chosen.append(Projection.key <= until)
    found: dict[int, dict[str, dict[str, Any]]] = {}
    for version_id, at, state in session.execute(sa.select(*columns).where(*chosen)):
        found.setdefault(version_id, {})[at] = state
    return found


def load_due_versions(
    session: Session,
    detector_ids: Collection[int],
    ids: Collection[int],
    test: sa.ColumnElement[bool],
) -> list[tuple[Version, bool, bool]]:
    """Return versions, and those with a calendar that is due.

    With each comes whether it is due, and whether *test* holds.
    """
    is_due = sa.exists().where(
        is_of_version(Projection), Projection.name == CALENDAR, Projection.key == DUE
    )
    statement = sa.select(Version, is_due, test).where(
        Version.detector_id.in_(detector_ids), sa.or_(Version.id.in_(ids), is_due)
    )
    return [(row, bool(due), bool(has)) for row, due, has in session.execute(statement)]


def find_calendars_again(
    session: Session, detector_id: int, versions: Iterable[Version] | None = None
) -> None:
    """Let the next fold find the calendars of a detector again, or of some *versions*.

    The caller adds a batch, be it an empty one.
    """
    ids = set(load_by_name(session, [detector_id], CALENDAR))
    if versions is not None:
        ids &= {one.id for one in versions}
    due = {(detector_id, one, CALENDAR, DUE): Kept(DUE, {}) for one in ids}
    store_projections(session, due)


def list_all_projections(
    session: Session, detector_id: int
) -> dict[int, dict[tuple[str, str], Kept]]:
    """Return every state that is kept of a detector, by version, name and key."""
    found: dict[int, dict[tuple[str, str], Kept]] = {}
    columns = Projection.version_id, Projection.name, Projection.key, Projection.state
    statement = sa.select(*columns).filter_by(detector_id=detector_id)
    for version_id, name, key, state in session.execute(statement):
        found.setdefault(version_id, {})[name, key] = Kept(key, state)
    return found


def store_projections(session: Session, rows: Mapping[Row, Kept]) -> None:
    """Set *rows*, and leave the others as they are."""
    new = [
        {"detector_id": detector, "version_id": version, "name": name, **kept._asdict()}
        for (detector, version, name, _), kept in sorted(rows.items())
    ]
    upsert(session, Projection, new)


def delete_projections(
    session: Session, detector_id: int, name: str, *, key: str | None = None
) -> None:
    """Delete the rows of a projection of all versions, or those under one key."""
    which = equal(Projection, detector_id=detector_id, name=name, key=key)
    delete_rows(session, Projection, *which)


# Built once: every estimate begins with this.
_KEPT = (
    sa.select(Version.id, Projection.name, Projection.key, Projection.state)
    # Joined, or SQLite would look up each of the detectors with each of the versions.
    .join(Projection, is_of_version(Projection))
    .where(
        Version.detector_id.in_(sa.bindparam("detectors", expanding=True)),
        Version.id.in_(sa.bindparam("versions", expanding=True)),
        Projection.name.in_(sa.bindparam("names", expanding=True)),
    )
)


def load_states(
    session: Session,
    versions: Iterable[Version],
    names: tuple[str, ...] = (CELLS, CALENDAR, BURSTS),
) -> States:
    """Return the states of versions under *names*: those that estimates go by."""
    ids = sorted((one.detector_id, one.id) for one in versions)
    found: States = {}
    chosen = {
        "detectors": tuple({one[0] for one in ids}),
        "versions": tuple(one[1] for one in ids),
        "names": names,
    }
    for version_id, name, key, state in remember(session, _KEPT, chosen) if ids else ():
        found.setdefault(version_id, {})[name, key] = state
    return found


def load_counts(session: Session, versions: Collection[Version]) -> dict[int, Counts]:
    """Return the running counts of each version, without the labels that wait."""
    states, counts = load_states(session, versions), {}
    for one in versions:
        state = states.get(one.id, {}).get((CELLS, ""))
        counts[one.id] = Counts() if state is None else Counts.load(state)
        counts[one.id].last_label_at = one.last_label_at
    return counts


def sum_days(
    session: Session,
    versions: Collection[Version],
    *,
    since: date | None = None,
    until: date | None = None,
) -> Counts:
    """Return what was counted of the days from *since* to before *until*."""
    statement = sa.select(Projection.state).where(
        Projection.detector_id.in_({one.detector_id for one in versions}),
        Projection.version_id.in_([one.id for one in versions]),
        Projection.name == DAYS,
    )
    if since is not None:
        statement = statement.where(Projection.key >= since.isoformat())
    if until is not None:
        statement = statement.where(Projection.key < until.isoformat())
    return pool(Counts.load(state) for state in session.scalars(statement))
