"""What an estimate rests on, in plain words."""

from tracker.services.estimates.counted import Counted
from tracker.services.evidence.populations import LIVE, POOLED
from tracker.storage.detectors import Detector
from tracker.words import REPLAYED, UNSTATED

_CHOSEN = {
    LIVE: "of its own queries, chosen at random",
    REPLAYED: "that its inputs had in other versions",
    UNSTATED: "of queries of which nobody has said how they were chosen",
    POOLED: "of several versions",
}


def describe_basis(
    detector: Detector, counted: Counted, population: str, labels: int
) -> str:
    """Return whose labels count, what counts once, and of which days they are."""
    said = f"{labels:,} label{'' if labels == 1 else 's'} {_CHOSEN[population]}"
    if counted.includes_targeted:
        said += ", and those of queries that somebody picked"
    elif not counted.is_of_version and population != POOLED:
        said += ", of the part that was asked for"
    unit = "group" if detector.groups is not None else "input"
    said += f"; each {unit} counts once"
    since = counted.span and counted.span.since
    return f"{said}; asked since {since:%-d %b %Y}." if since else f"{said}."
