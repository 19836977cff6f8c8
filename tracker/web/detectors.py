"""The detectors, how sure we are of one, and the archive."""

import hashlib
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

from flask import flash, render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, InvalidInputError
from tracker.http import account, by, database, now
from tracker.rounding import roughly
from tracker.services.deciding.planning import count_draws
from tracker.services.detectors import (
    archive_detector,
    bring_back_detector,
    create_detector,
    get_detector,
    get_open_detector,
)
from tracker.services.estimates.charts import list_curve
from tracker.services.estimates.estimate import NOW, Estimate, get_estimate
from tracker.services.estimates.facets import Difference, list_differences
from tracker.services.estimates.intervals import ALL
from tracker.services.estimates.measures import list_precisions
from tracker.services.estimates.report import Report
from tracker.services.estimates.weeks import get_weeks
from tracker.services.evidence.measure import Measure, read_measure
from tracker.services.labelling.queues import QueueChoice, build_queue, count_waiting
from tracker.services.people.keys import renew_logger_key
from tracker.services.telling.deliveries import say, say_in_full
from tracker.services.telling.events import SLICE_WORSE
from tracker.services.versions import choose_versions
from tracker.shapes import Accuracy
from tracker.storage.base import dump_id, list_newest, parse_id
from tracker.storage.detectors import Detector, Version, are_archived, list_versions
from tracker.storage.tasks import RECOMPUTE, find_failures
from tracker.storage.telling import Event, list_detector_events
from tracker.web.blueprint import answer_live, cut_page, lead_to, page, reading
from tracker.web.drawing.answers import (
    draw_curve,
    list_pairs,
    name_marks,
    near_axis,
)
from tracker.web.drawing.readings import (
    build_axis,
    read,
    read_balanced,
    read_once,
    tone_of,
)
from tracker.web.drawing.weeks import draw_weeks
from tracker.web.drawing.words import narrow, sentence
from tracker.web.forms import Form, failed_form, parse_new_detector
from tracker.web.labelling.rechecks import read_errors
from tracker.words import BALANCED, DECIDING_METHOD, EXACT, RECALL

# Of more classes than these the others are folded away.
MOST_OPEN = 6
_MOST_PAIRS = 3
_MOST_TOLD = 3
_MOST_WEEKS = 12
# How well one wants to know what no number of labels decides.
_NEAR = 0.03
# Of more that wait nobody needs the number, and pages ask again every few seconds.
MOST_WAITING = 100_000
_NEW = {
    "classes": "YES\nNO",
    "confidence_level": "95",
    "queue_rate": "100",
    "labels_wanted": "1",
    "measure": "balanced",
    "consensus": "majority",
    "label_of": "input",
    "method": "joint",
}


@page("GET /detectors/new", "editor")
def new_detector() -> ResponseReturnValue:
    return render_template("detectors/new.html", form=Form(_NEW))


@page("POST /detectors/new", "editor")
def make_detector() -> ResponseReturnValue:
    try:
        new = parse_new_detector(request.form)
        with database().write() as session:
            detector = create_detector(session, new, by())
    except (InvalidInputError, ConflictError) as error:
        form = failed_form(request.form, error)
        return render_template("detectors/new.html", form=form), 422
    return lead_to("show_detector", detector_id=dump_id("det", detector.id))


@page("POST /detectors/<detector_id>/begin", "admin")
def make_detector_key(detector_id: str) -> ResponseReturnValue:
    """Make a key for the commands of a detector without queries, and show it once."""
    with database().write() as session:
        detector = get_open_detector(session, detector_id)
        if list_versions(session, detector.id):
            return lead_to("show_detector", detector_id=detector_id)
        called = f"first key of {dump_id('det', detector.id)}"
        key = renew_logger_key(session, called, by(), detectors=[detector_id])
    return show_detector(detector_id, key)


