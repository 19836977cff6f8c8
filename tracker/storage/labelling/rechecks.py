"""Labels that were drawn by chance to be given a second time, blind.

What the second person says is kept beside the labels, and nothing scores it.
"""

from collections.abc import Collection, Generator, Iterable, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    ColumnElement,
    ForeignKey,
    ForeignKeyConstraint,
    Text,
    UniqueConstraint,
    bindparam,
    func,
    insert,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId, Name, on_postgresql, stream
from tracker.storage.detectors import Version
from tracker.storage.queries.lookup import listed
from tracker.storage.queries.queries import Query
from tracker.words import TARGETED


class Recheck(Base):
    """A label that is to be given again, and what was said then."""

    __tablename__ = "rechecks"
    __table_args__ = (
        ForeignKeyConstraint(
            ["query_id", "detector_id"], [Query.id, Query.detector_id]
        ),
        UniqueConstraint("version_id", "place"),
    )

    query_id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    detector_id: Mapped[int] = mapped_column(BigId)
    version_id: Mapped[int] = mapped_column(ForeignKey(Version.id))
    # In which order they were drawn.
    place: Mapped[int] = mapped_column(BigId)
    drawn_at: Mapped[datetime]
    # As it was when it was drawn; a correction since then changes nothing here.
    label_id: Mapped[int] = mapped_column(BigId)
    label: Mapped[str] = mapped_column(Name)
    answer: Mapped[str | None] = mapped_column(Name)
    labeler: Mapped[str | None] = mapped_column(Name)
    is_trusted: Mapped[bool | None]
    note: Mapped[str | None] = mapped_column(Text)
    answered_at: Mapped[datetime | None]


def iter_candidates(session: Session, version: Version) -> Generator[Any]:
    """Stream ``id`` and ``input`` of each query of a version that may be drawn.

    Those have a label that was not picked on purpose, be it UNCLEAR, and were not
    drawn before.
    """
    drawn = select(Recheck.query_id).where(Recheck.query_id == Query.id)
    statement = select(Query.id, Query.input).where(
        *_may_be_drawn(version), ~drawn.exists()
    )
    return stream(session, statement)


def _may_be_drawn(version: Version) -> list[ColumnElement[bool]]:
    return [
        Query.detector_id == version.detector_id,
        Query.version_id == version.id,
        Query.label.is_not(None),
        Query.sampling != TARGETED,
        ~Query.is_repeat,
        Query.erased_at.is_(None),
    ]


def add_rechecks(
    session: Session, version: Version, query_ids: Sequence[int], *, drawn_at: datetime
) -> int:
    """Add queries in that order behind those drawn before; return how many were added.

    Left out is what was drawn, erased or picked on purpose meanwhile.
    """
    last = select(func.max(Recheck.place)).where(Recheck.version_id == version.id)
    place = session.scalar(last) or 0
    drawn = select(Recheck.query_id).where(Recheck.query_id == Query.id)
    statement = select(Query.id, Query.label_id, Query.label).where(
        *_may_be_drawn(version), Query.id.in_(query_ids), ~drawn.exists()
    )
    found = {row.id: row for row in session.execute(statement)}
    rows = [
        {
            "query_id": query_id,
            "detector_id": version.detector_id,
            "version_id": version.id,
            "place": place + number,
            "drawn_at": drawn_at,
            "label_id": found[query_id].label_id,
            "label": found[query_id].label,
        }
        for number, query_id in enumerate(filter(found.get, query_ids), start=1)
    ]
    if rows:
        session.execute(insert(Recheck), rows)
    return len(rows)


def list_inputs(
    session: Session, detector_id: int, query_ids: Sequence[int]
) -> Sequence[str]:
    """Return the inputs of these queries, of those that have one."""
    statement = select(Query.input).where(
        Query.detector_id == detector_id,
        Query.id.in_(query_ids),
        Query.input.is_not(None),
    )
    return [name for name in session.scalars(statement) if name is not None]


def find_recheck(session: Session, query_id: int) -> Recheck | None:
    """Return what was drawn of a query, with its answer if there is one."""
    return session.get(Recheck, query_id)


def find_rechecks(session: Session, query_ids: Sequence[int]) -> dict[int, Recheck]:
    statement = select(Recheck).where(Recheck.query_id.in_(query_ids))
    return {found.query_id: found for found in session.scalars(statement)}


def is_waiting(session: Session, query_id: int) -> bool:
    """Return whether a query was drawn and nobody has answered it."""
    found = find_recheck(session, query_id)
    return found is not None and found.answered_at is None


# Built once: every page of a detector asks this.
_OF_VERSION = (
    select(
        Recheck.label,
        Recheck.answer,
        Recheck.is_trusted,
        Recheck.drawn_at,
        Query.predicted,
        Query.label.label("current"),
        Query.standing,
    )
    .join(
        Query,
        (Query.id == Recheck.query_id)
        & on_postgresql(Query.detector_id == Recheck.detector_id),
    )
    # An input that was added later may have made a repeat of it, which is counted
    # nowhere.
    .where(Recheck.version_id == bindparam("version_id"), ~Query.is_repeat)
    .order_by(Recheck.place)
)


def list_rechecks(session: Session, version_id: int) -> Sequence[Any]:
    """Return what was drawn of a version, in order.

    Each row has ``label``, ``answer``, ``is_trusted`` and ``drawn_at``, and of its
    query as it is now ``predicted``, ``current`` and ``standing``.
    """
    return session.execute(_OF_VERSION, {"version_id": version_id}).all()


def share_answers(session: Session, detector_id: int, inputs: Iterable[str]) -> None:
    """Give what was answered of *inputs* to the other versions' draws of them."""
    names: Collection[str] = sorted(set(inputs))
    if not names:
        return
    answered, asked = aliased(Query), aliased(Query)
    of_input = (
        select(asked.input, Recheck.query_id)
        .join(asked, asked.id == Recheck.query_id)
        .where(
            Recheck.detector_id == detector_id,
            asked.detector_id == detector_id,
            asked.input.in_(listed(session, list(names))),
            Recheck.answered_at.is_(None),
        )
    )
    given = (
        select(answered.input, Recheck)
        .join(answered, answered.id == Recheck.query_id)
        .where(
            Recheck.detector_id == detector_id,
            answered.detector_id == detector_id,
            answered.input.in_(listed(session, list(names))),
            Recheck.answered_at.is_not(None),
        )
        .order_by(Recheck.answered_at)
    )
    answers = {row[0]: row[1] for row in session.execute(given)}
    for name, query_id in session.execute(of_input).all():
        if name in answers:
            one = answers[name]
            statement = update(Recheck).where(Recheck.query_id == query_id)
            session.execute(
                statement.values(
                    answer=one.answer,
                    labeler=one.labeler,
                    is_trusted=one.is_trusted,
                    answered_at=one.answered_at,
                )
            )


def erase_recheck(session: Session, query: Query) -> None:
    """Take away the note of what was said of *query* the second time."""
    statement = update(Recheck).where(Recheck.query_id == query.id)
    session.execute(statement.values(note=None))
