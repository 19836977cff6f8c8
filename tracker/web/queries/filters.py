"""The filter of a list of queries, as a URL has it."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from datetime import date
from typing import Any

from sqlalchemy.orm import Session
from werkzeug.datastructures import MultiDict

from tracker.http import now
from tracker.services.estimates.query_lists import QueryFilter, find_and_count
from tracker.storage.detectors import Detector
from tracker.storage.queries.finding import SORTS

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
        return any((*more, *self.where, self.first, self.last, self.low, self.high))

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
        return QueryFilter(
            predicted=self.predicted or None,
            label=self.label or None,
            version=self.version or None,
            key=f"{self.key.rstrip('*')}*" if self.key else None,
            is_counted=_COUNTED.get(self.counted),
            versus=self.versus or None,
            tag=self.tag or None,
            labeler=self.labeler or None,
            where=where,
            **_SHOWN[self.show],
        )


def count_mistakes(
    session: Session, detector: Detector, days: tuple[date, date], **chosen: Any
) -> tuple[int, dict[str, Any]]:
    """Return how many mistakes were asked on *days*, and the address that shows them.

    *chosen* are more fields of the filter.
    """
    first, last = (one.isoformat() for one in days)
    wanted = Filter(show="wrong", first=first, last=last, **chosen)
    options: dict[str, Any] = {"sort": "newest", "after": None, "limit": 1}
    number = find_and_count(
        session, detector, wanted.wanted, **options, at=now(), at_most=MOST_COUNTED
    )[1]
    return number, {**wanted.address, "show": None}
