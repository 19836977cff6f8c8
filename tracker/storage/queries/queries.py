"""Queries: one input each, what the detector said of it, its current label and tags."""

import json
from collections.abc import Collection, Mapping, Sequence
from datetime import datetime
from functools import cache
from itertools import chain
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.dialects.postgresql import JSONB
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage import base
from tracker.storage.base import (
    Base,
    BigId,
    Name,
    index_some,
    index_where,
    on_postgresql,
    owner,
)
from tracker.storage.detectors import Detector, Version, of_version, select_open
from tracker.storage.dialect import is_sqlite
from tracker.storage.inserting import Prepared, insert_rows
from tracker.words import DISPUTED, GROUPED, REPEAT, UNCLEAR

# The partial indexes, each with its suffix, its condition and its columns.
_SOME = (
    # In two parts: SQLite would read all queries of a detector along a whole one,
    # in an order that has nothing to do with where they lie.
    ("confidence_id_given", "confidence IS NOT NULL", "confidence", "id"),
    ("id_unsure", "confidence IS NULL", "id"),
    # The few that wait for a label among a million that have one.
    ("id_unlabelled", "label IS NULL", "id"),
    # The random queue in its order.
    ("queue_rank_waiting", "queue_rank IS NOT NULL", "queue_rank"),
    # The few that are gold.
    ("gold", "is_gold"),
    # Of those without a label the ones that the detector was least sure of.
    ("confidence_unlabelled", "label IS NULL", "confidence", "id"),
    # By standing and version the queries of a group, of which one is scored.
    ("group_standing_given", '"group" IS NOT NULL', "group", "standing", "version_id"),
    # Those that do not count where versions are pooled, as they are counted.
    ("unpooled", "NOT is_pooled", "standing", "label", "predicted", "version_id"),
    # What was put to several versions; the first query of each alone is scored.
    ("input_given", "input IS NOT NULL", "input", "is_repeat", "label", "version_id"),
    ("agreement_compared", "agreement IS NOT NULL", "agreement", "id"),
    # The few that somebody marked.
    ("id_tagged", "tags IS NOT NULL", "id"),
    # The few whose content was taken away.
    ("erased", "erased_at IS NOT NULL"),
)


class Query(Base):
    """One input put to a detector."""

    __tablename__ = "queries"
    __table_args__ = (
        sa.UniqueConstraint("detector_id", "key"),
        of_version(),
        sa.Index(None, "detector_id", "label", "predicted", "id"),
        # With what spans of time are counted by.
        sa.Index(
            "ix_queries_detector_id_asked_at",
            *("detector_id", "asked_at", "version_id", "is_repeat", "rank"),
        ),
        *(index_some("queries", *one) for one in _SOME),
        # Of those without a label the oldest, which are not kept for ever.
        index_where(
            "label IS NULL", "ix_queries_created_at_id_unlabelled", "created_at", "id"
        ),
        sa.CheckConstraint("confidence >= 0 AND confidence <= 1", name="confidence"),
    )

    detector_id: Mapped[int] = owner("detectors")
    id: Mapped[int] = mapped_column(BigId, primary_key=True)
    version_id: Mapped[int] = mapped_column(BigId)
    key: Mapped[str | None] = mapped_column(Name)
    # What was put in; the same for the queries of several versions about one thing.
    input: Mapped[str | None] = mapped_column(Name)
    # What it belongs to, such as an event; see services/evidence/units.py.
    group: Mapped[str | None] = mapped_column(Name)
    # True where the sender said it; else it is from the metadata.
    is_group_given: Mapped[bool | None]
    predicted: Mapped[str] = mapped_column(Name)
    confidence: Mapped[float | None]
    asked_at: Mapped[datetime]
    created_at: Mapped[datetime]
    # JSON as it was written: a JSON column would round numbers differently on
    # the two databases.
    details: Mapped[str | None] = mapped_column("metadata", sa.Text)
    image: Mapped[str | None] = mapped_column(sa.Text)
    image_url: Mapped[str | None] = mapped_column(sa.Text)
    # The current label, so that a list can be filtered by it.
    label_id: Mapped[int | None] = mapped_column(BigId)
    label: Mapped[str | None] = mapped_column(Name)
    # Of the current label, or as declared when the query arrived.
    sampling: Mapped[str] = mapped_column(sa.Text)
    # What the current label counts for, one of STANDINGS; None without a label.
    standing: Mapped[str | None] = mapped_column(sa.Text)
    # Whether its label was taken over from another version's query by the input.
    is_replayed: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    # Its rank while it waits; see services/evidence/random_queue.py.
    queue_rank: Mapped[float | None]
    # The rank that it had when it arrived, for good; None if it arrived with a label,
    # or was not drawn from, and then it is no part of a span's sample.
    rank: Mapped[float | None]
    # Whether its answer is known to editors; see storage/labelling/golds.py.
    is_gold: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    # Where several people labelled it: agreed, disputed or settled.
    agreement: Mapped[str | None] = mapped_column(sa.Text)
    # Whether its version was put to the input before; such a query is never scored.
    is_repeat: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    # Whether it counts where versions are pooled: of each input one query does.
    is_pooled: Mapped[bool] = mapped_column(default=True, server_default=sa.true())
    # What people marked it with: a JSON list in order, None without any.
    tags: Mapped[str | None] = mapped_column(sa.Text)
    # When its content was taken away; what was counted of it stays.
    erased_at: Mapped[datetime | None]
    # When its image alone was taken away.
    image_erased_at: Mapped[datetime | None]


