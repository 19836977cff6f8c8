"""The list of the detectors."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from flask import redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.http import account, database, now, requires
from tracker.services.deciding.discoveries import find_discoveries
from tracker.services.estimates.calendar import AccuracyChange
from tracker.services.estimates.estimate import Estimate, list_estimates
from tracker.services.versions import list_shown
from tracker.storage.base import parse_id
from tracker.storage.detectors import (
    Detector,
    count_archived,
    list_detectors,
)
from tracker.storage.tasks import RECOMPUTE, Task, find_failures
from tracker.web.blueprint import cut_page, pages
from tracker.web.drawing.readings import Axis, Reading, build_axis, read_balanced
from tracker.web.drawing.sparklines import draw_sparkline

DROPPED = "dropped"
_STANDS = timedelta(days=30)
# So many stand on a page, in the order in which they need somebody.
_PAGE = 30
# With fewer labels a bar is so long that the axis for it would squeeze all others.
_SETTLED = 20
STATES = ("stale", "missed", "no-verdict", "undecided", "met", "none")


@dataclass(frozen=True, slots=True)
class Row:
    """One detector of the list."""

    detector: Detector
    estimate: Estimate
    reading: Reading
    sparkline: str
    queries: int
    failure: Task | None

    @property
    def place(self) -> tuple[bool, bool, int]:
        """Where it stands in the list: who needs a look comes first."""
        return not self.failure, not self.dropped, STATES.index(self.state)

    @property
    def dropped(self) -> AccuracyChange | None:
        """A fall that was told in these days; it stands beside the verdict."""
        change = self.estimate.change
        if change is None or change.state != DROPPED:
            return None
        return change if change.at > self.estimate.computed_at - _STANDS else None

    @property
    def state(self) -> str:
        """What there is to say of it first, one of the states."""
        if self.failure:
            return "stale"
        if self.estimate.decision:
            return self.estimate.decision.verdict
        return "none" if self.estimate.target is None else "no-verdict"


@pages.get("/")
@requires("viewer")
def show_detectors() -> ResponseReturnValue:
    """Show every detector with its balanced accuracy."""
    after = parse_id("det", request.args.get("after", ""))
    with database().read() as session:
        found = list_detectors(
            session, after=after, limit=_PAGE + 1, among=account().detectors
        )
        detectors, last = cut_page(found, _PAGE)
        rows = build_rows(session, detectors)
        counts = Counter(row.state for row in rows)
        standing = find_discoveries([row.estimate for row in rows])
        held = [row for row, stands in zip(rows, standing, strict=True) if stands]
        rows.sort(key=lambda row: row.place)
        chosen = request.args.get("state", "")
        shown = {
            DROPPED: [row for row in rows if row.dropped],
            **{state: [row for row in rows if row.state == state] for state in STATES},
        }
        return render_template(
            "detectors/list.html",
            rows=shown.get(chosen, rows),
            counts=counts,
            dropped=len(shown[DROPPED]),
            held=held,
            new_key=None,
            chosen=chosen if chosen in shown else None,
            axis=_build_common_axis(rows),
            last=last,
            is_first=after is None,
            archived=count_archived(session, among=account().detectors),
        )


@pages.get("/detectors")
@requires("viewer")
def find_detectors() -> ResponseReturnValue:
    """Redirect a shortened address to the list."""
    return redirect(url_for("pages.show_detectors"), 301)


def _build_common_axis(rows: Sequence[Row]) -> Axis:
    targets = [row.detector.target for row in rows if row.detector.target]
    known = [row for row in rows if row.reading.estimate]
    settled = [row for row in known if row.estimate.labels >= _SETTLED] or known
    return build_axis([row.reading for row in settled], min(targets, default=None))


def build_rows(session: Session, detectors: Sequence[Detector]) -> list[Row]:
    """Return the rows of *detectors* in the list, for the versions that they show."""
    shown = list_shown(session, detectors)
    versions = {detector: shown.get(detector.id) for detector in detectors}
    estimates = list_estimates(session, versions, computed_at=now())
    failures = find_failures(session, RECOMPUTE, [one.id for one in detectors])
    return [
        Row(
            detector=detector,
            estimate=estimate,
            reading=read_balanced(estimate),
            sparkline=draw_sparkline(session, version, detector.method),
            queries=version.queries if version else 0,
            failure=failures.get(detector.id),
        )
        for (detector, version), estimate in zip(
            versions.items(), estimates, strict=True
        )
    ]
