"""The inbox: what happened in all detectors since a person last looked."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from typing import Any

from flask import redirect, render_template, request, url_for
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.charts.words import plural
from tracker.http import account, context, database, now, requires
from tracker.services.telling.deliveries import say, say_in_full
from tracker.storage.base import dump_id, parse_id
from tracker.storage.detectors import list_detectors, zone_of
from tracker.storage.estimates.cells import day_in
from tracker.storage.labelling.labelers import list_asked
from tracker.storage.people import Account
from tracker.storage.queries.queries import count_all_disputed
from tracker.storage.telling import Event, find_newest_id, list_news
from tracker.web.blueprint import may, pages
from tracker.web.detector_list import build_rows
from tracker.web.drawing.words import count_in_words, narrow, number, short_day
from tracker.words import EDITOR

_MOST = 200
_VERDICT, _DROPPED = "verdict.changed", "accuracy.dropped"
# The tag of an event, where it leads to, and what the link is called.
_KINDS = {
    _DROPPED: ("dropped", "↓ Dropped", "show_history", "See when"),
    "missed": ("missed", "✕ Missed", "show_detector", "Open"),
    "slice.worse": ("worse", "✕ Slice worse", "show_slices", "See the slice"),
    "detector.failing": ("stale", "! Not updating", "show_detector", "Open"),
    "import.failed": ("worse", "✕ Import", "follow_import", "See why"),
    "accuracy.rose": ("met", "↑ Rose", "show_history", "See when"),
    "met": ("met", "✓ Met", "show_detector", "Open"),
    "undecided": ("undecided", "↔ Not decided", "show_detector", "Open"),
    "audit.finished": ("met", "✓ Audit done", "look_at_audit", "Report"),
    "labels.stalled": ("none", "No labels", "show_next", "Label"),
    "version.first_seen": ("none", "New version", "show_detector", "Open"),
}
_NEEDY = list(_KINDS)[:5]
_PLAIN = ("none", "News", "show_detector", "Open")
# What the headline says of detectors.
_SAID = {
    _DROPPED: "dropped",
    "missed": "missed the target",
    "met": "reached the target",
    "accuracy.rose": "rose",
}
_OF_NOW = {*_SAID, "undecided"}


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the inbox: a tag, a sentence, a reason and one action."""

    # A style, and what the tag says.
    tag: tuple[str, str]
    title: str
    reason: str
    # None if the visitor may not do it.
    address: str | None
    action: str
    # Of an event: what it is of, and when it happened.
    kind: str = ""
    name: str = ""
    day: date = date.min


@pages.get("/inbox")
@requires("viewer")
def show_inbox() -> ResponseReturnValue:
    """Show what happened since this person last looked."""
    with database().read() as session:
        own = session.get_one(Account, account().row)
        events = _find_news(session, own)
        lines = _read_events(session, events)
        needy = [line for line in lines if line.kind in _NEEDY]
        rest = [line for line in lines if line.kind not in _NEEDY]
        today, since = (
            day_in(at, zone_of(context().settings.time_zone))
            for at in (now(), own.last_looked_at or own.created_at)
        )
        return render_template(
            "events/inbox.html",
            own=own,
            headline=_sum_up(lines),
            needy=sorted(needy, key=lambda line: _NEEDY.index(line.kind)),
            asked=_list_asked(session),
            days=[
                (short_day(day, today), list(of_day))
                for day, of_day in groupby(
                    sorted(rest, key=lambda line: line.day, reverse=True),
                    lambda line: line.day,
                )
            ],
            since=short_day(since, today),
            # The newest there is, be it of a line that another one outranks.
            last=dump_id("evt", find_newest_id(session)) if events else None,
        )


@pages.post("/inbox")
@requires("viewer")
def mark_inbox() -> ResponseReturnValue:
    """Note that this person has seen what the page showed, and nothing newer."""
    last = parse_id("evt", request.form.get("last", "")) or 0
    with database().write() as session:
        own = session.get_one(Account, account().row)
        own.last_looked_at = now()
        own.seen_event_id = max(own.seen_event_id, last)
    return redirect(url_for("pages.show_inbox"), 303)


