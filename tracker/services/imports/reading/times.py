"""What people write for an instant, read as one."""

import re
from collections.abc import Iterable
from datetime import UTC, date, datetime, time
from typing import Any
from zoneinfo import ZoneInfo

from tracker.services.fields import INSTANT
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reports import Noted
from tracker.services.wording import show

_LOCAL = re.compile(
    r"\d{4}-\d\d-\d\d([Tt ]\d\d:\d\d(:\d\d(\.\d{1,9})?)?)?"
    r"( ?([Zz]|[+-]\d\d:?\d\d))?",
    re.ASCII,
)
_NANOSECONDS = re.compile(r"\.\d{7}", re.ASCII)
_EPOCH = re.compile(r"\d{9,13}(\.\d{1,9})?", re.ASCII)
# From 1973 to 2286, as seconds and as milliseconds.
_SECONDS = (1e8, 1e10)
_MILLISECONDS = (1e11, 1e13)


class TimeReader:
    """Reads instants, also in a time zone, by a format and since 1970."""

    def __init__(self, name: str, choices: Choices) -> None:
        """Read the field *name* as the choices say."""
        self._name = name
        self._zone_name = choices.time_zone
        self._zone = ZoneInfo(choices.time_zone) if choices.time_zone else None
        self._format = choices.time_format

    def __call__(self, values: list[Any], noted: Noted) -> list[Any]:
        """Return instants, or texts that are right as they stand."""
        if self._format is None and _are_instants(values):
            return values
        return [self._read(value, noted) for value in values]

    def _read(self, value: Any, noted: Noted) -> Any:
        if isinstance(value, str):
            return self._read_text(value.strip(), value, noted)
        if isinstance(value, datetime):
            return self._place(value, noted)
        if isinstance(value, date):
            return self._place(datetime.combine(value, time()), noted)
        if isinstance(value, int | float) and not isinstance(value, bool):
            return self._read_epoch(float(value), value, noted)
        return value

    def _read_text(self, bare: str, value: str, noted: Noted) -> Any:
        if self._format is not None:
            try:
                found = datetime.strptime(bare, self._format)  # noqa: DTZ007 - placed.
            except ValueError as error:
                raise ValueError(
                    f"{show(value)} is not right: it must have the time format "
                    f"{self._format}"
                ) from error
            return self._place(found, noted)
        if INSTANT.fullmatch(bare):
            return bare
        if _EPOCH.fullmatch(bare):
            return self._read_epoch(float(bare), value, noted)
        if _LOCAL.fullmatch(bare):
            try:
                found = datetime.fromisoformat(bare.upper().replace(" +", "+"))
            except ValueError:
                return value
            if _NANOSECONDS.search(bare):
                noted[self._name, "nanoseconds", "microseconds, rounded down"] += 1
            return self._place(found, noted)
        return value

    def _read_epoch(self, number: float, value: object, noted: Noted) -> Any:
        for scale, (low, high), unit in (
            (1, _SECONDS, "seconds since 1970"),
            (1_000, _MILLISECONDS, "milliseconds since 1970"),
        ):
            if low <= number < high:
                noted[self._name, unit, "an instant"] += 1
                return datetime.fromtimestamp(number / scale, UTC)
        return value

    def _place(self, found: datetime, noted: Noted) -> datetime:
        if found.tzinfo is not None:
            return found
        # Of the hour that clocks repeat the first is meant, and the one that they skip
        # moves forward.
        zone = self._zone_name or "UTC"
        placed = found.replace(tzinfo=self._zone or UTC, fold=0)
        if placed.utcoffset() != placed.replace(fold=1).utcoffset():
            what = f"a time that is twice or never in {zone}"
            noted[self._name, what, "the first one, or an hour later"] += 1
            placed = placed.astimezone(UTC)
        noted[
            self._name, "a time without a zone", f"one in {self._zone_name or 'UTC'}"
        ] += 1
        return placed


def _are_instants(values: Iterable[Any]) -> bool:
    try:
        return all(map(INSTANT.fullmatch, values))
    except TypeError:
        return False
