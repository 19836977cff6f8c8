"""What an estimate rests on, in plain words."""

from typing import Literal

from tracker.rounding import percents
from tracker.services.estimates.counted import Counted
from tracker.services.estimates.unclear import UnclearBounds
from tracker.services.evidence.measure import read_measure
from tracker.services.evidence.populations import LIVE, POOLED
from tracker.storage.detectors import Detector
from tracker.words import REPLAYED, UNSTATED

_CHOSEN = {
    LIVE: "of its own queries, chosen at random",
    REPLAYED: "that its inputs had in other versions",
    UNSTATED: "of queries of which nobody has said how they were chosen",
    POOLED: "of several versions",
}


Unit = Literal["input", "group", "query"]


def unit_of(detector: Detector) -> Unit:
    """Return what counts once."""
    return "input" if detector.groups is None else "group"


def describe_basis(
    detector: Detector,
    counted: Counted,
    population: str,
    labels: int,
    unclear: UnclearBounds | None,
) -> str:
    """Return whose labels count, what counts once, and of which days they are.

    And what would be true if many *unclear* answers had all been right, or wrong.
    """
    said = f"{labels:,} label{'' if labels == 1 else 's'} {_CHOSEN[population]}"
    if counted.includes_targeted:
        said += ", and those of queries that somebody picked"
    elif not counted.is_of_version and population != POOLED:
        said += ", of the part that was asked for"
    said += f"; each {unit_of(detector)} counts once"
    since = counted.span and counted.span.since
    said += f"; asked since {since:%-d %b %Y}." if since else "."
    if unclear is None:
        return said
    low, high = percents(unclear.low, unclear.high)
    return (
        f"{said} {unclear.answers:,} answers are unclear or disputed: had all been "
        f"right or wrong, the {read_measure(unclear.measure).name} would lie between "
        f"{low} and {high} %."
    )
