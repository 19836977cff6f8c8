"""The list of the detectors: all of them, those that need a look first."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import cached_property
from typing import Any

from flask import current_app, flash, redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.charts.words import plural, shorten
from tracker.errors import InvalidInputError
from tracker.http import account, by, database, now, requires
from tracker.services.estimates.calendar import AccuracyChange
from tracker.services.estimates.decision import Decision, foresee
from tracker.services.estimates.estimate import Estimate, list_estimates
from tracker.services.estimates.measures import score_own
from tracker.services.evidence.measure import read_measure
from tracker.services.fields import parse_input
from tracker.services.people.own import OwnChange, change_own, get_own
from tracker.services.versions import choose_shown
from tracker.shapes import Accuracy
from tracker.storage.detectors import (
    Detector,
    Version,
    count_archived,
    list_detectors,
)
from tracker.storage.estimates.counts import count_pending_labels
from tracker.storage.people import Account, list_pins
from tracker.storage.tasks import RECOMPUTE, Task, find_failures
from tracker.web.blueprint import Sort, pages, sort_rows
from tracker.web.drawing.readings import Axis, span, span_decided
from tracker.web.drawing.words import (
    counting_the_same,
    right_how_often,
    share,
    short_day,
)
from tracker.words import BALANCED

_PAGE = 50
# What needs a look comes first, and the most urgent of it.
DROPPED = "dropped"
_STANDS = timedelta(days=30)
NEEDY = (DROPPED, "missed", "stale", "undecided", "no-verdict", "open")
STATES = (*NEEDY, "met", "none")
PINNED = "pinned"
VERDICTS = {"met": "met", "missed": "missed", "undecided": "not decided yet"}
_AXIS = Axis(0.5)
_NEVER = math.inf
EXTENSION = "tracker-looks"
_COLUMNS: Mapping[type, Sequence[str]] = {
    kind: kind.__mapper__.column_attrs.keys() for kind in (Detector, Version)
}


@dataclass
class Row:
    """One detector of the list."""

    detector: Detector
    estimate: Estimate
    queries: int
    failure: Task | None

    @property
    def dropped(self) -> AccuracyChange | None:
        """A fall that was told in these days."""
        change = self.estimate.change
        if change is None or change.state != DROPPED:
            return None
        return change if change.at > self.estimate.computed_at - _STANDS else None

    @property
    def before(self) -> Accuracy | None:
        """What the same measure was before that fall."""
        found = self.dropped
        if found is None or found.measure != self.detector.measure:
            return None
        return found.before if found.before.labels else None

    @property
    def state(self) -> str:
        """What there is to say of it first, one of the states."""
        if self.failure:
            return "stale"
        if self.dropped:
            return DROPPED
        if not self.estimate.labels:
            return "open"
        if self.estimate.decision:
            return self.estimate.decision.verdict
        return "none" if self.estimate.target is None else "no-verdict"

    @cached_property
    def interval(self) -> Accuracy:
        """The interval that decides, of the measure that a target is on."""
        return score_own(self.estimate, self.detector.measure)

    @property
    def said(self) -> str:
        """The interval in percent."""
        found = self.estimate.decision
        return span_decided(found) if found else span(self.interval)

    @property
    def of(self) -> str:
        """What it is the interval of, "" for the mean of the classes."""
        measure = read_measure(self.detector.measure)
        if measure.kind == BALANCED:
            return ""
        said = {"recall": "when it is", "precision": "when it says"}.get(measure.kind)
        return f"{said} {measure.of}" if said else "of all answers"

    @cached_property
    def next(self) -> Decision | None:
        """What the target waits for, which takes a while to foresee."""
        found = self.estimate.decision
        return found and foresee(found, self.estimate.confusion)

    @property
    def since(self) -> date | None:
        """The day since which queries count, None for all of the version."""
        span = self.estimate.span
        return span.since if span else None

    @property
    def since_said(self) -> str:
        """That day, such as "12 Nov"."""
        since, at = self.since, self.estimate.computed_at.date()
        return short_day(since, at) if since else ""

    @property
    def unlabelled(self) -> str | None:
        """The first class without a label, of a mean that waits for it."""
        if read_measure(self.detector.measure).kind != BALANCED:
            return None
        classes = self.estimate.classes
        return next((one.name for one in classes if not one.labelled), None)

    @property
    def sentence(self) -> str:
        """The sentence that answers, the same on every page and in every message."""
        if not self.estimate.labels:
            if not self.queries:
                return "Not measured yet. Send the first prediction."
            waits = plural(self.queries, "query waits", "queries wait")
            return f"Not measured yet: {waits}."
        found = self.estimate.decision
        is_open = found is None or found.verdict == "undecided"
        if self.unlabelled and is_open:
            name = shorten(self.unlabelled)
            return f"Not measured yet: no label of {name} so far."
        return " ".join(filter(None, (self._measured, self._judged)))

    @property
    def _measured(self) -> str:
        measure = read_measure(self.detector.measure)
        said = f"{right_how_often(measure, self.said)}{self._of_clear}"
        if self.since:
            said = f"since {self.since_said} {said}"
        if self.before:
            return f"{said[0].upper()}{said[1:]}; before, {span(self.before)}."
        same = "" if self.of or self.since else f", {self.counts_same}"
        return f"{said[0].upper()}{said[1:]}{same}."

    @property
    def _of_clear(self) -> str:
        """Whose answers are left out, where they are more than a tenth."""
        unclear = self.estimate.unclear_bounds
        if unclear is None:
            return ""
        answers = unclear.answers + self.estimate.labels
        if 10 * unclear.answers <= answers:
            return ""
        counts = f"{unclear.answers:,} of {answers:,}"
        return f", of what people could tell ({counts} were unclear)"

    @property
    def counts_same(self) -> str:
        """How the classes make up the mean."""
        return counting_the_same(self.detector.classes)

    @property
    def _judged(self) -> str:
        found = self.estimate.decision
        if found:
            verdict = VERDICTS[found.verdict]
            return f"Target {share(found.target)}: {verdict}."
        because = self.estimate.no_decision_because
        if self.estimate.target is None or because is None:
            return ""
        return f"No verdict: {because}."

    @property
    def urgency(self) -> tuple[int, float]:
        """Where it stands in the list: who needs a look comes first.

        Of those that are not decided it is who needs the fewest labels, about: widths
        shrink with their root.
        """
        found, more = self.estimate.decision, _NEVER
        if found and found.accuracy not in {None, found.target}:
            above = found.accuracy - found.target
            bound = found.low if above > 0 else found.high
            more = found.labels * ((found.accuracy - bound) / above) ** 2
        return STATES.index(self.state), more


class Looks:
    """The estimate of each detector of the list, kept until something changes it.

    A list of many detectors would spend its time on estimates that are as before.
    """

    def __init__(self) -> None:
        """Begin with none."""
        self._known: dict[int, tuple[Any, Estimate]] = {}

    def find(
        self, session: Session, versions: Mapping[Detector, Version | None]
    ) -> list[Estimate]:
        """Return the estimate of one version of each detector, by what decides."""
        waiting = count_pending_labels(session, [one.id for one in versions])
        keys = {
            one: (_key(one, version), version and waiting.get(version.id))
            for one, version in versions.items()
        }
        changed = {
            detector: version
            for detector, version in versions.items()
            if self._known.get(detector.id, (None,))[0] != keys[detector]
        }
        found = list_estimates(session, changed, computed_at=now())
        for detector, estimate in zip(changed, found, strict=True):
            self._known[detector.id] = keys[detector], estimate
        return [self._known[one.id][1] for one in versions]


def _key(detector: Detector, version: Version | None) -> Any:
    """Return what an estimate is made of, beside the labels that wait for the job."""
    # The day, because what is of a span of days ends with one.
    return now().date(), _columns(detector), version and _columns(version)


def _columns(row: Any) -> list[Any]:
    return [row.__dict__.get(name) for name in _COLUMNS[type(row)]]


def _last(row: Row) -> float:
    at = row.estimate.last_label_at
    return at.timestamp() if at else 0.0


SORTS = {
    "name": Sort("Detector", lambda row: row.detector.name.casefold()),
    "verdict": Sort("Verdict", lambda row: row.urgency),
    "right": Sort("right", lambda row: row.interval.low),
    "labels": Sort("labels", lambda row: row.estimate.labels, is_down=True),
    "last": Sort("last label", _last, is_down=True),
}


@pages.get("/")
@requires("viewer")
def show_detectors() -> ResponseReturnValue:
    """Show every detector, sorted and filtered over all of them."""
    asked = request.args
    text = asked.get("q", "").strip()
    page = max(asked.get("page", 1, type=int), 1)
    with database().read() as session:
        detectors = list_detectors(session, among=account().detectors)
        rows = build_rows(session, detectors)
        tag, owner = asked.get("tag", ""), asked.get("owner", "")
        found = [
            row
            for row in rows
            if has_words(row.detector, text)
            and (not tag or tag in row.detector.tags)
            and (not owner or owner == row.detector.owner)
        ]
        counts = Counter(row.state for row in found)
        pins = set(list_pins(session, account().row))
        pinned = [row for row in found if row.detector.id in pins]
        chosen = asked.get("state", "")
        if chosen == PINNED:
            found = pinned
        elif chosen in STATES:
            found = [row for row in found if row.state == chosen]
        sort = asked.get("sort", "")
        _sort(found, sort)
        return render_template(
            "detectors/list.html",
            total=len(rows),
            rows=found[_PAGE * (page - 1) : _PAGE * page],
            matching=len(found),
            first=_PAGE * (page - 1) + 1,
            page=page,
            last=-(-len(found) // _PAGE),
            counts=counts,
            groups=_count_groups(found) if sort.lstrip("-") not in SORTS else {},
            chosen=chosen if chosen in {PINNED, *STATES} else None,
            sort=sort,
            sorts=SORTS,
            levels=sorted({row.detector.confidence_level for row in rows}),
            text=text,
            pinned=len(pinned),
            tag=tag,
            tags=sorted({one for row in rows for one in row.detector.tags} | {tag}),
            owner=owner,
            owners=sorted({row.detector.owner or "" for row in rows} | {owner, ""}),
            views=session.get_one(Account, account().row).views,
            axis=_AXIS,
            new_key=None,
            archived=count_archived(session, among=account().detectors),
        )


@pages.post("/views")
@requires("viewer")
def save_view() -> ResponseReturnValue:
    """Save the filters of the list under a name, or forget those of that name."""
    name, query = request.form.get("name", "").strip(), request.form.get("query", "")
    try:
        with database().write() as session:
            own = get_own(session, by())
            views = dict(own.views)
            views.pop(name, None)
            if "forget" not in request.form:
                views[name] = query
            named = [{"name": one, "query": text} for one, text in views.items()]
            change_own(session, own, parse_input(OwnChange, {"views": named}), by())
    except InvalidInputError as error:
        flash(f"The view was not saved: {error.errors[0].message}.")
    return redirect(f"{url_for('pages.show_detectors')}?{query}", 303)


def has_words(detector: Detector, text: str) -> bool:
    """Return whether *text* is a part of the name or the question."""
    return text.casefold() in f"{detector.name}\n{detector.question}".casefold()


def _sort(rows: list[Row], sort: str) -> None:
    """Sort *rows* in place, by who needs a look unless a column is named."""
    rows.sort(key=lambda row: row.detector.name.casefold())
    sort_rows(rows, SORTS, sort, usual=lambda row: row.urgency)


def _count_groups(rows: Sequence[Row]) -> dict[str, int]:
    needy = sum(row.state in NEEDY for row in rows)
    return {"needy": needy, "fine": len(rows) - needy}


def build_rows(session: Session, detectors: Sequence[Detector]) -> list[Row]:
    """Return the rows of *detectors* in the list, for the versions that they show."""
    shown = choose_shown(session, detectors)
    versions = {detector: shown.get(detector.id) for detector in detectors}
    looks = current_app.extensions[EXTENSION]
    assert isinstance(looks, Looks)
    failures = find_failures(session, RECOMPUTE, [one.id for one in detectors])
    return [
        Row(
            detector=detector,
            estimate=estimate,
            queries=version.queries if version else 0,
            failure=failures.get(detector.id),
        )
        for (detector, version), estimate in zip(
            versions.items(), looks.find(session, versions), strict=True
        )
    ]
