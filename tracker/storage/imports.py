"""Imports with their progress, the pieces of their files, and the batches they wrote.

Each piece of rows is one transaction, which also notes how many rows are done, what was
added and in which batches.  The next worker goes on after the last committed piece, so
that no row is written twice, however often workers die.  The last piece also ends the
import and its task.

Such a transaction holds the task at its end.  If another worker has taken the task
meanwhile, it is refused, and the whole late piece is rolled back.
"""

from array import array
from base64 import b64decode, b64encode
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from datetime import datetime
from struct import pack, unpack
from typing import Any, BinaryIO, TypeAlias

import sqlalchemy as sa
from sqlalchemy.orm import (
    InstrumentedAttribute,
    Mapped,
    Session,
    aliased,
    mapped_column,
)

from tracker.files import PlacedFile
from tracker.storage import base
from tracker.storage.base import (
    Base,
    BigId,
    Key,
    index_where,
    on_postgresql,
    owner,
    stream,
)
from tracker.storage.estimates.pending import first_id
from tracker.storage.labelling.audits import AuditItem
from tracker.storage.labelling.golds import Gold
from tracker.storage.labelling.rechecks import Recheck
from tracker.storage.labelling.reservations import Draw
from tracker.storage.labels import Label
from tracker.storage.queries.lookup import look_up
from tracker.storage.queries.queries import Query, is_about, repeat_of, set_columns
from tracker.words import ON_ERROR, ActorKind

PIECE_BYTES = 2**20
# The size of a file of which some is still to come; see ``arriving``.
STILL_ARRIVING = -1
STATES = ("waiting", "running", "done", "rejected", "failed", "undone")
WAITING, RUNNING, DONE, REJECTED, FAILED, UNDONE = STATES


class FileImport(Base):
    """A file that a worker imports; the row stays when it has."""

    __tablename__ = "imports"
    __table_args__ = (
        index_where("finished_at IS NULL", "ix_imports_id_unfinished", "id"),
        sa.CheckConstraint(f"on_error IN {ON_ERROR}", name="on_error"),
        sa.CheckConstraint(f"state IN {STATES}", name="state"),
    )

    detector_id: Mapped[int] = owner("detectors")
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    # A name in services/imports/reading/files.py.
    format: Mapped[str] = mapped_column(sa.Text)
    on_error: Mapped[str] = mapped_column(sa.Text)
    sha256: Mapped[str] = mapped_column(sa.Text)
    # How large the file is; its pieces are gone once the import has ended.
    bytes: Mapped[int] = mapped_column(BigId)
    # Who sent it and from where, for the audit log; the labels are theirs.
    actor: Mapped[str] = mapped_column(sa.Text)
    actor_kind: Mapped[ActorKind] = mapped_column(sa.Text)
    address: Mapped[str] = mapped_column(sa.Text)
    # What was said beside the file; see services/imports/reading/choices.py.
    choices: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    created_at: Mapped[datetime]
    state: Mapped[str] = mapped_column(sa.Text, default=WAITING)
    # Of the last attempt.
    started_at: Mapped[datetime | None]
    finished_at: Mapped[datetime | None]
    # How far it was when last noted.
    rows_read: Mapped[int] = mapped_column(BigId, default=0)
    bytes_read: Mapped[int] = mapped_column(BigId, default=0)
    # How many rows the file has, once all are checked.
    rows: Mapped[int | None] = mapped_column(BigId)
    # After which row the next attempt goes on; bad rows count.
    rows_done: Mapped[int] = mapped_column(BigId, default=0)
    # What was added so far; once the import has ended, also how the file was read.
    report: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON(none_as_null=True))
    error: Mapped[str | None] = mapped_column(sa.Text)


_HAS_ARRIVED = FileImport.bytes != STILL_ARRIVING


# How much of a file was read in this attempt: rows_read and bytes_read, and once all
# are checked rows.
Progress = dict[str, int]


