"""Detectors and their versions."""

from collections.abc import Collection, Iterable, Sequence
from datetime import UTC, datetime, tzinfo
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

import sqlalchemy as sa
from sqlalchemy.orm import Mapped, Session, mapped_column, undefer

from tracker.errors import ConflictError
from tracker.storage import base, inserting


class Detector(base.Base):
    """A classifier under measurement, with its question and its classes.

    ``NewDetector`` in services/detectors.py says what each setting means.
    """

    __tablename__ = "detectors"
    __table_args__ = (
        # Archiving a detector frees its name.
        base.index_where(
            "archived_at IS NULL", "uq_detectors_name_unarchived", "name", unique=True
        ),
        sa.CheckConstraint(
            "confidence_level > 0 AND confidence_level < 1", name="level"
        ),
        {"sqlite_autoincrement": True},
    )

    id: Mapped[int] = mapped_column(base.BigId, primary_key=True)
    name: Mapped[str] = mapped_column(base.Name)
    question: Mapped[str] = mapped_column(base.Name)
    guideline: Mapped[str] = mapped_column(sa.Text, server_default=sa.text("''"))
    classes: Mapped[list[str]] = mapped_column(sa.JSON)
    # Classes added later, each with the instant: [["MAYBE", "2026-…Z"]].
    added_classes: Mapped[list[list[str]]] = base.text_list()
    confidence_level: Mapped[float]
    target: Mapped[float | None]
    # When the target was set last: thresholds may have been looked at since.
    target_at: Mapped[datetime | None]
    # The measure of the target; see services/evidence/measure.py.
    measure: Mapped[str] = mapped_column(base.Name, server_default="balanced")
    # Further measures, each with its target: [["recall:DEFECT", 0.9]].
    also: Mapped[list[list[Any]]] = base.text_list()
    created_at: Mapped[datetime]
    archived_at: Mapped[datetime | None]
    # The zone of the days by which labels are counted.
    time_zone: Mapped[str] = mapped_column(sa.Text, server_default="UTC", default="UTC")
    queue_rate: Mapped[float] = mapped_column(server_default="1")
    labels_wanted: Mapped[int] = mapped_column(server_default="1")
    consensus: Mapped[str] = mapped_column(sa.Text, server_default="majority")
    label_sampling: Mapped[str | None] = mapped_column(sa.Text)
    # Fixed when the detector is created.
    label_of: Mapped[str] = mapped_column(sa.Text, server_default="input")
    # The stated frequencies of the classes, and when they were stated.
    class_shares: Mapped[dict[str, float] | None] = mapped_column(
        sa.JSON(none_as_null=True)
    )
    class_shares_at: Mapped[datetime | None]
    reference: Mapped[float | None]
    group_by: Mapped[str | None] = mapped_column(sa.Text)
    # None while no query has a group, else whether groups must be counted again.
    groups: Mapped[str | None] = mapped_column(sa.Text)
    gold_rate: Mapped[float] = mapped_column(server_default="0")
    method: Mapped[str] = mapped_column(sa.Text, server_default="joint")
    # The name of the version shown by default; None for the one that answers most new
    # queries.
    production_version: Mapped[str | None] = mapped_column(base.Name)
    # That version, since when, and the counts behind it; see services/versions.py.
    shown_version_id: Mapped[int | None] = mapped_column(base.BigId)
    shown_since: Mapped[datetime | None]
    traffic: Mapped[list[Any]] = base.text_list(deferred=True)
    queue_seed: Mapped[str] = mapped_column(sa.Text, server_default=sa.text("''"))
    # Counts the runs of the job over this detector; see storage/estimates/pending.py.
    revision: Mapped[int] = mapped_column(base.BigId, default=0)
    stalled_after_hours: Mapped[int | None]
    predictor: Mapped[str | None] = mapped_column(sa.Text)
    # The saved mapping of files; see services/imports/reading/choices.py.
    import_mapping: Mapped[dict[str, Any] | None] = mapped_column(sa.JSON)
    # The metadata keys of its slices, and those that the job already counts.
    slices: Mapped[list[str]] = base.text_list()
    counted_slices: Mapped[list[str]] = base.text_list()
    text_field: Mapped[str | None] = mapped_column(sa.Text)
    tags: Mapped[list[str]] = base.text_list()
    owner: Mapped[str | None] = mapped_column(base.Name)

    @property
    def zone(self) -> tzinfo:
        return zone_of(self.time_zone)


