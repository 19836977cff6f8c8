"""The filter of a list of queries, as a URL has it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date, timedelta, tzinfo
from typing import Any, NamedTuple

from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict

from tracker.http import context, now
from tracker.services.estimates.query_lists import QueryFilter, find_and_count
from tracker.storage.detectors import Detector, zone_of
from tracker.storage.estimates.cells import day_in, midnight_in
from tracker.storage.labels import count_current_since
from tracker.storage.queries.finding import SORTS
from tracker.web.forms import parse_day

# A page counts no further, so that it takes no longer with ten million queries.
MOST_COUNTED = 10_000

_SHOWN: dict[str, dict[str, Any]] = {
    "": {},
    "unlabelled": {"labelled": False},
    "labelled": {"labelled": True},
    "wrong": {"is_wrong": True},
    "right": {"is_wrong": False},
    "agreed": {"agreement": "agreed"},
    "majority": {"agreement": "majority"},
    "disputed": {"agreement": "disputed"},
    "settled": {"agreement": "settled"},
}
# Any is for where the page itself would choose those that are counted.
_COUNTED = {"": None, "any": None, "yes": True, "no": False}


@dataclass(frozen=True, slots=True)
class Filter:
    """What a visitor wants to see; "" stands for anything."""

    show: str = ""
    predicted: str = ""
    label: str = ""
    version: str = ""
    key: str = ""
    counted: str = ""
    versus: str = ""
    tag: str = ""
    labeler: str = ""
    labelled_from: str = ""
    first: str = ""
    last: str = ""
    low: str = ""
    high: str = ""
    sort: str = "newest"
    where: tuple[str, ...] = ()

    @classmethod
    def parse(cls, asked: MultiDict[str, str]) -> "Filter":
        """Return the filter in a URL."""
        names = [one.name for one in fields(cls) if one.name != "where"]
        given: Mapping[str, str] = {
            name: asked[name].strip() for name in names if name in asked
        }
        where = tuple(text for one in asked.getlist("where") if (text := one.strip()))
        found = replace(cls(), **given, where=where)
        return found if found.show in _SHOWN else replace(found, show="")

    @property
    def address(self) -> dict[str, Any]:
        """The parameters of a URL with the same filter."""
        usual = Filter()
        return {
            name: value
            for name, value in asdict(self).items()
            if value != getattr(usual, name)
        }

    @property
    def is_narrow(self) -> bool:
        """Whether a filter under *More filters* is set."""
        more = (self.key, self.counted, self.versus, self.tag, self.labeler)
        spans = (self.labelled_from, self.first, self.last, self.low, self.high)
        return any((*more, *spans, *self.where))

    @property
    def order(self) -> str:
        return self.sort if self.sort in SORTS else "newest"

    @property
    def wanted(self) -> QueryFilter:
        """What the list is narrowed to."""
        where = list(self.where)
        if self.first or self.last:
            where.append(f"asked_at:{self.first}..{self.last}")
        if self.low or self.high:
            where.append(f"confidence:{self.low}..{self.high}".replace(",", "."))
        same = ("predicted", "label", "version", "versus", "tag", "labeler")
        chosen: dict[str, Any] = {name: getattr(self, name) or None for name in same}
        return QueryFilter(
            **chosen,
            key=f"{self.key.rstrip('*')}*" if self.key else None,
            is_counted=_COUNTED.get(self.counted),
            labelled_since=parse_day("labelled_from", self.labelled_from, _zone())
            if self.labelled_from
            else None,
            where=where,
            **_SHOWN[self.show],
        )


def _zone() -> tzinfo:
    return zone_of(context().settings.time_zone)


class Week(NamedTuple):
    """The current labels that were given since Monday."""

    monday: date
    # By detector and name.
    counts: dict[tuple[int, str], int]
    # Whether all of them were looked at.
    is_all: bool

    def of(self, name: str) -> dict[int, int]:
        """Return how many *name* gave, by detector."""
        return {key: count for (key, one), count in self.counts.items() if one == name}


def count_this_week(session: Session, detector_id: int | None) -> Week:
    """Count the labels of this week in a detector, or in all open ones."""
    today = day_in(now(), _zone())
    monday = today - timedelta(days=today.weekday())
    since = midnight_in(monday, _zone())
    return Week(monday, *count_current_since(session, detector_id, since=since))


def count_mistakes(
    session: Session, detector: Detector, days: tuple[date, date], **chosen: Any
) -> tuple[int, dict[str, Any]]:
    """Return how many mistakes were asked on *days*, and the address that shows them.

    *chosen* are more fields of the filter.
    """
    first, last = (one.isoformat() for one in days)
    wanted = Filter(show="wrong", first=first, last=last, **chosen)
    return count(session, detector, wanted.wanted), wanted.address | {"show": None}


def count(session: Session, detector: Detector, wanted: QueryFilter) -> int:
    """Return how many queries are *wanted*, counted no further than a page counts."""
    options: dict[str, Any] = {"sort": "newest", "after": None, "limit": 1}
    return find_and_count(
        session, detector, wanted, **options, at=now(), at_most=MOST_COUNTED
    )[1]