@page("GET /detectors/<detector_id>", "viewer")
def show_detector(detector_id: str, new_key: str | None = None) -> ResponseReturnValue:
    """Show how accurate a detector is, and how sure that is."""
    with reading(detector_id) as (session, detector):
        page = _build_overview(session, detector, request.args)
        estimate = page["estimate"]
        return answer_live(
            "detectors/detector.html",
            seen=request.args.get("seen", ""),
            fingerprint=_fingerprint(page),
            overview=page,
            detector=detector,
            new_key=new_key,
            # Only for a page that is drawn: it reads thousands of queries.
            find_differences=partial(_find_differences, session, page),
            count_draws=partial(count_draws, estimate, 2 * _NEAR, detector.measure),
            **_read_rows(detector, page["published"] or estimate, request.args),
            pairs=list_pairs(estimate)[:_MOST_PAIRS],
        )


def _build_overview(
    session: Session, detector: Detector, asked: Mapping[str, str]
) -> dict[str, Any]:
    """Return the contents of the page for one version, or for all pooled."""
    name = asked.get("version") or None
    chosen = choose_versions(session, detector, name)
    version = chosen[0] if chosen and name != ALL else None
    how: dict[str, Any] = {"version": name, "computed_at": now()}
    deciding = how | {"method": DECIDING_METHOD}
    estimate = get_estimate(session, detector, **deciding, span=NOW)
    published = None
    if asked.get("method") == EXACT:
        published = get_estimate(session, detector, **how)
    row = Report(
        detector=detector,
        estimate=estimate,
        queries=estimate.population.of or 0,
        failure=find_failures(session, RECOMPUTE, [detector.id]).get(detector.id),
    )
    whole = estimate
    if row.since is not None:
        # The results chose the day of a change, for which a method for one look does
        # not hold.
        whole = get_estimate(session, detector, **deciding, span="all")
    axis = near_axis(
        row.interval.low, detector.target, row.before.low if row.before else None
    )
    events = list_detector_events(session, detector.id, limit=_MOST_TOLD)
    return {
        "row": row,
        "estimate": estimate,
        # By the published method, where that was asked for.
        "published": published,
        "axis": axis,
        "names": name_marks(axis, row.interval.accuracy, detector.target),
        "once": read_once(whole, detector.method),
        "versions": list_versions(session, detector.id),
        "version": version,
        "waiting": _count_waiting(session, detector, estimate),
        "reread": read_errors(session, detector, estimate),
        "curve": _draw_curve(session, version, row, asked.get("of"), published),
        "weeks": {} if published else _draw_weeks(session, version, row),
        "told": [(each, tell_briefly(each)) for each in events],
    }


def _fingerprint(page: Mapping[str, Any]) -> str:
    """Return a text that changes whenever a number on the page, or its chart, changes.

    The estimate counts labels that wait, and the chart does not: it goes on with the
    fold of those labels, which is the next revision of the detector.
    """
    row, estimate, version = page["row"], page["estimate"], page["version"]
    reread, told = page["reread"], page["told"]
    seen = (
        row.detector.revision,
        row.detector.target,
        row.detector.confidence_level,
        row.detector.method,
        row.detector.archived_at,
        [one.name for one in page["versions"]],
        version and version.name,
        page["published"] is None,
        estimate.unclear,
        estimate.targeted_left_out,
        estimate.corrections,
        estimate.last_label_at,
        estimate.confusion,
        row.queries,
        page["waiting"],
        estimate.disputed_left_out,
        reread and reread.fingerprint,
        row.failure and row.failure.attempts,
        told and told[0][0].id,
    )
    return hashlib.sha256(repr(seen).encode()).hexdigest()[:16]


def _count_waiting(session: Session, detector: Detector, estimate: Estimate) -> int:
    """Count the random queue, to which the button leads.

    No further than what decides the verdict.
    """
    found = estimate.decision
    if not found or found.labels_to_decide == 0:
        return 0
    queue = build_queue(session, detector, QueueChoice(version=estimate.version), by())
    # Where nothing can be foreseen, as many as tell it within so many points.
    more = found.labels_to_decide
    more = more or count_draws(estimate, 2 * _NEAR, detector.measure) or 1
    return count_waiting(session, queue, at_most=min(roughly(more), MOST_WAITING))


def _find_differences(
    session: Session, page: Mapping[str, Any]
) -> Sequence[Difference]:
    row, version = page["row"], page["version"]
    if version is None or row.since is None or not row.mistakes:
        return ()
    return list_differences(session, row.detector, version.name, row.since, at=now())


