"""Taking back what an import wrote: which rows it is, and what rests on them."""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import and_, bindparam, delete, literal, or_, select
from sqlalchemy.orm import InstrumentedAttribute, Session, aliased

from tracker.storage.base import on_postgresql
from tracker.storage.estimates.pending import first_id
from tracker.storage.imports.files import FileImport, ImportBatch
from tracker.storage.labelling.audits import AuditItem
from tracker.storage.labelling.golds import Gold
from tracker.storage.labelling.inputs import Reference
from tracker.storage.labelling.labelers import Judgement
from tracker.storage.labelling.rechecks import Recheck
from tracker.storage.labelling.reservations import Draw, Reservation, Skip
from tracker.storage.labels import Label
from tracker.storage.queries.lookup import look_up
from tracker.storage.queries.queries import Query, is_about, update_each

_NEEDED_BY = (AuditItem, Draw, Gold, Recheck)
_BESIDE = (Reservation, Skip, Judgement)


def list_import_batches(session: Session, found: FileImport) -> Sequence[int]:
    mine = (
        ImportBatch.detector_id == found.detector_id,
        ImportBatch.import_id == found.id,
    )
    statement = select(ImportBatch.batch).where(*mine).order_by(ImportBatch.batch)
    return session.scalars(statement).all()


def _is_in(column: InstrumentedAttribute[Any], batch: int) -> Any:
    return column.between(first_id(batch), first_id(batch + 1) - 1)


def lock_written(
    session: Session, detector_id: int, batch: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the queries and the labels of a batch as rows, and lock the queries.

    The queries are those added and those that its labels were given to.
    """
    near = on_postgresql(Label.detector_id == detector_id)
    labels = session.execute(
        select(*Label.__table__.c).where(_is_in(Label.id, batch), near)
    ).all()
    named = select(Label.query_id).where(_is_in(Label.id, batch), near)
    queries = session.execute(
        select(*Query.__table__.c)
        .where(Query.detector_id == detector_id)
        .where(or_(_is_in(Query.id, batch), Query.id.in_(named)))
        .order_by(Query.id)
        .with_for_update()
    ).all()
    return queries, labels


def list_others(
    session: Session, detector_id: int, query_ids: Sequence[int]
) -> Sequence[Any]:
    statement = select(*Label.__table__.c).where(Label.detector_id == detector_id)
    return look_up(session, statement, Label.query_id, query_ids)


def find_needed(
    session: Session, detector_id: int, batch: int, own: Sequence[int]
) -> set[int]:
    """Return the queries of a batch that something needs beside its labels.

    That is an audit, a re-check, or a later query with the same input that is counted
    as a repeat, or a label of another batch than *own* that was taken over from one.
    """
    mine = and_(Query.detector_id == detector_id, _is_in(Query.id, batch))
    found = set[int]()
    for needs in _NEEDED_BY:
        among = select(Query.id).join(needs, is_about(needs, Query)).where(mine)
        found.update(session.scalars(among))
    repeat = aliased(Query)
    repeats = (
        select(Query.id, repeat.id)
        .join(
            repeat,
            and_(
                repeat.detector_id == Query.detector_id,
                repeat.input == Query.input,
                repeat.version_id == Query.version_id,
                repeat.is_repeat,
            ),
        )
        .where(mine, ~Query.is_repeat)
    )
    known = set(own)
    rows = session.execute(repeats)
    found.update(query for query, other in rows if other // first_id(1) not in known)
    return found


def find_taken_over(
    session: Session, detector_id: int, batch: int, own: Sequence[int]
) -> set[int]:
    """Return the labels of a batch that labels of others were taken over from."""
    statement = select(Label.source_label_id, Label.id).where(
        Label.detector_id == detector_id, Label.id > first_id(batch)
    )
    found = session.execute(statement.where(_is_in(Label.source_label_id, batch)))
    known = set(own)
    return {
        source
        for source, id_ in found
        if source is not None and id_ // first_id(1) not in known
    }


_RESTORED = (
    *("key", "input", "group", "details", "image", "image_url", "tags"),
    *("label", "label_id", "sampling", "standing", "is_replayed", "agreement"),
    *("queue_rank", "rank", "erased_at"),
)


def restore(
    session: Session, detector_id: int, queries: Sequence[Mapping[str, Any]]
) -> None:
    """Set queries as they were before, or take away what they held."""
    columns = {name: getattr(Query, name).expression for name in _RESTORED}
    statement = update_each().values(
        {
            column: bindparam(f"new_{name}", type_=column.type)
            for name, column in columns.items()
        }
    )
    rows = [
        {"query_id": query["id"], "of_detector": detector_id}
        | {f"new_{name}": query[columns[name].name] for name in _RESTORED}
        for query in queries
    ]
    if rows:
        session.connection().execute(statement, rows)


def clear_beside(session: Session, detector_id: int, query_ids: Sequence[int]) -> None:
    for beside in _BESIDE:
        statement = delete(beside).where(
            beside.detector_id == detector_id, beside.query_id.in_(query_ids)
        )
        session.execute(statement)


def pool_again(session: Session, detector_id: int, inputs: Sequence[str]) -> Any:
    """Return the queries with these inputs, as they are pooled."""
    statement = select(Query.id, Query.input, Query.version_id, Query.is_pooled).where(
        Query.detector_id == detector_id, ~Query.is_repeat
    )
    return look_up(session, statement, Query.input, inputs)


def set_pooled(session: Session, detector_id: int, query_ids: Sequence[int]) -> None:
    """Let queries count where versions are pooled."""
    rows = [{"query_id": one, "of_detector": detector_id} for one in query_ids]
    if rows:
        statement = update_each().values(is_pooled=literal(True))
        session.connection().execute(statement, rows)


def delete_verdicts_of(
    session: Session, detector_id: int, batches: Sequence[int]
) -> int:
    """Delete the verdicts of judges that these batches wrote and nobody changed."""
    mine = Judgement.detector_id == detector_id, Judgement.batch.in_(batches)
    result: Any = session.execute(delete(Judgement).where(*mine))
    return int(result.rowcount)


def delete_references_of(session: Session, detector_id: int, batch: int) -> int:
    """Delete the references that a batch wrote and nobody changed since."""
    mine = Reference.detector_id == detector_id, Reference.batch == batch
    result: Any = session.execute(delete(Reference).where(*mine))
    return int(result.rowcount)
