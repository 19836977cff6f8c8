"""Labels that were drawn by chance to be given a second time, blind.

What the second person says is kept beside the labels, and nothing scores it.
"""

from collections.abc import Collection, Generator, Iterable, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage import base
from tracker.storage.base import Base, BigId, Name, stream
from tracker.storage.detectors import Version, of_version
from tracker.storage.queries.lookup import listed
from tracker.storage.queries.queries import (
    AnyQuery,
    Query,
    is_about,
    is_of_query,
    of_query,
)
from tracker.words import TARGETED

# The clock of what an earlier set drew for another reason than chance alone.
_NEVER = 1e9


class RecheckSet(Base):
    """The labels of a version as they were frozen, and in which order they are drawn.

    *cells* counts them as [predicted, label, number], and *known* those of them that
    had a trusted second label by then, as [predicted, label, answer, number].  *line*
    has the first to be drawn: [query, label's id, label, clock, time].
    """

    __tablename__ = "recheck_sets"
    __table_args__ = (of_version(), {"sqlite_with_rowid": False})

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    version_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    frozen_at: Mapped[datetime]
    cells: Mapped[list[Any]] = mapped_column(sa.JSON)
    known: Mapped[list[Any]] = mapped_column(sa.JSON)
    line: Mapped[list[Any]] = mapped_column(sa.JSON, deferred=True)
    # The time of the last one drawn: every label whose clock is no later was drawn.
    reached: Mapped[float] = mapped_column(default=-1.0)


