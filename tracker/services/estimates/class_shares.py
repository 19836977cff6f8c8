"""How frequent the classes of a version are taken to be, as estimates say it."""

from pydantic import Field

from tracker.services.evidence.populations import LIVE, Standings, standings_of
from tracker.shapes import Shape
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import Counts, Shares, SharesSource


class ClassShares(Shape):
    """How frequent the classes are taken to be by `anytime`.

    Were they far off, the interval would only be wider.
    """

    source: SharesSource = Field(
        description="Where they come from: `class_shares` of the detector, or the "
        "classes of the first live labels: 100, or 20 for each class up to 1,000."
    )
    shares: dict[str, float] = Field(description="The part of each class.")

    @property
    def parts(self) -> tuple[float, ...]:
        """The part of each class, in their order."""
        return (*self.shares.values(),)


def known_shares(
    detector: Detector, shares: Shares | None, known: Counts
) -> Shares | None:
    """Return the *shares* of the classes, if they could be used then."""
    live = standings_of(LIVE, detector.label_sampling)
    if shares is not None and known.scored(live) < shares.labels:
        return None
    return shares


def describe_shares(
    detector: Detector, counts: Counts, standings: Standings
) -> ClassShares | None:
    """Return how frequent the classes are taken to be, for the live labels alone."""
    live = standings_of(LIVE, detector.label_sampling)
    if counts.shares is None or standings != live:
        return None
    parts = counts.shares.of(detector.classes)
    if parts is None:
        return None
    shares = dict(zip(detector.classes, parts, strict=True))
    return ClassShares(source=counts.shares.source, shares=shares)
