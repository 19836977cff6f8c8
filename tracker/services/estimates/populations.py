"""The population that an estimate is of, where the counts decide it."""

from collections.abc import Iterable

from sqlalchemy.orm import Session

from tracker.services.estimates.counts import current_counts
from tracker.services.evidence.populations import (
    POPULATIONS,
    Standings,
    choose_population,
    standings_of,
)
from tracker.services.wording import invalid
from tracker.storage.detectors import Detector, Version
from tracker.storage.estimates.cells import Counts, pool


def pick_population(
    detector: Detector, counts: Counts, wanted: str | None = None
) -> tuple[str, Standings]:
    """Return a population and its standings: the one *wanted*, else by the counts.

    Raises InvalidInputError for a population that there is not.
    """
    if wanted is not None and wanted not in POPULATIONS:
        known = ", ".join(POPULATIONS)
        raise invalid("population", wanted, f"it must be one of {known}")
    word = detector.label_sampling
    chosen = wanted or choose_population(word, lambda some: counts.count(some) > 0)
    return chosen, standings_of(chosen, word)


def find_standings(
    session: Session, detector: Detector, versions: Iterable[Version]
) -> Standings:
    """Return the standings that the estimate of *versions* counts."""
    counts = current_counts(session, list(versions))
    return pick_population(detector, pool(counts.values()))[1]