class Recheck(Base):
    """A label that is to be given again, and what was said then."""

    __tablename__ = "rechecks"
    __table_args__ = (
        of_query(),
        of_version(),
        sa.UniqueConstraint("detector_id", "version_id", "place"),
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    version_id: Mapped[int] = mapped_column(BigId)
    # In which order they were drawn; None once another set was frozen.
    place: Mapped[int | None] = mapped_column(BigId)
    clock: Mapped[float]
    drawn_at: Mapped[datetime]
    # As it was when the set was frozen; a correction since then changes nothing here.
    label_id: Mapped[int] = mapped_column(BigId)
    label: Mapped[str] = mapped_column(Name)
    answer: Mapped[str | None] = mapped_column(Name)
    labeler: Mapped[str | None] = mapped_column(Name)
    is_trusted: Mapped[bool | None]
    note: Mapped[str | None] = mapped_column(sa.Text)
    answered_at: Mapped[datetime | None]


def iter_candidates(
    session: Session, version: Version, standings: Collection[str]
) -> Generator[Any]:
    """Stream the queries of a version that a set is made of.

    Those have a label that counts, or would if it were not UNCLEAR; *answer* is the
    trusted second label if there is one.
    """
    columns = Query.id, Query.predicted, Query.label_id, Query.label, Recheck.answer
    statement = (
        sa.select(*columns)
        .select_from(Query)
        .outerjoin(Recheck, is_about(Recheck, Query) & Recheck.is_trusted)
        .where(
            Query.detector_id == version.detector_id,
            Query.version_id == version.id,
            Query.label.is_not(None),
            Query.sampling != TARGETED,
            Query.standing.in_(standings),
            ~Query.is_repeat,
            Query.erased_at.is_(None),
        )
    )
    return stream(session, statement)


def find_set(session: Session, version: Version) -> RecheckSet | None:
    return session.get(RecheckSet, (version.detector_id, version.id))


def _is_in(found: RecheckSet) -> sa.ColumnElement[bool]:
    is_near = Recheck.detector_id == found.detector_id
    return is_near & (Recheck.version_id == found.version_id)


def begin_set(session: Session, found: RecheckSet) -> None:
    """Put *found* in the place of the version's set; trusted answers stay known."""
    mine = _is_in(found)
    before = session.get(RecheckSet, (found.detector_id, found.version_id))
    if before is not None:
        base.delete_rows(session, Recheck, mine, Recheck.is_trusted.is_not(True))
        by_chance = sa.case((Recheck.clock <= before.reached, -1.0), else_=_NEVER)
        base.change_rows(session, Recheck, mine, place=None, clock=by_chance)
        session.delete(before)
        session.flush()
    session.add(found)
    session.flush()


def draw_more(
    session: Session, found: RecheckSet, count: int, *, drawn_at: datetime
) -> Sequence[str | None] | None:
    """Draw the next *count* of a set; return their inputs, None if one was deleted."""
    last = sa.select(sa.func.max(Recheck.place)).where(_is_in(found))
    start = session.scalar(last) or 0
    drawn = found.line[start : start + count]
    ids = [one[0] for one in drawn]
    theirs = Query.detector_id == found.detector_id, Query.id.in_(ids)
    inputs = session.scalars(sa.select(Query.input).where(*theirs)).all()
    if len(inputs) < len(ids):
        return None
    there = find_rechecks(session, found.detector_id, ids)
    for place, (query_id, label_id, label, clock, time) in enumerate(drawn, start + 1):
        row = there.get(query_id) or Recheck(
            query_id=query_id,
            detector_id=found.detector_id,
            version_id=found.version_id,
        )
        row.place, row.clock, row.drawn_at = place, clock, drawn_at
        row.label_id, row.label = label_id, label
        session.add(row)
        found.reached = time
    all_, known = (sum(n for *_, n in some) for some in (found.cells, found.known))
    if start + len(drawn) == all_ - known:
        # All are a random sample of all.
        found.reached = _NEVER
    session.flush()
    return inputs


def find_recheck(session: Session, query: AnyQuery) -> Recheck | None:
    return session.get(Recheck, (query.detector_id, query.id))


def find_rechecks(
    session: Session, detector_id: int, query_ids: Sequence[int]
) -> dict[int, Recheck]:
    theirs = Recheck.detector_id == detector_id, Recheck.query_id.in_(query_ids)
    rows = base.list_rows(session, Recheck, *theirs, order=Recheck.query_id)
    return {found.query_id: found for found in rows}


def is_waiting(session: Session, query: AnyQuery) -> bool:
    found = find_recheck(session, query)
    return found is not None and found.answered_at is None


# Built once: every page of a detector asks this.
_OF_VERSION = (
    sa.select(Recheck.label, Recheck.answer, Recheck.is_trusted)
    .add_columns(Query.predicted, Query.standing, Query.erased_at)
    .join(Query, is_of_query(Recheck))
    .where(
        Recheck.detector_id == sa.bindparam("detector_id"),
        Recheck.version_id == sa.bindparam("version_id"),
        Recheck.place.is_not(None),
    )
    .order_by(Recheck.place)
)


def list_rechecks(session: Session, version: Version) -> Sequence[Any]:
    """Return what was drawn of the set of a version, in order."""
    of_version = {"detector_id": version.detector_id, "version_id": version.id}
    return session.execute(_OF_VERSION, of_version).all()


def share_answers(
    session: Session, detector_id: int, inputs: Iterable[str | None]
) -> None:
    """Give what was answered of *inputs* to the other versions' draws of them."""
    names = sorted({name for name in inputs if name is not None})
    if not names:
        return
    of_inputs = (
        sa.select(Query.input, Recheck)
        .join(Query, Query.id == Recheck.query_id)
        .where(
            Recheck.detector_id == detector_id,
            Query.detector_id == detector_id,
            Query.input.in_(listed(session, names)),
        )
        .order_by(Recheck.answered_at)
    )
    found = [(row[0], row[1]) for row in session.execute(of_inputs)]
    answers = {name: one for name, one in found if one.answered_at is not None}
    for name, one in found:
        if one.answered_at is None and name in answers:
            for column in ("answer", "labeler", "is_trusted", "answered_at"):
                setattr(one, column, getattr(answers[name], column))
    session.flush()