def zone_of(name: str) -> tzinfo:
    """Return a time zone by its name; Python's own UTC is faster."""
    return UTC if name == "UTC" else ZoneInfo(name)


class LabelledDetector(NamedTuple):
    """The columns of a detector that labelling a query needs."""

    id: int
    name: str
    classes: list[str]
    labels_wanted: int
    consensus: str
    label_sampling: str | None
    label_of: str
    queue_seed: str
    groups: str | None
    archived_at: datetime | None


AnyDetector = Detector | LabelledDetector

# A cache in a session's info: the names of versions by id, which never change.
VERSION_NAMES = "versions"


class Version(base.Base):
    """One trained state of a detector, with the progress of the job."""

    __tablename__ = "versions"
    __table_args__ = (sa.UniqueConstraint("detector_id", "name"),)

    detector_id: Mapped[int] = base.owner("detectors")
    id: Mapped[int] = mapped_column(base.BigId, primary_key=True, autoincrement=True)
    name: Mapped[str] = mapped_column(base.Name)
    created_at: Mapped[datetime]
    # Queries that the job has counted, with or without labels.
    queries: Mapped[int] = mapped_column(base.BigId, default=0)
    # Counted queries that were deleted because nobody labelled them.
    deleted: Mapped[int] = mapped_column(base.BigId, default=0, server_default="0")
    # When the last deleted query was asked; older queries are incomplete.
    deleted_to: Mapped[datetime | None]
    last_label_at: Mapped[datetime | None]
    # When a snapshot is due because labels stopped between two checkpoints.
    run_due_at: Mapped[datetime | None] = mapped_column(index=True)
    # The number of the newest snapshot.
    sequence: Mapped[int] = mapped_column(base.BigId, default=0)
    # Whether it is stated to be made without the labels it is tested on.
    unseen: Mapped[bool] = mapped_column(default=False, server_default=sa.false())
    # Its number in the family of gated versions, the number that had passed before,
    # the measure, and whether it has passed: [3, 1, "balanced", true].
    family: Mapped[list[Any]] = base.text_list()


def is_of_version(rows_of: Any) -> sa.ColumnElement[bool]:
    """Return the condition that the row of a version is that of another row."""
    is_near = Version.detector_id == rows_of.detector_id
    return sa.and_(is_near, Version.id == rows_of.version_id)


def of_version() -> sa.ForeignKeyConstraint:
    """Return the constraint that a row is of a version of the same detector."""
    return sa.ForeignKeyConstraint(
        ["detector_id", "version_id"], [Version.detector_id, Version.id]
    )


def find_detector(session: Session, detector_id: int) -> Detector | None:
    return session.get(Detector, detector_id)


def load_detectors(session: Session, ids: Collection[int]) -> list[Detector]:
    chosen = sa.select(Detector).where(Detector.id.in_(ids))
    found = session.scalars(chosen.options(undefer(Detector.traffic)))
    by_id = {detector.id: detector for detector in found}
    return [by_id[one] for one in ids if one in by_id]


# Built once: nearly every request asks this.
_BY_NAME = sa.select(Detector).where(
    Detector.name == sa.bindparam("name"), Detector.archived_at.is_(None)
)


def find_detector_by_name(session: Session, name: str) -> Detector | None:
    return session.scalars(_BY_NAME, {"name": name}).one_or_none()


def list_detectors(  # noqa: PLR0913 - each is a filter.
    session: Session,
    *,
    name: str | None = None,
    after: int | None = None,
    limit: int | None = None,
    has_archived: bool = False,
    among: Collection[int] | None = None,
) -> Sequence[Detector]:
    """Return the detectors, all or *among* these ids, oldest first."""
    chosen = _are_among(among)
    if not has_archived:
        chosen.append(Detector.archived_at.is_(None))
    chosen += base.equal(Detector, name=name)
    if after is not None:
        chosen.append(Detector.id > after)
    statement = sa.select(Detector).where(*chosen).order_by(Detector.id)
    return session.scalars(statement.limit(limit)).all()


def _are_among(ids: Collection[int] | None) -> list[sa.ColumnElement[bool]]:
    return [] if ids is None else [Detector.id.in_(ids)]


def are_archived(among: Collection[int] | None) -> list[sa.ColumnElement[bool]]:
    return [Detector.archived_at.is_not(None), *_are_among(among)]