class LabelledQuery(NamedTuple):
    """What has to be known of a query that is given a label."""

    id: int
    detector_id: int
    version_id: int
    input: str | None
    group: str | None
    label_id: int | None
    sampling: str
    standing: str | None
    is_replayed: bool
    agreement: str | None
    is_repeat: bool
    erased_at: datetime | None
    is_gold: bool


AnyQuery = Query | LabelledQuery


def of_query(**options: Any) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["detector_id", "query_id"], [Query.detector_id, Query.id], **options
    )


def is_about(rows_of: Any, query: Any) -> sa.ColumnElement[bool]:
    """Return the condition that a row, such as a label, is of *query* or its table."""
    is_near = rows_of.detector_id == query.detector_id
    return sa.and_(is_near, rows_of.query_id == query.id)


def is_of_query(rows_of: Any) -> sa.ColumnElement[bool]:
    """Return the condition that joins rows, such as labels, with their queries."""
    is_near = on_postgresql(rows_of.detector_id == Query.detector_id)
    return sa.and_(rows_of.query_id == Query.id, is_near)


def has(rows_of: Any, *conditions: sa.ColumnElement[bool]) -> sa.ColumnElement[bool]:
    """Return the condition that a query has such a row, such as a label."""
    found = sa.select(rows_of.query_id).where(is_about(rows_of, Query), *conditions)
    return found.exists()


def delete_about(session: Session, query: Any, *kinds: type[Base]) -> None:
    """Delete the rows of these *kinds*, such as reservations, that are of a query."""
    for rows_of in kinds:
        base.delete_rows(session, rows_of, is_about(rows_of, query))


def repeat_of(repeat: Any) -> sa.ColumnElement[bool]:
    """Return the condition that *repeat*, an alias, repeats the input of a query."""
    return sa.and_(
        repeat.detector_id == Query.detector_id,
        repeat.input == Query.input,
        repeat.version_id == Query.version_id,
        repeat.is_repeat,
        ~Query.is_repeat,
    )


def has_standing(query: Any, standings: Collection[str]) -> sa.ColumnElement[bool]:
    """Return the condition that the label of *query* has one of *standings*.

    *query* is the table or an alias; a label UNCLEAR counts for no accuracy.
    """
    return sa.and_(query.standing.in_(sorted(standings)), query.label != UNCLEAR)


def update_each() -> Any:
    """Return an UPDATE of one query by the parameters query_id and of_detector."""
    table: Any = Query.__table__
    return sa.update(table).where(
        table.c.id == sa.bindparam("query_id"),
        table.c.detector_id == sa.bindparam("of_detector"),
    )


@cache
def _set_each(names: Sequence[str]) -> Prepared:
    columns = [getattr(Query, name).expression for name in names]
    new = {one: sa.bindparam(one.name, type_=one.type) for one in columns}
    return Prepared(update_each().values(new))


