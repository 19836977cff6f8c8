"""The values that queries are cut by, and the counts that are kept of one."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy.orm import Session

from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts, pool
from tracker.storage.estimates.counts import count_pending_labels
from tracker.storage.estimates.projections import load_projections
from tracker.storage.estimates.slices import SLICE, SLICED, list_counted
from tracker.storage.queries.finding import Condition, Metadata
from tracker.words import NO_VALUE

# So many values of a key are told apart; the rest are one slice.
MOST_VALUES = 500
OTHER = "(other)"
_LONGEST_VALUE = 200


def read_value(details: Mapping[str, Any], name: str) -> str:
    """Return which slice of the key *name* a query with these metadata is in.

    Numbers and truth values are written as ``where=`` finds them.
    """
    value = details.get(name)
    if value is None:
        return NO_VALUE
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        value = int(value) if value.is_integer() else repr(value)
    if isinstance(value, int):
        value = str(value)
    if not isinstance(value, str) or len(value) > _LONGEST_VALUE:
        return OTHER
    return value


def count_slice(
    session: Session,
    detector: Detector,
    versions: Sequence[Version],
    wanted: Sequence[Condition],
) -> Counts | None:
    """Count the labels of the queries that are *wanted*, with those that wait.

    None where they are no slice that is kept.
    """
    if len(wanted) != 1 or not isinstance(wanted[0], Metadata):
        return None
    one, place = wanted[0], (SLICE + wanted[0].name, wanted[0].text)
    if one.name not in list_counted(detector) or not _is_slice(one):
        return None
    rows = load_projections(
        session,
        [
            (detector.id, version.id, *key)
            for version in versions
            for key in (place, (SLICED, one.name))
        ],
    )
    waiting = count_pending_labels(session, [detector.id], [one.test(session)])
    parts = [waiting[v.id] for v in versions if v.id in waiting]
    for version in versions:
        row = rows.get((detector.id, version.id, *place))
        whole = rows.get((detector.id, version.id, SLICED, one.name))
        if row is not None:
            parts.append(Counts.load(row.state["counts"]))
        elif whole is not None and whole.state["values"] >= MOST_VALUES:
            return None
    return pool(parts)


def _is_slice(wanted: Metadata) -> bool:
    """Return whether a slice holds just the queries that are wanted.

    The others have one value that is written in several ways.
    """
    if wanted.text in {OTHER, "null"}:
        return False
    value = wanted.text if wanted.number is None else wanted.number
    return read_value({wanted.name: value}, wanted.name) == wanted.text
