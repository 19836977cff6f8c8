"""Labels: append-only, the newest of a query is its current one."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

from sqlalchemy import (
    CheckConstraint,
    ColumnElement,
    Index,
    Text,
    and_,
    false,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, Name, on_postgresql, stream
from tracker.storage.detectors import Version, is_of_version
from tracker.storage.inserting import insert_rows
from tracker.storage.queries.queries import AnyQuery, Query, of_query
from tracker.words import DISPUTED, GROUPED, OPEN, REPEAT, SAMPLINGS, WITHDRAWN

# They are read within some milliseconds, each time that a labeler's page asks.
MOST_LOOKED_AT = 10_000


class Label(Base):
    """The class that a trusted person or source gave to a query."""

    __tablename__ = "labels"
    __table_args__ = (
        of_query(),
        Index(None, "query_id"),
        CheckConstraint(f"sampling IN {SAMPLINGS}", name="sampling"),
    )

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    query_id: Mapped[int] = mapped_column(BigId)
    # The label that was current before this one.
    replaces_id: Mapped[int | None] = mapped_column(BigId)
    label: Mapped[str] = mapped_column(Name)
    # The class of the query from then on, where several people's labels make another
    # one of it; None for *label*.
    truth: Mapped[str | None] = mapped_column(Name)
    # What it counts for from then on, one of STANDINGS.
    standing: Mapped[str] = mapped_column(Text)
    sampling: Mapped[str] = mapped_column(Text)
    note: Mapped[str | None] = mapped_column(Text)
    labeler: Mapped[str] = mapped_column(Text)
    labelled_at: Mapped[datetime]
    created_at: Mapped[datetime]
    # The label of another query with the same input that this one was taken over from.
    source_label_id: Mapped[int | None] = mapped_column(BigId)
    # That of the query when the label was given: it is counted nowhere.
    is_repeat: Mapped[bool] = mapped_column(default=False, server_default=false())


def truth_of(label: Any) -> ColumnElement[str]:
    return func.coalesce(label.truth, label.label)


def is_correction(label: Any, replaced: Any) -> ColumnElement[bool]:
    """Return the condition that *label* gives its query another class.

    While several people are asked, each may say something else.
    """
    return and_(
        label.standing.not_in((REPEAT, WITHDRAWN)),
        replaced.standing.not_in((OPEN, DISPUTED, WITHDRAWN)),
        truth_of(label) != truth_of(replaced),
    )


def add_labels(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    insert_rows(session, Label, rows)


def add_labels_of(
    session: Session, detector_id: int, ids: tuple[int, int], labeler: str, at: datetime
) -> None:
    """Insert the labels that new queries, from one id to another, say they have."""
    kept = (
        Query.detector_id,
        Query.label,
        Query.standing,
        Query.sampling,
        Query.is_repeat,
    )
    moment = literal(at, Label.created_at.type)
    found = select(
        Query.label_id,
        Query.id,
        *kept,
        literal(labeler),
        moment,
        moment,
    )
    are_new = Query.id.between(*ids) & Query.label_id.is_not(None)
    are_near = on_postgresql(Query.detector_id == detector_id)
    names = ["id", "query_id", *(one.key for one in kept), "labeler"]
    names += ["labelled_at", "created_at"]
    session.execute(insert(Label).from_select(names, found.where(are_new, are_near)))


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
    is_near = on_postgresql(Label.detector_id == Query.detector_id)
    return and_(Label.query_id == Query.id, is_near)


def is_current() -> ColumnElement[bool]:
    """Return the condition that a label is the current one of its query."""
    is_near = on_postgresql(Label.detector_id == Query.detector_id)
    return and_(Label.id == Query.label_id, is_near)


def is_replaced(old: Any) -> ColumnElement[bool]:
    is_near = on_postgresql(old.detector_id == Label.detector_id)
    return and_(old.id == Label.replaces_id, is_near)


def count_since(
    session: Session, detector_id: int, labeler: str, *, since: datetime
) -> tuple[int, int, bool]:
    """Return how many labels a detector was given, by *labeler* and by all.

    Only the newest are looked at, for an import may bring millions on one day; the
    third value says whether they reach back so far.  On SQLite, which has them in the
    order of their ids alone, they are those of all detectors.
    """
    newest = (
        select(Label.detector_id, Label.labeler, Label.created_at)
        # What was taken over was given once.
        .where(Label.source_label_id.is_(None))
        .where(on_postgresql(Label.detector_id == detector_id))
        .order_by(Label.id.desc())
        .limit(MOST_LOOKED_AT)
        .subquery()
    )
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
            Query.group,
            (Label.standing == GROUPED).label("is_grouped"),
        )
        .join(Query, is_of_query())
        .join(Version, is_of_version(Query))
        .where(Query.detector_id == detector_id, *conditions)
        .order_by(Label.id)
    )
    return stream(session, statement)
