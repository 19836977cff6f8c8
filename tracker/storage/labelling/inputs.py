"""Inputs: their queries, labels and references."""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from operator import attrgetter
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import insert
from sqlalchemy.orm import Mapped, Session, aliased, mapped_column

from tracker.storage.base import (
    Base,
    BigId,
    Name,
    columns_of,
    on_postgresql,
    owner,
    stream,
)
from tracker.storage.dialect import is_sqlite
from tracker.storage.inserting import Prepared, insert_rows
from tracker.storage.labels import Label
from tracker.storage.queries.lookup import lock_found, look_up
from tracker.storage.queries.queries import (
    Query,
    has_standing,
    is_of_query,
    update_each,
)
from tracker.words import SAMPLINGS, UNCLEAR


class Reference(Base):
    """The label of an input, which queries with that input take over."""

    __tablename__ = "input_references"
    __table_args__ = (
        sa.CheckConstraint(f"sampling IN {SAMPLINGS}", name="sampling"),
        {"sqlite_with_rowid": False},
    )

    detector_id: Mapped[int] = owner("detectors")
    input: Mapped[str] = mapped_column(Name, primary_key=True)
    label: Mapped[str] = mapped_column(Name)
    sampling: Mapped[str] = mapped_column(sa.Text)
    labeler: Mapped[str] = mapped_column(sa.Text)
    labelled_at: Mapped[datetime]
    created_at: Mapped[datetime]
    # The batch of the import that wrote it.
    batch: Mapped[int | None] = mapped_column(BigId)


# Built once: each piece of an import asks this, and most detectors have none.
_ANY_REFERENCE = Prepared(
    sa.select(Reference.detector_id)
    .where(Reference.detector_id == sa.bindparam("detector_id"))
    .limit(1)
)


def find_references(
    session: Session, detector_id: int, inputs: Collection[str]
) -> dict[str, Any]:
    if _ANY_REFERENCE.first(session, {"detector_id": detector_id}) is None:
        return {}
    statement = sa.select(*Reference.__table__.c)
    rows = look_up(session, detector_id, statement, Reference.input, [*inputs])
    return {row.input: row for row in rows}


def put_references(
    session: Session,
    new: Sequence[Mapping[str, Any]],
    changed: Sequence[dict[str, Any]],
) -> None:
    """Add *new* references, and change others; their inputs are locked."""
    if new:
        insert_rows(session, Reference, new)
    if changed:
        session.execute(sa.update(Reference), list(changed))


_AT_ONCE = 5_000


class InputLock(Base):
    """What a transaction holds while it changes the truth of an input, or a group.

    A row for each of them, named by a hash.  Two queries may bring a new input at the
    same time, so that there is no other row yet to be held; and a file may bring more
    inputs than PostgreSQL has room for in its table of locks.
    """

    __tablename__ = "input_locks"
    __table_args__ = ({"sqlite_with_rowid": False},)

    detector_id: Mapped[int] = mapped_column(
        BigId, primary_key=True, autoincrement=False
    )
    number: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=False)


def lock_inputs(session: Session, detector_id: int, inputs: Iterable[str]) -> None:
    """Keep others from the truth of *inputs* until this transaction ends.

    Go first here, then for the rows of the queries.  Two inputs may share a lock by
    chance, which costs time and nothing else.  SQLite has one writer at a time.
    """
    names = set(inputs)
    if not names or is_sqlite(session):
        return
    # In one order, or two of them would wait for each other.
    digests = (hashlib.blake2b(name.encode(), digest_size=8) for name in names)
    numbers = sorted({int.from_bytes(one.digest(), signed=True) for one in digests})
    source = sa.select(
        sa.cast(detector_id, sa.BigInteger),
        sa.func.unnest(sa.cast(numbers, sa.ARRAY(sa.BigInteger))),
    )
    statement = insert(InputLock).from_select(["detector_id", "number"], source)
    # To change a row without changing it is what holds it.
    session.execute(
        statement.on_conflict_do_update(
            index_elements=["detector_id", "number"],
            set_={"number": statement.excluded.number},
        )
    )


