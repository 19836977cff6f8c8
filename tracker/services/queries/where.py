"""Conditions as they are written behind ``where=``."""

import re
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta

from sqlalchemy.orm import Session

from tracker.services.detectors import check_prediction
from tracker.services.fields import is_storable, parse_when
from tracker.services.wording import invalid
from tracker.storage.detectors import Detector, list_versions
from tracker.storage.estimates.slices import list_counted
from tracker.storage.queries.finding import Between, Condition, Equals, Metadata

NAME = "where"
MOST = 20
FORMS = (
    "metadata.NAME:VALUE, predicted:CLASS, version:NAME, group:NAME, "
    "confidence:0.5..0.8 or asked_at:2026-11-01.."
)
_FIELDS = "predicted, version, group, confidence, asked_at, metadata.NAME"
_METADATA = "metadata."
_VERSION = "version:"
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
# Every decimal of the least double fits.
_SHARE = re.compile(r"\d{1,3}(\.\d{0,340})?|\.\d{1,340}", re.ASCII)
_NUMBER = re.compile(r"-?(0|[1-9]\d{0,17})(\.\d{1,30})?([eE][+-]?\d{1,2})?", re.ASCII)
_INSTANT_STEP = timedelta(microseconds=1)
_BACKWARDS = "the range must begin before it ends"


def parse_where(
    session: Session, detector: Detector, texts: Sequence[str], *, at: datetime
) -> list[Condition]:
    """Return what *texts* ask of a query of *detector*, all of which must hold.

    Each is a field, a colon and a value or a range, whose ends belong to it; that of
    ``confidence:0.5..<0.8`` does not.  Raises InvalidInputError of ``where``.
    """
    if len(texts) > MOST:
        raise invalid(NAME, len(texts), f"there may be at most {MOST}")
    return [_parse(session, detector, text, at) for text in texts]


def _parse(session: Session, detector: Detector, text: str, at: datetime) -> Condition:
    field, colon, value = text.partition(":")
    if not (colon and value and is_storable(text)):
        raise invalid(
            NAME, text, "it must be like metadata.camera:north or confidence:0.5..1"
        )
    if field.startswith(_METADATA) and field != _METADATA:
        name = field.removeprefix(_METADATA)
        found = detector.id if name in list_counted(detector) else None
        return Metadata(name, value, _read_number(value), found)
    if field == "predicted":
        check_prediction(detector, value, field=NAME)
    if field in {"predicted", "group"}:
        return Equals(field, value)
    if field == "version":
        versions = {one.name: one.id for one in list_versions(session, detector.id)}
        if value not in versions:
            raise invalid(NAME, text, "there is no such version")
        return Equals("version_id", versions[value])
    if field == "confidence":
        return _parse_confidence(value)
    if field == "asked_at":
        return _parse_asked_at(value, at.astimezone(detector.zone))
    raise invalid(NAME, text, f"before the colon there must be one of {_FIELDS}")


def _read_number(value: str) -> int | float | None:
    if not _NUMBER.fullmatch(value):
        return None
    return int(value) if value.lstrip("-").isdigit() else float(value)


def named_version(texts: Sequence[str]) -> str | None:
    names = [text.removeprefix(_VERSION) for text in texts if text.startswith(_VERSION)]
    return names[0] if names else None


def _ends(value: str) -> tuple[str, str]:
    # A single value is a range by itself.
    low, dots, high = value.partition("..")
    return (low, high) if dots else (value, value)


def _parse_confidence(value: str) -> Between:
    is_below = "..<" in value
    ends = _ends(value.replace("..<", "..", 1))
    is_read = any(ends) and all(not end or _SHARE.fullmatch(end) for end in ends)
    low, high = (float(end) if is_read and end else None for end in ends)
    if not is_read or max(low or 0, high or 0) > 1 or (is_below and high is None):
        message = "confidence is a number or a range within 0 and 1, such as 0.5..0.8"
        raise invalid(NAME, f"confidence:{value}", message)
    is_empty = is_below and low == high
    if low is not None and high is not None and (low > high or is_empty):
        raise invalid(NAME, f"confidence:{value}", _BACKWARDS)
    if is_below:
        return Between("confidence", low, below=high)
    return Between("confidence", low, high)


def _parse_asked_at(value: str, at: datetime) -> Between:
    first, last = _ends(value)
    shown = f"asked_at:{value}"
    if not (first or last):
        raise invalid(NAME, shown, "a range has a beginning or an end")
    try:
        low = _begin(first, at) if first else None
        below = _end(last, at) if last else None
    except (ValueError, OverflowError) as error:
        message = f"{error}; or a date, such as 2026-11-01"
        raise invalid(NAME, shown, message) from error
    if low is not None and below is not None and low >= below:
        raise invalid(NAME, shown, _BACKWARDS)
    return Between("asked_at", low, below=below)


def _begin(text: str, at: datetime) -> datetime:
    if _DATE.fullmatch(text):
        day = parse_when(f"{text}T00:00:00Z", at=at)
        return day.replace(tzinfo=at.tzinfo).astimezone(UTC)
    return parse_when(text, at=at)


def _end(text: str, at: datetime) -> datetime:
    # The first instant behind it: a date is its whole day.
    if not _DATE.fullmatch(text):
        return _begin(text, at) + _INSTANT_STEP
    following = date.fromisoformat(text) + timedelta(days=1)
    return _begin(following.isoformat(), at)
