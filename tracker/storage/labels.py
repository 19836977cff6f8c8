"""Labels: append-only, the newest of a query is its current one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage import base
from tracker.storage.base import Base, BigId, Name, index_some, on_postgresql, stream
from tracker.storage.detectors import Detector, Version, is_of_version
from tracker.storage.dialect import is_sqlite
from tracker.storage.queries.queries import (
    AnyQuery,
    Query,
    is_about,
    is_of_query,
    of_query,
)
from tracker.words import DISPUTED, GROUPED, OPEN, REPEAT, SAMPLINGS, WITHDRAWN

# Read within some milliseconds at each request of a labeler's page.
MOST_LOOKED_AT = 10_000
# Of each detector, where they are those of all.
_OF_EACH = 200


class Label(Base):
    """The class that a trusted person or source gave to a query."""

    __tablename__ = "labels"
    __table_args__ = (
        of_query(),
        sa.Index(None, "query_id", "detector_id"),
        index_some("labels", "weighted", "weight IS NOT NULL"),
        sa.CheckConstraint(f"sampling IN {SAMPLINGS}", name="sampling"),
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId)
    # The label that was current before this one.
    replaces_id: Mapped[int | None] = mapped_column(BigId)
    label: Mapped[str] = mapped_column(Name)
    # The class of the query from then on, if the consensus is another one; None for
    # *label*.
    truth: Mapped[str | None] = mapped_column(Name)
    # The standing of the query from then on, one of STANDINGS.
    standing: Mapped[str] = mapped_column(sa.Text)
    sampling: Mapped[str] = mapped_column(sa.Text)
    note: Mapped[str | None] = mapped_column(sa.Text)
    labeler: Mapped[str] = mapped_column(sa.Text)
    labelled_at: Mapped[datetime]
    created_at: Mapped[datetime]
    # The label of another query with the same input, from which this was taken over.
    source_label_id: Mapped[int | None] = mapped_column(BigId)
    # Whether the query was a repeat when the label was given; repeats do not count.
    is_repeat: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    # How many queries it stands for, where they were not drawn evenly.
    weight: Mapped[float | None] = mapped_column()


def truth_of(label: Any) -> sa.ColumnElement[str]:
    return sa.func.coalesce(label.truth, label.label)


def is_correction(label: Any, replaced: Any) -> sa.ColumnElement[bool]:
    """Return the condition that *label* changes the class of its query.

    While several people are asked, different labels are no corrections.
    """
    return sa.and_(
        label.standing.not_in((REPEAT, WITHDRAWN, OPEN, DISPUTED)),
        replaced.standing.not_in((OPEN, DISPUTED, WITHDRAWN)),
        truth_of(label) != truth_of(replaced),
    )


def add_labels_of(
    session: Session, detector_id: int, ids: tuple[int, int], labeler: str, at: datetime
) -> None:
    """Insert the labels of new queries, given as a range of ids."""
    kept = ("detector_id", "label", "standing", "sampling", "is_repeat")
    moment = sa.literal(at, Label.created_at.type)
    given = sa.literal(labeler), moment, moment
    found = sa.select(Query.label_id, Query.id, *base.columns_of(Query, *kept), *given)
    are_new = Query.id.between(*ids) & Query.label_id.is_not(None)
    are_near = on_postgresql(Query.detector_id == detector_id)
    names = ["id", "query_id", *kept, "labeler", "labelled_at", "created_at"]
    session.execute(sa.insert(Label).from_select(names, found.where(are_new, are_near)))


def list_labels(session: Session, query: AnyQuery) -> Sequence[Label]:
    return base.list_rows(session, Label, is_about(Label, query), order=Label.id.desc())


def find_labels(
    session: Session, detector_id: int, label_ids: Sequence[int]
) -> dict[int, Mapping[str, Any]]:
    theirs = Label.detector_id == detector_id, Label.id.in_(label_ids)
    rows = session.execute(sa.select(*Label.__table__.c).where(*theirs)).mappings()
    return {row["id"]: dict(row) for row in rows}


def iter_words(
    session: Session, detector_id: int, query_ids: Sequence[int]
) -> Iterator[Mapping[str, Any]]:
    names = (Label.id, Label.query_id, Label.labeler, Label.label, Label.sampling)
    theirs = Label.detector_id == detector_id, Label.query_id.in_(query_ids)
    statement = sa.select(*names).where(*theirs).order_by(Label.id)
    yield from map(dict, session.execute(statement).mappings())


def is_current() -> sa.ColumnElement[bool]:
    """Return the condition that a label is the current one of its query."""
    is_near = on_postgresql(Label.detector_id == Query.detector_id)
    return sa.and_(Label.id == Query.label_id, is_near)


def is_replaced(old: Any) -> sa.ColumnElement[bool]:
    is_near = on_postgresql(old.detector_id == Label.detector_id)
    return sa.and_(old.id == Label.replaces_id, is_near)


def _newest() -> sa.Select[Label]:
    # A label taken over was given to another query.
    given = sa.select(Label).where(Label.source_label_id.is_(None))
    return given.order_by(Label.id.desc())


def count_since(
    session: Session, detector_id: int, labeler: str, since: datetime, lately: datetime
) -> tuple[int, int, bool, int, datetime | None]:
    """Return the number of labels of a detector, by *labeler* and by all.

    Only the newest labels are read, because an import may bring millions a day; the
    third value says whether they reach back to *since*.  The last two are the number
    by *labeler* since *lately* and the instant of the first of them.
    """
    of_detector = _newest().where(Label.detector_id == detector_id)
    newest = of_detector.limit(MOST_LOOKED_AT).subquery()
    # Ids are nearly in the order of time: a request takes its instant first.
    is_since = newest.c.created_at >= since
    is_own = newest.c.labeler == labeler
    is_recent = is_own & (newest.c.created_at >= lately)
    statement = sa.select(
        sa.func.count().filter(is_since, is_own),
        sa.func.count().filter(is_since),
        sa.func.count().filter(is_recent),
        sa.func.min(newest.c.created_at).filter(is_recent),
    ).select_from(newest)
    by_labeler, by_all, recent, first_at = session.execute(statement).one()
    return by_labeler, by_all, by_all < MOST_LOOKED_AT, recent, first_at


def count_current_since(
    session: Session, detector_id: int | None, *, since: datetime
) -> tuple[dict[tuple[int, str], int], bool]:
    """Count queries that have had their current label since then, by who gave it.

    They are those of a detector, or of all open ones; the keys are ids of detectors
    and names.  Only the newest labels are read; the second value says whether they
    reach back to *since*.
    """
    newest, joined, limit = _join_newest(session, detector_id)
    near = on_postgresql(Query.detector_id == (detector_id or Detector.id))
    statement = (
        sa.select(Detector.id, newest.c.labeler, sa.func.count())
        .select_from(joined)
        .join(Query, sa.and_(near, Query.id == newest.c.query_id))
        .where(
            Detector.archived_at.is_(None),
            Query.label_id == newest.c.id,
            newest.c.labelled_at >= since,
        )
        .group_by(Detector.id, newest.c.labeler)
    )
    counts = {(key, name): number for key, name, number in session.execute(statement)}
    seen = (
        sa.select(sa.func.count())
        .select_from(joined)
        .where(newest.c.created_at >= since)
        .group_by(Detector.id)
    )
    numbers = session.scalars(seen).all()
    most = max(numbers, default=0) if limit == _OF_EACH else sum(numbers)
    return counts, most < limit


def _join_newest(
    session: Session, detector_id: int | None
) -> tuple[Any, sa.FromClause, int]:
    """Return the newest labels, a join of detectors with them, and their limit.

    Of all detectors they are the newest of each on PostgreSQL, whose key begins with
    the detector, and the newest of all together on SQLite, which has no LATERAL.
    """
    newest = _newest()
    if detector_id is None and not is_sqlite(session):
        each = newest.where(Label.detector_id == Detector.id).limit(_OF_EACH).lateral()
        return each, sa.join(Detector, each, sa.true()), _OF_EACH
    if detector_id is not None:
        newest = newest.where(Label.detector_id == detector_id)
    found = newest.limit(MOST_LOOKED_AT).subquery()
    joined = sa.join(Detector, found, Detector.id == found.c.detector_id)
    return found, joined, MOST_LOOKED_AT


def iter_label_rows(
    session: Session,
    detector_id: int,
    conditions: Iterable[sa.ColumnElement[bool]] = (),
) -> Iterator[Any]:
    """Stream every label of a detector, or of the queries that meet *conditions*."""
    columns: tuple[Any, ...] = (
        *(Query.id.label("query"), Query.key, Version.name.label("version")),
        *base.columns_of(Query, "predicted", "confidence", "asked_at", "metadata"),
        *base.columns_of(Label, "label", "sampling", "note", "labeler", "labelled_at"),
        (Query.label_id == Label.id).label("is_current"),
        *base.columns_of(Query, "input", "is_repeat", "tags", "group"),
        (Label.standing == GROUPED).label("is_grouped"),
    )
    statement = (
        sa.select(*columns)
        .select_from(Label)
        .join(Query, is_of_query(Label))
        .join(Version, is_of_version(Query))
        .where(Query.detector_id == detector_id, *conditions)
        .order_by(Label.id)
    )
    return stream(session, statement)
