"""Labels: append-only, the newest of a query is its current one."""

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from datetime import datetime
from functools import cache
from typing import Any, NamedTuple

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    ForeignKeyConstraint,
    Index,
    Select,
    Text,
    and_,
    bindparam,
    false,
    func,
    insert,
    literal,
    null,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import Base, BigId, Name, on_postgresql, stream
from tracker.storage.detectors import Version
from tracker.storage.estimates.pending import (
    Pending,
    PendingBatch,
    batch_of,
    belongs_to,
    ends_of,
    lies_among,
)
from tracker.storage.hiding import shown_ranges
from tracker.storage.inserting import carried_out, insert_rows
from tracker.storage.queries.queries import AnyQuery, Query
from tracker.words import SAMPLINGS, is_scored

# They are read within some milliseconds, each time that a labeler's page asks.
MOST_LOOKED_AT = 10_000


class Label(Base):
    """The class that a trusted person or source gave to a query."""

    __tablename__ = "labels"
    __table_args__ = (
        ForeignKeyConstraint(
            ["query_id", "detector_id"], [Query.id, Query.detector_id]
        ),
        Index(None, "query_id"),
        CheckConstraint(f"sampling IN {SAMPLINGS}", name="sampling"),
    )

    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)
    query_id: Mapped[int] = mapped_column(BigId)
    # That of the query.
    detector_id: Mapped[int] = mapped_column(BigId)
    # The label that was current before this one.
    replaces_id: Mapped[int | None] = mapped_column(BigId)
    label: Mapped[str] = mapped_column(Name)
    sampling: Mapped[str] = mapped_column(Text)
    note: Mapped[str | None] = mapped_column(Text)
    labeler: Mapped[str] = mapped_column(Text)
    labelled_at: Mapped[datetime]
    created_at: Mapped[datetime]
    # The label of another query with the same input that this one was taken over from.
    source_label_id: Mapped[int | None] = mapped_column(BigId)
    # That of the query when the label was given: it is counted nowhere.
    is_repeat: Mapped[bool] = mapped_column(default=False, server_default=false())