def lock_groups(session: Session, detector_id: int, groups: Iterable[str]) -> None:
    """Lock *groups* after inputs, and before the rows of the queries."""
    # No input begins with a control character.
    lock_inputs(session, detector_id, (f"\0group:{name}" for name in groups))


# Built once: every query with an input asks this.
_ERASED = Prepared(
    sa.select(Query.id)
    .where(
        Query.detector_id == sa.bindparam("detector_id"), Query.erased_at.is_not(None)
    )
    .limit(1)
)


def has_erased(session: Session, detector_id: int) -> bool:
    return _ERASED.first(session, {"detector_id": detector_id}) is not None


def find_firsts(
    session: Session, detector_id: int, inputs: Collection[str]
) -> set[tuple[int, str]]:
    """Return of each version, by its id, which of *inputs* were put to it."""
    statement = sa.select(Query.version_id, Query.input).where(~Query.is_repeat)
    rows = look_up(session, detector_id, statement, Query.input, [*inputs])
    return {(version_id, name) for version_id, name in rows}


def find_truths(
    session: Session,
    detector_id: int,
    inputs: Collection[str],
    *,
    of_repeats: bool = False,
) -> dict[str, Any]:
    """Return the current label of each of *inputs* that has one, with its query.

    Or that *of repeats*, which are left where the first query was erased.
    """
    is_its = (Label.id == Query.label_id) & is_of_query(Label)
    label: type[Label] = Label
    on: sa.ColumnElement[bool] = is_its
    if not is_sqlite(session):
        # Without statistics PostgreSQL reads all labels of the detector for each input;
        # what has an offset is looked up for its query.
        its = sa.select(Label).where(is_its).correlate(Query).offset(0).lateral("its")
        label, on = aliased(Label, its), sa.true()
    columns = (
        *(Query.input, Query.id.label("query_id"), Query.label, Query.sampling),
        *(Query.standing, Query.agreement, label.id, label.source_label_id),
        *(label.labeler, label.labelled_at, label.created_at),
    )
    statement = sa.select(*columns).join(label, on)
    if not of_repeats:
        statement = statement.where(~Query.is_repeat)
    rows = look_up(session, detector_id, statement, Query.input, [*inputs])
    # Before inputs had a truth their queries could be given different ones.
    newest_last = sorted(rows, key=attrgetter("created_at", "id"))
    return {row.input: row for row in newest_last}


class Sharing(NamedTuple):
    """A query that shares the label of its input."""

    id: int
    version_id: int
    key: str | None
    input: str
    group: str | None
    label_id: int | None
    label: str | None
    sampling: str
    standing: str | None
    is_replayed: bool
    is_repeat: bool


_SHARING = columns_of(Query, *Sharing._fields)
# Built once: every label of a query with an input asks this.
_OF_INPUT = Prepared(
    sa.select(*_SHARING)
    .where(
        Query.detector_id == sa.bindparam("detector_id"),
        Query.input == sa.bindparam("input"),
    )
    # In the order of the ids SQLite would read all queries of the detector.
    .order_by(Query.id + 0)
    .with_for_update(key_share=True)
)


def iter_queries_of(
    session: Session, detector_id: int, inputs: Sequence[str]
) -> Iterator[Sharing]:
    """Yield the queries of a detector with these *inputs*, locked, by id."""
    if len(inputs) == 1:
        chosen = {"detector_id": detector_id, "input": inputs[0]}
        yield from map(Sharing._make, _OF_INPUT.run(session, chosen))
        return
    for start in range(0, len(inputs), _AT_ONCE):
        piece = list(inputs[start : start + _AT_ONCE])
        statement = sa.select(*_SHARING)
        found = lock_found(session, detector_id, statement, Query.input, piece)
        yield from map(Sharing._make, found)


