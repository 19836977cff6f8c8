"""What moved a judged rate, as three rows on the page of changes."""

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN

from sqlalchemy.orm import Session

from tracker.errors import NotFoundError
from tracker.rounding import rounded
from tracker.services.deciding.attribution import Attribution, Shift, get_attribution
from tracker.services.deciding.pairs import Change
from tracker.storage.detectors import Detector
from tracker.web.drawing.differences import Axis, Bar, build_axis, draw_change, signed


@dataclass(frozen=True, slots=True)
class Moved:
    """An investigation with a row for each source; that of the system is the truth."""

    found: Attribution
    change: str
    rows: Sequence[tuple[Bar, Shift]]
    axis: Axis
    # What the judge says of the system.
    judged: Bar


def read_moved(session: Session, detector: Detector) -> Moved | None:
    """Return what the newest investigation says, None if there is none."""
    try:
        found = get_attribution(session, detector)
    except NotFoundError:
        return None
    shifts = {"Judge": found.judge, "System": found.truth, "Mix": found.mix}
    rows = [(_draw(name, one), one) for name, one in shifts.items()]
    change = rounded(found.now.rate - found.then.rate, 3, ROUND_HALF_EVEN)
    return Moved(
        found=found,
        change=signed(change.scaleb(2)),
        rows=rows,
        axis=build_axis([bar for bar, _ in rows]),
        judged=_draw("System", found.system),
    )


def _draw(name: str, shift: Shift) -> Bar:
    change = Change(difference=shift.difference, low=shift.low, high=shift.high)
    return draw_change(change, name, 0)