def set_columns(
    session: Session,
    detector_id: int,
    rows: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> None:
    statement = _set_each(tuple(names))
    own = {"of_detector": detector_id}
    values = [{**row, **own, "query_id": row["id"]} for row in rows]
    if values:
        statement.run(session, *values)


def set_pooled(
    session: Session, detector_id: int, query_ids: Sequence[int], *, is_pooled: bool
) -> None:
    rows = [{"id": one, "is_pooled": is_pooled} for one in query_ids]
    set_columns(session, detector_id, rows, ("is_pooled",))


def find_query(session: Session, query_id: int) -> Query | None:
    return base.find_by_id(session, Query, query_id)


def find_query_of(session: Session, detector_id: int, query_id: int) -> Query | None:
    return base.find_row(session, Query, detector_id=detector_id, id=query_id)


# Every label that is given asks this.
_OWNER = Prepared(
    sa.select(Query.detector_id, Query.input.is_(None) & Query.group.is_(None)).where(
        Query.id == sa.bindparam("query_id")
    )
)


def find_owner(session: Session, query_id: int) -> tuple[int, bool] | None:
    """Return the detector of a query, and whether it has neither input nor group."""
    row = _OWNER.first(session, {"query_id": query_id})
    return None if row is None else (int(row[0]), bool(row[1]))


def lock_query(session: Session, detector_id: int, query_id: int) -> Query | None:
    """Return a query that nobody else can label before this transaction ends.

    None if the worker deleted it just now.

    Without it two people who label at once would both replace the same label.
    SQLite has one writer at a time, so that what was read is still true.
    """
    key = detector_id, query_id
    if is_sqlite(session):
        return session.get(Query, key)
    # The session may have read the query before it had to wait for the lock.
    options: Any = {"with_for_update": {"key_share": True}, "populate_existing": True}
    return session.get(Query, key, **options)


# Every query that a program logs asks this, and most keys are new.
_ID_OF_KEY = Prepared(
    sa.select(Query.id).where(
        Query.detector_id == sa.bindparam("detector_id"),
        Query.key == sa.bindparam("key"),
    )
)


def find_query_by_key(session: Session, detector_id: int, key: str) -> Query | None:
    row = _ID_OF_KEY.first(session, {"detector_id": detector_id, "key": key})
    return None if row is None else find_query_of(session, detector_id, row[0])


def add_queries(session: Session, rows: Sequence[dict[str, Any]]) -> None:
    insert_rows(session, Query, rows)


def build_conditions(  # noqa: PLR0913 - one argument for each filter of the list.
    detector_id: int,
    *,
    labelled: bool | None = None,
    predicted: str | None = None,
    label: str | None = None,
    version_id: int | None = None,
    is_wrong: bool | None = None,
    is_counted: bool | None = None,
    standings: Collection[str] = (),
    agreement: str | None = None,
) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that a query of a detector passes every filter given."""
    kind = {"predicted": predicted, "label": label, "agreement": agreement}
    own = {"detector_id": detector_id, "version_id": version_id}
    conditions = base.equal(Query, **own, **kind)
    conditions.append(Query.erased_at.is_(None))
    if labelled is not None:
        has_label = Query.label.is_not(None)
        conditions.append(has_label if labelled else ~has_label)
    if is_wrong is not None:
        is_right = Query.label == Query.predicted
        conditions += [~is_right if is_wrong else is_right, Query.label != UNCLEAR]
    if is_counted is not None:
        scored = has_standing(Query, standings)
        conditions += [Query.label.is_not(None), scored if is_counted else ~scored]
    return conditions


def list_queries(
    session: Session,
    detector_id: int,
    *,
    before: int | None = None,
    limit: int,
    also: Collection[sa.ColumnElement[bool]] = (),
    **filters: Any,
) -> Sequence[Query]:
    """Return queries that pass every filter of ``build_conditions``, newest first."""
    conditions = [*build_conditions(detector_id, **filters), *also]
    return base.list_newest(session, Query, *conditions, before=before, limit=limit)


# Built once: every list of queries asks this.
_AGREEMENT = (
    sa.select(Query.agreement, sa.func.count())
    .where(
        Query.detector_id == sa.bindparam("detector_id"), Query.agreement.is_not(None)
    )
    # Each piece of evidence once: an input by the version that was labelled, and a
    # group by its unit.
    .where(~Query.is_replayed, Query.standing.not_in((REPEAT, GROUPED)))
    .group_by(Query.agreement)
)


def count_agreement(session: Session, detector_id: int) -> dict[str, int]:
    found = session.execute(_AGREEMENT, {"detector_id": detector_id})
    return {str(row[0]): row[1] for row in found}


# Built once: every page of a detector asks this.
_DISPUTED = sa.select(sa.func.count()).where(
    Query.detector_id == sa.bindparam("detector_id"), Query.agreement == DISPUTED
)


def count_disputed(session: Session, detector_id: int) -> int:
    return session.scalar(_DISPUTED, {"detector_id": detector_id}) or 0


def list_by_key(
    session: Session, key: str, among: Collection[int] | None, *, limit: int
) -> Sequence[tuple[int, str]]:
    """Return the queries with that key, and the name of the detector of each."""
    statement = (
        sa.select(Query.id, Detector.name)
        .join(Detector, Detector.id == Query.detector_id)
        .where(Query.key == key, Query.detector_id.in_(select_open(among)))
        .limit(limit)
    )
    return [(number, name) for number, name in session.execute(statement)]


def count_all_disputed(
    session: Session, *, among: Collection[int] | None
) -> Sequence[tuple[int, str, int]]:
    """Return id, name and number of disputed queries of each detector that has some."""
    statement = (
        sa.select(Detector.id, Detector.name, sa.func.count())
        .join(Query, Query.detector_id == Detector.id)
        .where(Query.agreement == DISPUTED, Detector.id.in_(select_open(among)))
        .group_by(Detector.id, Detector.name)
        .order_by(Detector.name)
    )
    return [(key, name, count) for key, name, count in session.execute(statement)]


def list_written_versions(
    session: Session, detector_id: int, at: datetime
) -> Sequence[str]:
    ids = sa.select(Query.version_id).where(
        Query.detector_id == detector_id, Query.created_at == at
    )
    named = sa.select(Version.name).where(Version.detector_id == detector_id)
    return session.scalars(named.where(Version.id.in_(ids))).all()


def find_newest_version_id(session: Session, detector_id: int) -> int | None:
    statement = sa.select(Query.version_id).where(Query.detector_id == detector_id)
    return session.scalar(statement.order_by(Query.id.desc()).limit(1))


# Nobody chooses from more combinations of tags.
_MOST = 1_000


def load_tags(stored: str | None) -> list[str]:
    found: list[str] = [] if stored is None else json.loads(stored)
    return found


def has_tag(session: Session, tag: str) -> list[sa.ColumnElement[bool]]:
    """Return the conditions that a query is marked with *tag*."""
    test: Any
    if is_sqlite(session):
        each = sa.func.json_each(Query.tags).table_valued("value")
        found = sa.select(sa.literal(1)).select_from(each).where(each.c.value == tag)
        test = found.correlate(Query).exists()
    else:
        test = sa.cast(Query.tags, JSONB).has_key(tag)
    # By this condition the index of the queries with a tag is used.
    return [Query.tags.is_not(None), test]


# Built once: every list of queries asks this.
_IN_USE = (
    sa.select(Query.tags)
    .where(Query.detector_id == sa.bindparam("detector_id"), Query.tags.is_not(None))
    .distinct()
    .limit(_MOST)
)


def list_tags(session: Session, detector_id: int) -> list[str]:
    found = session.scalars(_IN_USE, {"detector_id": detector_id})
    return sorted(set(chain.from_iterable(map(load_tags, found))))


def erase_content(
    session: Session,
    query: Query,
    *,
    group: str | None,
    name: str | None,
    erased_at: datetime,
) -> None:
    """Take away what *query* holds beyond what was counted; hashes of names stay."""
    query.group, query.input = group, name
    query.details = query.image = query.image_url = None
    query.queue_rank = query.tags = None
    query.erased_at = erased_at
    if query.agreement == DISPUTED:
        # Nobody can settle it any more.
        query.agreement = None
    session.flush()


def erase_image(session: Session, query: Query, *, erased_at: datetime) -> None:
    query.image = query.image_url = None
    query.image_erased_at = erased_at
    session.flush()
