"""The versions of a detector that a name means."""

from sqlalchemy.orm import Session

from tracker.errors import NotFoundError
from tracker.services.fields import is_storable
from tracker.services.wording import show
from tracker.storage import detectors as storage
from tracker.storage.estimates.counts import find_newest_scored
from tracker.storage.queries import find_newest_version_id


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
        return _list_shown(session, detector)
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


def _list_shown(session: Session, detector: storage.Detector) -> list[storage.Version]:
    if detector.production_version is not None:
        return choose_versions(session, detector, detector.production_version)
    versions = storage.list_versions(session, detector.id)
    if len(versions) > 1:
        # Retention may have left no query of any version.
        shown = find_newest_scored(session, detector.id) or find_newest_version_id(
            session, detector.id
        )
        versions = [one for one in versions if one.id == shown] or versions
    return list(versions[-1:])