def count_needy(session: Session, own: Account) -> int:
    """Count what is new in the inbox of the visitor and needs them."""
    return sum(_kind_of(one) in _NEEDY for one in _find_news(session, own))


def _find_news(session: Session, own: Account) -> list[Event]:
    """Return the new events of the detectors that the visitor sees, newest first.

    Of a version's verdicts and changes only the last says how it is now, and of one
    that dropped no verdict: the sentence on the drop has it.
    """
    among = account().detectors
    told: set[tuple[Any, ...]] = set()
    news = []
    for event in list_news(session, own.seen_event_id, among=among, limit=_MOST):
        family, data = event.type.partition(".")[0], event.data
        which = data.get("id") or (data.get("by"), data.get("value"))
        key = (event.detector_id, event.version_id, family, which)
        if key not in told:
            told.add(key)
            news.append(event)
    fallen = {one.version_id for one in news if one.type == _DROPPED}
    return [one for one in news if one.type != _VERDICT or one.version_id not in fallen]


def _kind_of(event: Event) -> str:
    return str(event.data["verdict"]) if event.type == _VERDICT else event.type


def _read_events(session: Session, events: Sequence[Event]) -> list[Line]:
    """Return a line for each event; those of a verdict say how it is now."""
    ids = {event.detector_id for event in events}
    rows = {
        row.detector.id: row
        for row in build_rows(session, list_detectors(session, among=ids))
    }
    lines, zone = [], zone_of(context().settings.time_zone)
    for event in events:
        row, kind = rows[event.detector_id], _kind_of(event)
        style, word, endpoint, action = _KINDS.get(kind, _PLAIN)
        title = say(event.type, event.data)
        reason = say_in_full(event.type, event.data).removeprefix(title).strip()
        if kind in _OF_NOW and event.data["version"] == row.estimate.version:
            reason = row.sentence
        line = Line(
            (style, word),
            narrow(title),
            narrow(reason),
            _address(endpoint, event),
            action,
            kind=kind,
            name=row.detector.name,
            day=day_in(event.happened_at, zone),
        )
        lines.append(line)
    return lines


def _address(endpoint: str, event: Event) -> str | None:
    if not may(endpoint):
        return None
    name = {"look_at_audit": "audit_id", "follow_import": "import_id"}.get(endpoint)
    if name:
        return url_for(f"pages.{endpoint}", **{name: event.data["id"]})
    here, version = dump_id("det", event.detector_id), event.data.get("version")
    return url_for(f"pages.{endpoint}", detector_id=here, version=version)


def _sum_up(lines: Iterable[Line]) -> str:
    """Return how many detectors did what, such as "one detector dropped"."""
    counts = Counter(kind for kind, _ in {(one.kind, one.name) for one in lines})
    parts: list[str] = []
    for kind in filter(counts.get, _SAID):
        noun = "" if parts else " detector" + "s" * (counts[kind] > 1)
        parts.append(f"{count_in_words(counts[kind])}{noun} {_SAID[kind]}")
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


def _list_asked(session: Session) -> list[Line]:
    """Return what waits for the visitor until it is done."""
    found = []
    for asked, name in list_asked(session, account().name):
        if may("show_next") and account().sees(asked.detector_id):
            title = f"{plural(asked.labels, 'label')} of {name}"
            reason = f"{number(asked.done)} given so far."
            here = dump_id("det", asked.detector_id)
            address = url_for("pages.show_next", detector_id=here)
            found.append(
                Line(("none", "Asked of you"), title, reason, address, "Label")
            )
    if account().may(EDITOR):
        disputed = count_all_disputed(session, among=account().detectors)
        for detector_id, name, count in disputed:
            title = f"{name}: people disagree on {plural(count, 'query', 'queries')}"
            reason = "Disputed queries count only once an editor settles them."
            here = dump_id("det", detector_id)
            address = url_for("pages.show_queries", detector_id=here, show="disputed")
            tag = ("none", "Disagreement")
            found.append(Line(tag, title, reason, address, "Settle"))
    return found