_NEW_INPUT = {
    name: sa.bindparam(name, type_=Query.__table__.c[name].type)
    for name in ("input", "is_repeat", "is_pooled")
}
_KEPT_RANK = sa.case((~_NEW_INPUT["is_repeat"], Query.__table__.c.queue_rank))
_SET_INPUT = Prepared(update_each().values(**_NEW_INPUT, queue_rank=_KEPT_RANK))


def set_inputs(
    session: Session, detector_id: int, rows: Sequence[Mapping[str, Any]]
) -> None:
    """Set ``input``, ``is_repeat`` and ``is_pooled`` of the queries ``id``.

    A repeat leaves the random queue, where the first query with its input stands.
    """
    own = {"of_detector": detector_id}
    _SET_INPUT.run(session, *({**row, **own, "query_id": row["id"]} for row in rows))


_OLD, _NEW, _ANY = aliased(Query), aliased(Query), aliased(Query)


def iter_replayable(
    session: Session, detector_id: int, version_id: int, *, standings: Collection[str]
) -> Iterator[Any]:
    """Yield the first queries of inputs of a version with a label of *standings*."""
    statement = sa.select(_OLD.id, _OLD.input, _OLD.group, _OLD.key)
    chosen = _labelled(detector_id, standings)
    yield from stream(session, statement.where(*chosen, _OLD.version_id == version_id))


def iter_replayed(
    session: Session, detector_id: int, version_id: int, *, standings: Collection[str]
) -> Iterator[Any]:
    """Yield the same of all other versions, by id, with what one version said.

    ``labelled`` is when any version had a label of the input first, ``asked`` when the
    one version got it.  References follow, of the version None.
    """
    said = (_NEW.predicted, _NEW.created_at.label("asked"))
    own = Reference.detector_id == detector_id, Reference.input == _OLD.input
    referred = sa.select(Reference.created_at).where(*own).scalar_subquery()
    old = _OLD.id, _OLD.input, _OLD.group, _OLD.key, _OLD.version_id, _OLD.label
    queries = (
        sa.select(*old)
        .add_columns(*said, _first_label(detector_id), referred.label("referred"))
        .outerjoin(_NEW, _is_put_to(_OLD.input, detector_id, version_id))
        .where(*_labelled(detector_id, standings), _OLD.version_id != version_id)
    )
    yield from stream(session, queries.order_by(_OLD.id))
    names = ("group", "version_id", "labelled")
    nothing = [sa.null().label(name) for name in names]
    references = (
        sa.select(Reference.input, Reference.label, *nothing, *said)
        .add_columns(Reference.created_at.label("referred"))
        .outerjoin(_NEW, _is_put_to(Reference.input, detector_id, version_id))
        .where(
            Reference.detector_id == detector_id,
            Reference.sampling.in_(sorted(standings)),
            Reference.label != UNCLEAR,
        )
    )
    yield from stream(session, references.order_by(Reference.input))


def _is_put_to(name: Any, detector_id: int, version_id: int) -> sa.ColumnElement[bool]:
    return sa.and_(
        _NEW.detector_id == detector_id,
        _NEW.version_id == version_id,
        _NEW.input == name,
        ~_NEW.is_repeat,
    )


def _first_label(detector_id: int) -> Any:
    found = sa.select(sa.func.min(Label.created_at))
    chosen = found.join(_ANY, _ANY.id == Label.query_id).where(
        _ANY.detector_id == detector_id,
        _ANY.input == _OLD.input,
        on_postgresql(Label.detector_id == detector_id),
    )
    return chosen.correlate(_OLD).scalar_subquery().label("labelled")


def _labelled(detector_id: int, standings: Collection[str]) -> tuple[Any, ...]:
    return (
        _OLD.detector_id == detector_id,
        _OLD.input.is_not(None),
        ~_OLD.is_repeat,
        has_standing(_OLD, standings),
    )