def tell_briefly(event: Event) -> str:
    """Return what happened, without the name of the detector that the page has."""
    tell = say_in_full if event.type == SLICE_WORSE else say
    told = tell(event.type, event.data).removeprefix(event.data["name"]).lstrip(",: ")
    return narrow(f"{told[:1].upper()}{told[1:]}")


def _draw_curve(
    session: Session,
    version: Version | None,
    row: Report,
    name: str | None,
    published: Estimate | None,
) -> dict[str, Any] | None:
    detector, estimate = row.detector, row.estimate
    # Labels that come first may be of mistakes, and how many queries had none is not
    # kept: each week has bounds.
    if version is None or ((row.since or row.is_bounded) and not published):
        return None
    measure, method = read_measure(detector.measure), DECIDING_METHOD
    now_at: Accuracy = row.interval
    if published:
        measure, method, estimate = Measure(BALANCED), EXACT, published
        now_at = estimate.balanced
    for one in estimate.classes:
        if one.name == name:
            measure, now_at = Measure(RECALL, name), one
    points = list_curve(session, detector, version, measure, method)
    is_decided = str(measure) == detector.measure and not published
    target = detector.target if is_decided else None
    return draw_curve(points, now_at, estimate.labels, target)


def _draw_weeks(
    session: Session, version: Version | None, row: Report
) -> Mapping[str, Any]:
    if version is None or not (row.since or row.is_bounded):
        return {}
    weeks = get_weeks(
        session,
        row.detector,
        computed_at=now(),
        version=version.name,
        measure=row.detector.measure,
        limit=_MOST_WEEKS,
    )
    return draw_weeks(weeks, row.since, row.interval)


def _read_rows(
    detector: Detector, estimate: Estimate, asked: Mapping[str, str]
) -> dict[str, Any]:
    """Return the rows of the classes, the weakest first beyond two."""
    of = "precision" if asked.get("by") == "precision" else "accuracy"
    scores = estimate.classes if of == "accuracy" else list_precisions(estimate)
    rows = [
        read(one, name=name, tone=tone_of(place) if len(scores) == 2 else 0)
        for place, (name, one) in enumerate(zip(detector.classes, scores, strict=True))
    ]
    if len(rows) > 2:
        rows.sort(key=lambda each: each.score.low)
    shown = rows if "all" in asked else rows[:MOST_OPEN]
    lows = [each.score.low for each in shown if each.estimate]
    balanced = read_balanced(estimate)
    return {
        "axis": build_axis([balanced, *shown]),
        "rows": shown,
        "by": of,
        "rows_axis": near_axis(*lows),
        "of": asked.get("of") if asked.get("of") in detector.classes else None,
        "balanced": balanced,
    }


_PAGE = 50


@page("GET /detectors/archived", "viewer")
def show_archived() -> ResponseReturnValue:
    before = parse_id("det", request.args.get("before", ""))
    with database().read() as session:
        archived = are_archived(account().detectors)
        found = list_newest(
            session, Detector, *archived, before=before, limit=_PAGE + 1
        )
        detectors, last = cut_page(found, _PAGE)
        return render_template(
            "detectors/archived.html",
            detectors=detectors,
            last=last,
            is_first=before is None,
        )


@page("POST /detectors/<detector_id>/archive", "admin")
def archive(detector_id: str) -> ResponseReturnValue:
    if request.form.get("sure") != "yes":
        raise InvalidInputError.of("sure", "say yes to archive the detector")
    with database().write() as session:
        detector = get_open_detector(session, detector_id)
        archive_detector(session, detector, by())
        flash(f"{detector.name} is archived.")
    return lead_to("show_detectors")


@page("POST /detectors/<detector_id>/bring-back", "editor")
def bring_back(detector_id: str) -> ResponseReturnValue:
    try:
        with database().write() as session:
            detector = get_detector(session, detector_id)
            if detector.archived_at is not None:
                bring_back_detector(session, detector, by())
                flash(f"{detector.name} is back.")
    except ConflictError as error:
        flash(sentence(str(error)))
    return lead_to("show_detector", detector_id=detector_id)