def find_import(session: Session, import_id: int) -> FileImport | None:
    found = base.find_by_id(session, FileImport, import_id)
    return None if found is None or found.bytes == STILL_ARRIVING else found


def list_imports(
    session: Session, detector_id: int, *, before: int | None = None, limit: int
) -> Sequence[FileImport]:
    own = FileImport.detector_id == detector_id, _HAS_ARRIVED
    return base.list_newest(session, FileImport, *own, before=before, limit=limit)


def is_importing(detector_id: sa.SQLColumnExpression[int]) -> sa.ColumnElement[bool]:
    return sa.exists().where(
        FileImport.detector_id == detector_id,
        FileImport.started_at.is_not(None),
        FileImport.finished_at.is_(None),
    )


def count_waiting(session: Session) -> int:
    return base.count_rows(
        session, FileImport, FileImport.finished_at.is_(None), _HAS_ARRIVED
    )


def list_waiting(session: Session, *, since: datetime) -> Sequence[FileImport]:
    is_open = FileImport.finished_at.is_(None), FileImport.state == WAITING
    is_old = FileImport.created_at <= since, _HAS_ARRIVED
    return base.list_rows(session, FileImport, *is_open, *is_old)


def resume_import(session: Session, key: Key) -> bool:
    """Let an import that failed wait for a worker; False if it did not fail."""
    has_failed = FileImport.state == FAILED, _HAS_ARRIVED
    said = {"state": WAITING, "finished_at": None, "error": None}
    return change_import(session, key, *has_failed, **said)


def change_import(
    session: Session, key: Key, *are: sa.ColumnElement[bool], **values: Any
) -> bool:
    return base.change_rows(session, FileImport, _has(key), *are, **values) > 0


def _has(key: Key) -> sa.ColumnElement[bool]:
    return base.are_among(FileImport, [key])


def is_arriving(session: Session, key: Key) -> bool:
    """Whether the file of an import is still arriving, and was not given up."""
    arriving = _has(key), ~_HAS_ARRIVED, FileImport.state == WAITING
    return base.count_rows(session, FileImport, *arriving) > 0


def give_up_arriving(session: Session, key: Key) -> bool:
    """Let nothing more be added to the file of an import; False if it is complete."""
    return change_import(session, key, ~_HAS_ARRIVED, state=FAILED)


def delete_import(session: Session, key: Key) -> None:
    base.delete_rows(session, FileImport, _has(key), ~_HAS_ARRIVED)


def _of_import() -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint(
        ["detector_id", "import_id"], [FileImport.detector_id, FileImport.id]
    )


def _of(key: Key) -> dict[str, Any]:
    return dict(zip(("detector_id", "import_id"), key, strict=True))


class ImportPiece(Base):
    """A part of a file; all but the last are as large as can be."""

    __tablename__ = "import_pieces"
    __table_args__ = (_of_import(),)

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    import_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    position: Mapped[int] = mapped_column(primary_key=True)
    content: Mapped[bytes] = mapped_column(sa.LargeBinary)


def add_piece(session: Session, key: Key, position: int, content: bytes) -> None:
    row = _of(key) | {"position": position, "content": content}
    session.execute(sa.insert(ImportPiece), row)


def cut_pieces(*files: BinaryIO) -> Iterator[bytes]:
    """Yield *files*, each from its beginning, as the pieces of one."""
    held = b""
    for file in files:
        file.seek(0)
        while content := file.read(PIECE_BYTES - len(held)):
            held += content
            if len(held) == PIECE_BYTES:
                yield held
                held = b""
    if held:
        yield held


def measure_pieces(session: Session, key: Key) -> int:
    length = sa.select(sa.func.sum(sa.func.length(ImportPiece.content)))
    return int(session.scalar(length.filter_by(**_of(key))) or 0)


