"""The versions of a detector that a name means."""

from collections.abc import Mapping, Sequence

from sqlalchemy.orm import Session

from tracker.errors import NotFoundError
from tracker.services.evidence.populations import OWN
from tracker.services.fields import is_storable
from tracker.services.wording import show
from tracker.storage import detectors as storage
from tracker.storage.estimates.cells import pool
from tracker.storage.estimates.counts import count_pending_labels
from tracker.storage.estimates.projections import load_counts
from tracker.storage.queries.queries import find_newest_version_id


class UnknownVersionError(NotFoundError):
    """A detector has no version of that name."""


def choose_versions(
    session: Session, detector: storage.Detector, name: str | None
) -> list[storage.Version]:
    """Return the versions that *name* means.

    ``*`` means all, None the one that is shown: the detector's production version,
    else the newest with a scored label, else the newest.  Raises UnknownVersionError,
    which lists the names there are, for an unknown one.
    """
    if name == "*":
        return list(storage.list_versions(session, detector.id))
    if name is None:
        return [*list_shown(session, [detector]).values()]
    version = None
    if is_storable(name):
        version = storage.find_version(session, detector.id, name)
    if version is None:
        names = [
            version.name for version in storage.list_versions(session, detector.id)
        ]
        known = ", ".join(show(known) for known in names[-10:]) or "none yet"
        raise UnknownVersionError(
            f"there is no version {show(name)}; there are: {known}"
        )
    return [version]


def list_shown(
    session: Session, detectors: Sequence[storage.Detector]
) -> dict[int, storage.Version]:
    """Return the version that each detector shows, by the id of the detector.

    It is the one that ``choose_versions`` gives for None; a detector without a version
    is left out.
    """
    found = storage.list_versions(session, *(one.id for one in detectors))
    versions: dict[int, list[storage.Version]] = {one.id: [] for one in detectors}
    for version in found:
        versions[version.detector_id].append(version)
    is_open = [one.id for one in detectors if one.production_version is None]
    scored = _find_scored(
        session, {one: versions[one] for one in is_open if len(versions[one]) > 1}
    )
    shown = {}
    for detector in detectors:
        mine = versions[detector.id]
        if detector.production_version is not None:
            mine = choose_versions(session, detector, detector.production_version)
        elif len(mine) > 1:
            newest = scored.get(detector.id)
            mine = _newest(session, mine) if newest is None else [newest]
        if mine:
            shown[detector.id] = mine[-1]
    return shown


def _find_scored(
    session: Session, versions: Mapping[int, Sequence[storage.Version]]
) -> dict[int, storage.Version]:
    """Return the newest version of each detector with a scored label, if any has one.

    Labels that wait for the job count too.  Nearly always the newest version has one,
    so the counts of no other are read.
    """
    found: dict[int, storage.Version] = {}
    if not versions:
        return found
    waiting = count_pending_labels(session, versions)
    left = {detector_id: list(some) for detector_id, some in versions.items()}
    while left:
        newest = {detector_id: some.pop() for detector_id, some in left.items()}
        counts = load_counts(session, newest.values())
        for detector_id, version in newest.items():
            parts = [counts[version.id]]
            if version.id in waiting:
                parts.append(waiting[version.id])
            if pool(parts).scored(OWN) > 0:
                found[detector_id] = version
        left = {
            detector_id: some
            for detector_id, some in left.items()
            if some and detector_id not in found
        }
    return found


def _newest(session: Session, versions: list[storage.Version]) -> list[storage.Version]:
    """Return the version of the newest query, or all where no query is left."""
    newest = find_newest_version_id(session, versions[-1].detector_id)
    return [one for one in versions if one.id == newest] or versions