def select_open(among: Collection[int] | None) -> sa.Select[int]:
    are_open = Detector.archived_at.is_(None)
    return sa.select(Detector.id).where(are_open, *_are_among(among))


def list_owned_ids(session: Session, owner: str) -> Sequence[int]:
    return session.scalars(sa.select(Detector.id).filter_by(owner=owner)).all()


# Built once: nearly every page asks this.
_OF_DETECTORS = (
    sa.select(Version)
    .where(Version.detector_id.in_(sa.bindparam("ids", expanding=True)))
    .order_by(Version.id)
)


def list_versions(session: Session, *detector_ids: int) -> Sequence[Version]:
    found = base.remember(session, _OF_DETECTORS, {"ids": detector_ids})
    return [version for (version,) in found]


def name_version(session: Session, detector_id: int, version_id: int) -> str:
    """Return the name of a version, cached in the session."""
    names: dict[int, str] = session.info.setdefault(VERSION_NAMES, {})
    if version_id not in names:
        named = sa.select(Version.name).where(
            Version.detector_id == detector_id, Version.id == version_id
        )
        names[version_id] = session.scalars(named).one()
    return names[version_id]


def load_versions(
    session: Session, detector_ids: Collection[int], ids: Collection[int]
) -> dict[int, Version]:
    theirs = Version.detector_id.in_(detector_ids), Version.id.in_(ids)
    found = base.list_rows(session, Version, *theirs)
    return {version.id: version for version in found}


def list_due_versions(session: Session, *, at: datetime, limit: int) -> list[Version]:
    statement = sa.select(Version).where(Version.run_due_at <= at)
    return [*session.scalars(statement.order_by(Version.run_due_at).limit(limit))]


# Built once: a page that shows one version asks this more than once.
_NAMED = sa.select(Version).where(
    Version.detector_id == sa.bindparam("detector_id"),
    Version.name == sa.bindparam("name"),
)


def find_version(session: Session, detector_id: int, name: str) -> Version | None:
    versions = base.recall(session, _OF_DETECTORS, (detector_id,))
    if versions is not None:
        return next((one for (one,) in versions if one.name == name), None)
    chosen = {"detector_id": detector_id, "name": name}
    return session.scalars(_NAMED, chosen).one_or_none()


# Prepared: every logged query asks this.
_ID_OF_NAME = inserting.Prepared(
    sa.select(Version.id).where(
        Version.detector_id == sa.bindparam("detector_id"),
        Version.name == sa.bindparam("name"),
    )
)


def add_versions(
    session: Session, detector_id: int, names: Iterable[str], *, created_at: datetime
) -> dict[str, int]:
    """Return the id of each version in *names*, adding those that are new in order."""
    wanted = list(dict.fromkeys(names))
    ids = {}
    for name in wanted:
        row = _ID_OF_NAME.first(session, {"detector_id": detector_id, "name": name})
        if row is not None:
            ids[name] = row[0]
    known = session.info.setdefault(VERSION_NAMES, {})
    known |= {number: name for name, number in ids.items()}
    for name in [name for name in wanted if name not in ids]:
        version = Version(detector_id=detector_id, name=name, created_at=created_at)
        version.queries = version.sequence = 0
        session.add(version)
        # Two requests may bring the same new version: the constraint decides, and the
        # refused request is retried as a whole.
        session.flush()
        ids[name] = version.id
    return ids


def lock_versions(session: Session, detector_id: int) -> list[Version]:
    chosen = sa.select(Version).where(Version.detector_id == detector_id)
    locked = chosen.order_by(Version.id).with_for_update(key_share=True)
    return list(session.scalars(locked, execution_options={"populate_existing": True}))


def hold_open(session: Session, detector_id: int) -> Any:
    """Keep a detector from being archived until the transaction ends.

    Returns its current ``group_by`` and ``label_sampling``.  Raises ConflictError if it
    is already archived, whatever this transaction saw before: it may have run for
    minutes.
    """
    names = ("name", "archived_at", "group_by", "label_sampling")
    statement = sa.select(*base.columns_of(Detector, *names))
    chosen = statement.where(Detector.id == detector_id)
    found = session.execute(chosen.with_for_update(read=True)).one()
    if found.archived_at is not None:
        raise ConflictError(f"the detector {found.name!r} was archived meanwhile")
    return found
