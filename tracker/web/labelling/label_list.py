"""One queue over all detectors: what waits in each that a person may label."""

from flask import render_template
from flask.typing import ResponseReturnValue

from tracker.http import account, by, database, requires
from tracker.services.labelling.queues import QueueChoice, build_queue, count_waiting
from tracker.storage.detectors import list_detectors
from tracker.storage.labelling.labelers import Assignment, list_asked
from tracker.storage.labelling.queues import list_queued
from tracker.web.blueprint import pages
from tracker.web.detector_list import Row, build_rows

# How many detectors are listed, and how many queries of each are counted.
_MOST = 20
_COUNTED = 500


@pages.get("/label")
@requires("labeler")
def choose_label() -> ResponseReturnValue:
    """Show the detectors with queries that wait, what decides most first."""
    with database().read() as session:
        asked = {one.detector_id: one for one, _ in list_asked(session, account().name)}
        queued = list_queued(session, among=account().detectors)
        rows = build_rows(session, list_detectors(session, among=queued))
        rows.sort(
            key=lambda row: (
                row.detector.id not in asked,
                row.state not in {"undecided", "open"},
                *row.urgency,
            )
        )
        waiting: list[tuple[Row, int, Assignment | None]] = []
        for row in rows:
            if len(waiting) == _MOST:
                break
            # The version that is shown, which it would look for again.
            choice = QueueChoice(version=row.estimate.version)
            queue = build_queue(session, row.detector, choice, by())
            if count := count_waiting(session, queue, at_most=_COUNTED):
                waiting.append((row, count, asked.get(row.detector.id)))
        is_cut = len(waiting) == _MOST or _COUNTED in (each[1] for each in waiting)
        return render_template(
            "labels/list.html", waiting=waiting, is_cut=is_cut, most=_COUNTED
        )