def delete_some_pieces(session: Session, key: Key, *, limit: int) -> bool:
    """Delete so many parts of a file; False if there was none."""
    some = sa.select(ImportPiece.position).filter_by(**_of(key)).limit(limit)
    chosen = ImportPiece.position.in_(some)
    return base.delete_rows(session, ImportPiece, chosen, **_of(key)) > 0


class PieceFile(PlacedFile):
    """The file of an import, read in transactions that *reads* opens, by the piece."""

    def __init__(
        self, reads: Callable[[], AbstractContextManager[Session]], key: Key, size: int
    ) -> None:
        super().__init__(size)
        self._reads = reads
        self._key = key
        self._held: tuple[int, bytes] = (-1, b"")

    def readinto(self, buffer: Any, /) -> int:
        """Read the next bytes, at most to the end of a piece."""
        position, offset = divmod(self._place, PIECE_BYTES)
        if self._held[0] != position:
            self._held = (position, self._load(position))
        left = max(0, self._size - self._place)
        found = self._held[1][offset : offset + min(len(buffer), left)]
        buffer[: len(found)] = found
        self._place += len(found)
        return len(found)

    def _load(self, position: int) -> bytes:
        mine = _of(self._key) | {"position": position}
        statement = sa.select(ImportPiece.content).filter_by(**mine)
        with self._reads() as session:
            return session.scalar(statement) or b""


class ImportBatch(Base):
    """A batch of queries and labels that an import wrote."""

    __tablename__ = "import_batches"
    __table_args__ = (_of_import(), {"sqlite_with_rowid": False})

    detector_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    import_id: Mapped[int] = mapped_column(BigId, primary_key=True)
    batch: Mapped[int] = mapped_column(BigId, primary_key=True)


def note_batches(session: Session, key: Key, batches: Sequence[int]) -> None:
    session.add_all(ImportBatch(batch=batch, **_of(key)) for batch in batches)
    session.flush()


# Of each row of a file; 0 where it has a key or was wrong.
Hashes: TypeAlias = "array[int]"
# A file is compared with so many before it; each small import is one of them.
_MOST_COMPARED = 1_000


class KeylessFile(Base):
    """A file with rows that have no key, and what each of them said."""

    __tablename__ = "keyless_files"
    __table_args__ = (sa.UniqueConstraint("detector_id", "digest"),)

    detector_id: Mapped[int] = owner("detectors")
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    # The beginning of the file's hash.
    digest: Mapped[str] = mapped_column(sa.Text)
    # How the keys of its rows begin; several files share it where one goes on with
    # another.
    prefix: Mapped[str] = mapped_column(sa.Text)
    # Of each row four bytes, in base64 as backups are text; None once another file has
    # gone on with this one.
    hashes: Mapped[str | None] = mapped_column(sa.Text)


def find_prefix(session: Session, detector_id: int, digest: str) -> str | None:
    own = {"detector_id": detector_id, "digest": digest}
    return session.scalar(sa.select(KeylessFile.prefix).filter_by(**own))


def iter_newest(session: Session, detector_id: int) -> Generator[tuple[str, Hashes]]:
    """Yield the prefix and the hashes of each file with which others may go on."""
    statement = (
        sa.select(KeylessFile.prefix, KeylessFile.hashes)
        .where(KeylessFile.detector_id == detector_id)
        .where(KeylessFile.hashes.is_not(None))
        .order_by(KeylessFile.id.desc())
        .limit(_MOST_COMPARED)
    )
    # Each may have some megabytes.
    with closing(stream(session, statement, rows=1)) as rows:
        for prefix, hashes in rows:
            yield prefix, _unpack(hashes)


def _unpack(hashes: str) -> Hashes:
    # Stored as four bytes each, the lowest first, on any machine.
    packed = b64decode(hashes)
    return array("I", unpack(f"<{len(packed) // 4}I", packed))


