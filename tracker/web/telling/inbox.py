"""The inbox, the rail with pinned detectors, and the search."""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import date
from itertools import groupby
from operator import attrgetter
from typing import Any

from flask import render_template, request
from flask.typing import ResponseReturnValue
from sqlalchemy.orm import Session

from tracker.charts.words import count_in_words, short_day
from tracker.http import account, by, context, database, now
from tracker.services.detectors import get_detector
from tracker.services.fields import is_storable
from tracker.services.labelling.queues import MOST_COUNTED
from tracker.services.people.own import OwnChange, change_own
from tracker.services.telling.deliveries import say, say_in_full
from tracker.storage.base import dump_id, list_detector_ids, parse_id, set_row
from tracker.storage.detectors import Detector, list_detectors, zone_of
from tracker.storage.estimates.cells import day_in
from tracker.storage.estimates.projections import CALENDAR, load_by_name
from tracker.storage.labelling.labelers import list_asked
from tracker.storage.labelling.queues import Work, count_all
from tracker.storage.people import Account, Pin, seen_by
from tracker.storage.queries.queries import count_all_disputed, list_by_key
from tracker.storage.telling import (
    Event,
    find_newest_id,
    list_detector_events,
    list_news,
)
from tracker.web.blueprint import cut_page, lead_to, page, pages, reading
from tracker.web.detector_list import MINE, has_words, list_own, list_reports
from tracker.web.drawing.words import narrow
from tracker.words import CHANGE_EVENTS

_MOST = 200
_PAGE = 50
_VERDICT, _DROPPED = "verdict.changed", "accuracy.dropped"
# The kinds of events that need somebody, most urgent first.
_NEEDY = (
    *(_DROPPED, "missed", "audit.below_target", "slice.worse"),
    *("detector.failing", "import.failed"),
)
# The words of the headline.
_SAID = {
    _DROPPED: "dropped",
    "missed": "missed the target",
    "met": "reached the target",
    "accuracy.rose": "rose",
}


@dataclass(frozen=True, slots=True)
class News:
    """An event with its sentence and the current state."""

    # The type of the event, or the verdict of a verdict event.
    kind: str
    event: Event
    title: str
    reason: str
    day: date


@page("GET /inbox", "viewer")
def show_inbox() -> ResponseReturnValue:
    with database().read() as session:
        own = session.get_one(Account, account().row)
        own_ids = list_own(session)
        is_mine = request.args.get("of") == MINE
        among = own_ids if is_mine else account().detectors
        found = _find_news(session)
        shown = [x for x in found if not is_mine or x.detector_id in own_ids]
        news = _read(session, shown)
        today, since = map(_day, (now(), own.last_looked_at or own.created_at))
        needy = [one for one in news if one.kind in _NEEDY]
        needy.sort(key=lambda one: _NEEDY.index(one.kind))
        rest = [one for one in news if one not in needy]
        rest.sort(key=attrgetter("day"), reverse=True)
        days = groupby(_fold(rest), lambda lines: lines[0].day)
        may_label, may_settle = account().may("labeler"), account().may("editor")
        asked = list_asked(session, account().name) if may_label else []
        return render_template(
            "inbox/inbox.html",
            own=own,
            headline=_sum_up(news),
            since=short_day(since, today),
            needy=_fold(needy),
            days=[(short_day(day, today), list(of_day)) for day, of_day in days],
            asked=[one for one in asked if account().sees(one[0].detector_id)],
            disputed=count_all_disputed(session, among=among) if may_settle else [],
            is_mine=is_mine,
            news=news,
            hidden=len({one.detector_id for one in found} - own_ids) if is_mine else 0,
            # The newest event, even if its line is hidden behind another one.
            last=dump_id("evt", find_newest_id(session)) if found else None,
        )


@page("POST /inbox", "viewer")
def mark_inbox() -> ResponseReturnValue:
    """Store that the visitor has seen the shown events, and none newer."""
    last = parse_id("evt", request.form.get("last", "")) or 0
    with database().write() as session:
        own, seen = session.get_one(Account, account().row), OwnChange(has_looked=True)
        change_own(session, own, seen, by(), newest_event=last)
    return lead_to("show_inbox")


def _fold(news: Iterable[News]) -> list[list[News]]:
    lines: dict[int, list[News]] = {}
    for one in news:
        lines.setdefault(one.event.detector_id, []).append(one)
    return list(lines.values())