def add_labels(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    """Insert labels from mappings of every column."""
    insert_rows(session, Label, rows)


def adding_labels_of(
    session: Session, detector_id: int, ids: tuple[int, int], labeler: str, at: datetime
) -> AbstractContextManager[None]:
    """Insert the labels that new queries, from one id to another, say they have.

    They are there when the block ends, which leaves the session alone.
    """
    kept = (Query.detector_id, Query.label, Query.sampling, Query.is_repeat)
    moment = literal(at, Label.created_at.type)
    found = select(Query.label_id, Query.id, *kept, literal(labeler), moment, moment)
    are_new = Query.id.between(*ids) & Query.label_id.is_not(None)
    are_near = on_postgresql(Query.detector_id == detector_id)
    names = ["id", "query_id", *(one.key for one in kept), "labeler"]
    names += ["labelled_at", "created_at"]
    return carried_out(
        session, insert(Label).from_select(names, found.where(are_new, are_near))
    )


def list_labels(session: Session, query: AnyQuery) -> Sequence[Label]:
    """Return every label ever given to *query*, the newest first."""
    statement = (
        select(Label)
        .where(Label.query_id == query.id, Label.detector_id == query.detector_id)
        .order_by(Label.id.desc())
    )
    return session.scalars(statement).all()


def find_labels(
    session: Session, detector_id: int, label_ids: Sequence[int]
) -> dict[int, Mapping[str, Any]]:
    """Return these labels of a detector by id, as mappings of every column."""
    statement = select(*Label.__table__.c).where(
        Label.detector_id == detector_id, Label.id.in_(label_ids)
    )
    return {row["id"]: dict(row) for row in session.execute(statement).mappings()}


def iter_words(
    session: Session, detector_id: int, query_ids: Sequence[int]
) -> Iterator[Mapping[str, Any]]:
    """Yield who gave which label to these queries, in order."""
    names = (Label.id, Label.query_id, Label.labeler, Label.label, Label.sampling)
    statement = (
        select(*names)
        .where(Label.detector_id == detector_id, Label.query_id.in_(query_ids))
        .order_by(Label.id)
    )
    for row in session.execute(statement).mappings():
        yield dict(row)


def erase_notes(session: Session, query: Query) -> None:
    """Take away the notes of all labels that *query* was ever given."""
    statement = update(Label).where(
        Label.query_id == query.id,
        Label.detector_id == query.detector_id,
        Label.note.is_not(None),
    )
    session.execute(statement.values(note=None))


def is_of_query() -> ColumnElement[bool]:
    """Return the condition that a label was given to the query beside it."""
    is_near = on_postgresql(Label.detector_id == Query.detector_id)
    return and_(Label.query_id == Query.id, is_near)


def is_replaced(old: Any) -> ColumnElement[bool]:
    """Return the condition that a label replaces the *old* one beside it."""
    is_near = on_postgresql(old.detector_id == Label.detector_id)
    return and_(old.id == Label.replaces_id, is_near)


def count_since(
    session: Session, detector_id: int, labeler: str, *, since: datetime
) -> tuple[int, int, bool]:
    """Return how many labels a detector was given, by *labeler* and by all.

    Only the newest of all detectors are looked at, for an import may bring millions
    on one day; the third value says whether they reach back so far.
    """
    chosen = (
        select(Label.detector_id, Label.labeler, Label.created_at)
        # What was taken over was given once.
        .where(Label.source_label_id.is_(None))
        .order_by(Label.id.desc())
        .limit(MOST_LOOKED_AT)
    )
    first, *others = (
        select(chosen.where(shown).subquery())
        for shown in shown_ranges(session, Label.id)
    )
    newest = (first.union_all(*others) if others else first).subquery()
    is_ours = newest.c.detector_id == detector_id
    # Ids are given out nearly in the order of time: a request notes when it came
    # before it draws them.
    is_since = newest.c.created_at >= since
    statement = select(
        func.count().filter(is_ours, is_since, newest.c.labeler == labeler),
        func.count().filter(is_ours, is_since),
        func.count().filter(is_since),
    ).select_from(newest)
    by_labeler, by_all, seen = session.execute(statement).one()
    return by_labeler, by_all, seen < MOST_LOOKED_AT


class CountedLabel(NamedTuple):
    """A label to count: what it says, of which query, and what it said before.

    *metadata* is None where it was not asked for, and what begins with *old* for the
    first label of a query.  A repeat is counted nowhere.
    """

    id: int
    replaces_id: int | None
    label: str
    sampling: str
    created_at: datetime
    is_repeat: bool
    version_id: int
    predicted: str
    asked_at: datetime
    metadata: str | None
    old_label: str | None
    old_sampling: str | None
    old_is_repeat: bool | None


def iter_pending_labels(
    session: Session, batches: Pending, *, has_metadata: bool = False
) -> Generator[CountedLabel]:
    """Stream the labels of pending *batches* in order, on request with metadata."""
    values = {"detectors": list(batches), **ends_of(batches)}
    statement = _select_pending(has_metadata=has_metadata).params(values)
    return _stream_counted(session, statement)


@cache
def _select_pending(*, has_metadata: bool) -> Select[*tuple[Any, ...]]:
    """Return it once: for few labels, to build it takes longer than to run it."""
    among: Any = bindparam("detectors", type_=Query.detector_id.type, expanding=True)
    return (
        _select_folded(Label.detector_id.in_(among), has_metadata=has_metadata)
        .join(PendingBatch, belongs_to(Label.id))
        .where(PendingBatch.detector_id.in_(among))
        .where(lies_among(Label.id, bindparam("first"), bindparam("last")))
        # The order of the labels' ids, in which SQLite finds those of one detector.
        .order_by(PendingBatch.id, Label.id)
    )


def iter_counted_labels(session: Session, detector_id: int) -> Generator[CountedLabel]:
    """Stream the labels that no longer wait for the job, in order, as those that do."""
    pending = select(PendingBatch.id).where(PendingBatch.detector_id == detector_id)
    statement = (
        _select_folded(Label.detector_id == detector_id, has_metadata=True)
        .where(Query.detector_id == detector_id)
        .where(batch_of(Label.id).not_in(pending))
        .order_by(Label.id)
    )
    return _stream_counted(session, statement)


def iter_first_labels(
    session: Session, detector_id: int, version_id: int
) -> Generator[Any]:
    """Stream the queries of a version whose label of today is scored.

    They come in the order of their first labels; each has ``label``, that of today,
    and ``predicted``.
    """
    statement = (
        select(Query.label, Query.predicted)
        .select_from(Label)
        .join(Query, is_of_query())
        .where(Query.detector_id == detector_id, Query.version_id == version_id)
        .where(on_postgresql(Label.detector_id == detector_id))
        .where(Label.replaces_id.is_(None), ~Query.is_repeat)
        .where(is_scored(Query.label, Query.sampling))
        .order_by(Label.id)
    )
    return stream(session, statement)


def _select_folded(
    is_theirs: ColumnElement[bool], *, has_metadata: bool
) -> Select[*tuple[Any, ...]]:
    old = aliased(Label)
    details: Any = Query.details if has_metadata else null()
    return (
        select(
            Label.id,
            Label.replaces_id,
            Label.label,
            Label.sampling,
            Label.created_at,
            Label.is_repeat,
            Query.version_id,
            Query.predicted,
            Query.asked_at,
            details,
            old.label,
            old.sampling,
            old.is_repeat,
        )
        .select_from(Label)
        .join(Query, is_of_query())
        .outerjoin(old, is_replaced(old))
        .where(on_postgresql(is_theirs))
    )


def _stream_counted(
    session: Session, statement: Select[*tuple[Any, ...]]
) -> Generator[CountedLabel]:
    with closing(stream(session, statement)) as rows:
        # Its fields are read many times, which takes far longer from a row.
        yield from map(CountedLabel._make, rows)


def iter_label_rows(
    session: Session,
    detector_id: int,
    conditions: Iterable[ColumnElement[bool]] = (),
) -> Iterator[Any]:
    """Stream every label of a detector with its query, in the order given.

    Or those whose query meets all *conditions*.
    """
    statement = (
        select(
            Query.id.label("query"),
            Query.key,
            Version.name.label("version"),
            Query.predicted,
            Query.confidence,
            Query.asked_at,
            Query.details.label("metadata"),
            Label.label,
            Label.sampling,
            Label.note,
            Label.labeler,
            Label.labelled_at,
            (Query.label_id == Label.id).label("is_current"),
            Query.input,
            Query.is_repeat,
            Query.tags,
        )
        .join(Query, is_of_query())
        .join(Version, Version.id == Query.version_id)
        .where(Query.detector_id == detector_id, *conditions)
        .order_by(Label.id)
    )
    return stream(session, statement)