def note_file(
    session: Session, detector_id: int, digest: str, prefix: str, hashes: Hashes
) -> None:
    """Note a file that was imported, with which the next one may go on."""
    same = KeylessFile.detector_id == detector_id, KeylessFile.prefix == prefix
    base.change_rows(session, KeylessFile, *same, hashes=None)
    own: dict[str, Any] = {"detector_id": detector_id, "digest": digest}
    found = base.find_row(session, KeylessFile, **own) or KeylessFile(**own)
    session.add(found)
    packed = pack(f"<{len(hashes)}I", *hashes)
    found.prefix, found.hashes = prefix, b64encode(packed).decode()
    session.flush()


def take_hashes(session: Session, detector_id: int, digest: str, prefix: str) -> Hashes:
    """Forget the file of *digest*, and return what is noted of rows with *prefix*."""
    same = KeylessFile.detector_id == detector_id, KeylessFile.prefix == prefix
    found = base.list_rows(session, KeylessFile, *same)
    packed = next((one.hashes for one in found if one.hashes is not None), "")
    for one in found:
        one.hashes = None
        if one.digest == digest:
            session.delete(one)
    session.flush()
    return _unpack(packed)


_NEEDED_BY = (AuditItem, Draw, Gold, Recheck)


def list_import_batches(session: Session, found: FileImport) -> Sequence[int]:
    mine = sa.select(ImportBatch.batch).filter_by(**_of((found.detector_id, found.id)))
    return session.scalars(mine.order_by(ImportBatch.batch)).all()


def _is_in(column: InstrumentedAttribute[Any], batch: int) -> Any:
    return column.between(first_id(batch), first_id(batch + 1) - 1)


def lock_written(
    session: Session, detector_id: int, batch: int
) -> tuple[Sequence[Any], Sequence[Any]]:
    """Return the queries that a batch added or labelled, locked, and its labels."""
    near = on_postgresql(Label.detector_id == detector_id)
    labels = session.execute(
        sa.select(*Label.__table__.c).where(_is_in(Label.id, batch), near)
    ).all()
    named = sa.select(Label.query_id).where(_is_in(Label.id, batch), near)
    queries = session.execute(
        sa.select(*Query.__table__.c)
        .where(Query.detector_id == detector_id)
        .where(sa.or_(_is_in(Query.id, batch), Query.id.in_(named)))
        .order_by(Query.id)
        .with_for_update()
    ).all()
    return queries, labels


def find_needed(
    session: Session, detector_id: int, batch: int, own: Sequence[int]
) -> set[int]:
    """Return the queries of a batch that something needs beside its labels.

    That is an audit, a re-check, or a later query with the same input that is counted
    as a repeat, or a label of another batch than *own* that was taken over from one.
    """
    mine = sa.and_(Query.detector_id == detector_id, _is_in(Query.id, batch))
    found = set[int]()
    for needs in _NEEDED_BY:
        among = sa.select(Query.id).join(needs, is_about(needs, Query)).where(mine)
        found.update(session.scalars(among))
    repeat = aliased(Query)
    is_like = repeat_of(repeat)
    repeats = sa.select(Query.id, repeat.id).join(repeat, is_like).where(mine)
    known = set(own)
    rows = session.execute(repeats)
    found.update(query for query, other in rows if other // first_id(1) not in known)
    return found


def find_taken_over(
    session: Session, detector_id: int, batch: int, own: Sequence[int]
) -> set[int]:
    """Return the labels of a batch that labels of others were taken over from."""
    statement = sa.select(Label.source_label_id, Label.id).where(
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
    set_columns(session, detector_id, queries, _RESTORED)


def pool_again(session: Session, detector_id: int, inputs: Sequence[str]) -> Any:
    """Return the queries with these inputs, as they are pooled."""
    columns = Query.id, Query.input, Query.version_id, Query.is_pooled
    statement = sa.select(*columns).where(~Query.is_repeat)
    return look_up(session, detector_id, statement, Query.input, inputs)