def _find_news(session: Session) -> list[Event]:
    """Return the new events of the detectors that the visitor sees, newest first.

    Only the last verdict and change of a version is current; an earlier change may be
    told later.  A version that dropped has no verdict: the sentence on the drop says
    it.  A change that later labels do not prove is no news.
    """
    among = account().detectors
    found = list_news(session, seen_by(account().row), among=among, limit=_MOST)
    ids = {one.detector_id for one in found if one.type in CHANGE_EVENTS.values()}
    kept = load_by_name(session, ids, CALENDAR, key="") if ids else {}
    changes = {version: states[""]["change"] for version, states in kept.items()}
    news: dict[tuple[Any, ...], Event] = {}
    for event in found:
        family, data = event.type.partition(".")[0], event.data
        if event.type in CHANGE_EVENTS.values() and event.version_id in changes:
            last = changes[event.version_id]
            is_last = last is not None and (
                (last["state"], last["measure"]) == (data["state"], data["measure"])
                and last["since_from"] <= data["since_to"]
                and data["since_from"] <= last["since_to"]
            )
            if not is_last:
                continue
        which = data.get("id") or (data.get("by"), data.get("value"))
        news.setdefault((event.detector_id, event.version_id, family, which), event)
    fallen = {one.version_id for one in news.values() if one.type == _DROPPED}
    return [
        one
        for one in news.values()
        if one.type != _VERDICT or one.version_id not in fallen
    ]


def _kind_of(event: Event) -> str:
    return str(event.data["verdict"]) if event.type == _VERDICT else event.type


def _day(at: Any) -> date:
    return day_in(at, zone_of(context().settings.time_zone))


def _read(session: Session, events: Sequence[Event]) -> list[News]:
    detectors = list_detectors(session, among={one.detector_id for one in events})
    rows = {row.detector.id: row for row in list_reports(session, detectors)}
    news = []
    for event in events:
        row, kind = rows[event.detector_id], _kind_of(event)
        title = say(event.type, event.data)
        reason = say_in_full(event.type, event.data).removeprefix(title).strip()
        is_of_now = kind in {*_SAID, "undecided"}
        if is_of_now and event.data["version"] == row.estimate.version:
            reason = row.sentence
        day = _day(event.happened_at)
        news.append(News(kind, event, narrow(title), narrow(reason), day))
    return news


def _sum_up(news: Iterable[News]) -> str:
    """Return a summary by kind, such as "one detector dropped"."""
    counts = Counter(kind for kind, _ in {(x.kind, x.event.detector_id) for x in news})
    parts: list[str] = []
    for kind in filter(counts.get, _SAID):
        noun = "" if parts else " detector" + "s" * (counts[kind] > 1)
        parts.append(f"{count_in_words(counts[kind])}{noun} {_SAID[kind]}")
    return " and ".join(filter(None, (", ".join(parts[:-1]), *parts[-1:])))


@page("GET /detectors/<detector_id>/events", "viewer")
def show_events(detector_id: str) -> ResponseReturnValue:
    before = parse_id("evt", request.args.get("before", ""))
    with reading(detector_id) as (session, detector):
        found = list_detector_events(
            session, detector.id, before=before, limit=_PAGE + 1
        )
        events, last = cut_page(found, _PAGE)
        told = [narrow(say_in_full(event.type, event.data)) for event in events]
        return render_template(
            "inbox/events.html",
            detector=detector,
            events=list(zip(events, told, strict=True)),
            last=last,
            is_first=before is None,
        )


_MOST_FOUND = 8


@pages.app_template_global()
def read_rail() -> tuple[int, Sequence[Detector], Work]:
    """Return how many detectors need the visitor by new events, the pins, the work."""
    with database().read() as session:
        own = list_detector_ids(session, Pin, account_id=account().row)
        pins = [one for one in own if account().sees(one)]
        pinned = list_detectors(session, among=pins) if pins else []
        needy = {x.detector_id for x in _find_news(session) if _kind_of(x) in _NEEDY}
        return len(needy), pinned, count_work(session)


def count_work(session: Session) -> Work:
    return count_all(
        session, account().name, among=account().detectors, limit=MOST_COUNTED
    )


@page("POST /detectors/<detector_id>/pin", "viewer")
def pin(detector_id: str) -> ResponseReturnValue:
    with database().write() as session:
        found = get_detector(session, detector_id)
        is_pinned = request.form.get("pinned") == "yes"
        row = {"account_id": account().row, "detector_id": found.id}
        set_row(session, Pin, is_there=is_pinned, **row)
    return lead_to("show_detector", detector_id=detector_id)


@page("GET /find", "viewer")
def find() -> ResponseReturnValue:
    text, among = request.args.get("q", "").strip(), account().detectors
    with database().read() as session:
        seen = list_detectors(session, among=among) if text else []
        found = [one for one in seen if has_words(one, text)][:_MOST_FOUND]
        is_key = text and is_storable(text)
        return render_template(
            "detectors/find.html",
            text=text,
            rows=list_reports(session, found),
            queries=list_by_key(session, text, among, limit=_MOST_FOUND)
            if is_key
            else [],
        )
