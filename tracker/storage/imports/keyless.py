"""Files of rows without keys, so that a later file can be recognised as longer."""

from base64 import b64decode, b64encode
from collections.abc import Generator
from contextlib import closing

from sqlalchemy import ForeignKey, Text, UniqueConstraint, select, update
from sqlalchemy.orm import Mapped, Session, mapped_column

from tracker.storage.base import Base, BigId, stream
from tracker.storage.detectors import Detector

# A file is compared with so many before it; each small import is one of them.
_MOST_COMPARED = 1_000


class KeylessFile(Base):
    """A file with rows that have no key, and what each of them said."""

    __tablename__ = "keyless_files"
    __table_args__ = (UniqueConstraint("detector_id", "digest"),)

    detector_id: Mapped[int] = mapped_column(ForeignKey(Detector.id), primary_key=True)
    id: Mapped[int] = mapped_column(BigId, primary_key=True, autoincrement=True)
    # The beginning of the file's hash.
    digest: Mapped[str] = mapped_column(Text)
    # How the keys of its rows begin; several files share it where one goes on with
    # another.
    prefix: Mapped[str] = mapped_column(Text)
    # Of each row four bytes, in base64 as backups are text; None once another file has
    # gone on with this one.
    hashes: Mapped[str | None] = mapped_column(Text)


def find_prefix(session: Session, detector_id: int, digest: str) -> str | None:
    """Return how the keys of a file's rows begin, if it was imported before."""
    return session.scalar(
        select(KeylessFile.prefix).where(
            KeylessFile.detector_id == detector_id, KeylessFile.digest == digest
        )
    )


def iter_newest(session: Session, detector_id: int) -> Generator[tuple[str, bytes]]:
    """Yield the prefix and the hashes of each file with which others may go on."""
    statement = (
        select(KeylessFile.prefix, KeylessFile.hashes)
        .where(KeylessFile.detector_id == detector_id)
        .where(KeylessFile.hashes.is_not(None))
        .order_by(KeylessFile.id.desc())
        .limit(_MOST_COMPARED)
    )
    # Each may have some megabytes.
    with closing(stream(session, statement, rows=1)) as rows:
        for prefix, hashes in rows:
            yield prefix, b64decode(hashes)


def note_file(
    session: Session, detector_id: int, digest: str, prefix: str, hashes: bytes
) -> None:
    """Note a file that was imported, with which the next one may go on."""
    mine = KeylessFile.detector_id == detector_id
    session.execute(
        update(KeylessFile)
        .where(mine, KeylessFile.prefix == prefix)
        .values(hashes=None)
    )
    found = session.scalar(
        select(KeylessFile).where(mine, KeylessFile.digest == digest)
    )
    if found is None:
        found = KeylessFile(detector_id=detector_id, digest=digest)
        session.add(found)
    found.prefix, found.hashes = prefix, b64encode(hashes).decode()
    session.flush()


def take_hashes(session: Session, detector_id: int, digest: str, prefix: str) -> bytes:
    """Forget the file of *digest*, and return what is noted of rows with *prefix*."""
    found = session.scalars(
        select(KeylessFile).where(
            KeylessFile.detector_id == detector_id, KeylessFile.prefix == prefix
        )
    ).all()
    packed = next((one.hashes for one in found if one.hashes is not None), "")
    for one in found:
        one.hashes = None
        if one.digest == digest:
            session.delete(one)
    session.flush()
    return b64decode(packed)
