"""Types of input fields: texts, numbers, instants and strict JSON."""

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Literal, TypeVar

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PlainSerializer,
    ValidationError,
    WithJsonSchema,
)

from tracker.errors import InvalidInputError
from tracker.services.wording import (
    describe_errors,
    dump_instant,
    dump_utc,
    invalid,
    show,
)
from tracker.words import BALANCED, NO_ANSWER, SAMPLINGS, UNCLEAR

METADATA_BYTES = 256 * 1024
_METADATA_DEPTH = 20
# RFC 3339; datetime.fromisoformat allows more.
INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
# Minutes, hours, days or weeks ago.
_AGO = re.compile(r"(\d{1,6})([mhdw])", re.ASCII)
_UNITS = {"m": "minutes", "h": "hours", "d": "days", "w": "weeks"}
# An earlier year is another column, taken for an instant.
_FIRST_YEAR = 1000
# PostgreSQL cannot store NUL, and no database stores lone surrogates.  Names must not
# have other control characters either.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Input(BaseModel):
    """Base of all input: strict, without unknown fields."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False
    )


T = TypeVar("T", bound=Input)


def parse_input(model: type[T], values: Mapping[str, Any]) -> T:
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise InvalidInputError(describe_errors(error)) from error


def parse_instant(value: object) -> datetime:
    """Parse an RFC 3339 instant into UTC."""
    if isinstance(value, str) and INSTANT.fullmatch(value):
        value = value.upper()
    elif not isinstance(value, datetime):
        raise ValueError(
            "it must be an instant such as 2026-01-31T13:45:00Z, with a time zone and "
            "at most six decimals"
        )
    elif value.tzinfo is None:
        raise ValueError("it must have a time zone, such as Z")
    try:
        given = datetime.fromisoformat(value) if isinstance(value, str) else value
        instant = given.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no such instant ({error})") from error
    if instant.year < _FIRST_YEAR:
        raise ValueError(f"the year must be {_FIRST_YEAR} or later")
    return instant


def span_of(value: object) -> re.Match[str] | None:
    return _AGO.fullmatch(value) if isinstance(value, str) else None


def read_when(field: str, value: object, *, at: datetime) -> datetime | None:
    try:
        return None if value is None else parse_when(value, at=at)
    except ValueError as error:
        raise invalid(field, value, str(error)) from error


def parse_when(value: object, *, at: datetime) -> datetime:
    """Parse an instant, or a span before *at*: 30m, 12h, 7d, 2w."""
    found = span_of(value)
    if found is None:
        return parse_instant(value)
    instant = datetime.min.replace(tzinfo=UTC)
    with suppress(OverflowError):
        instant = at - timedelta(**{_UNITS[found[2]]: int(found[1])})
    if instant.year < _FIRST_YEAR:
        raise ValueError("it is too long ago")
    return instant


def parse_instants(values: Sequence[object]) -> list[datetime]:
    """Parse instants as ``parse_instant``, faster if all are texts."""
    with suppress(TypeError, ValueError, OverflowError):
        if all(map(INSTANT.fullmatch, values)):  # type: ignore[arg-type]
            found = map(datetime.fromisoformat, map(str.upper, values))  # type: ignore[arg-type]
            instants = [instant.astimezone(UTC) for instant in found]
            if min(instants).year >= _FIRST_YEAR:
                return instants
    return list(map(parse_instant, values))


def _check_name(value: str) -> str:
    if not value.strip():
        raise ValueError("it must not be empty")
    if value != value.strip():
        raise ValueError("it must not begin or end with a space")
    if _CONTROL.search(value):
        raise ValueError("control characters and lone surrogates are not allowed")
    return value


def is_storable(text: str) -> bool:
    """Return whether both databases can store *text* and search for it."""
    return not _UNSTORABLE.search(text)


def must(test: Callable[[Any], object], right: str) -> AfterValidator:
    """Return the check that *test* is true of a value; else *right* says what is."""

    def check(value: Any) -> Any:
        if not test(value):
            raise ValueError(right)
        return value

    return AfterValidator(check)


def check_text(value: str) -> str:
    if _UNSTORABLE.search(value):
        raise ValueError("NUL and lone surrogates are not allowed")
    return value


def _each_once(noun: str) -> AfterValidator:
    def check(value: list[str]) -> list[str]:
        seen: set[str] = set()
        for name in value:
            if name in seen:
                raise ValueError(f"the {noun} {show(name)} is given twice")
            seen.add(name)
        return value

    return AfterValidator(check)


def _check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    try:
        text = dump_metadata(value)
        text.encode()
    except (ValueError, RecursionError) as error:
        wrong = "it must be strict JSON: no NaN, Infinity or lone surrogate"
        raise ValueError(wrong) from error
    if "\\u0000" in text or "\x00" in text:
        raise ValueError("NUL is not allowed")
    if len(text.encode()) > METADATA_BYTES:
        raise ValueError(f"it must be at most {METADATA_BYTES:,} bytes of JSON")
    if _is_deeper(value, _METADATA_DEPTH):
        raise ValueError(f"it must be at most {_METADATA_DEPTH} levels deep")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(part, levels - 1) for part in parts)


def dump_metadata(value: Mapping[str, Any]) -> str:
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


# Of answers about rows, whose instants are in UTC.
StoredInstant = Annotated[
    datetime,
    PlainSerializer(dump_utc),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
Instant = Annotated[
    StoredInstant, BeforeValidator(parse_instant), PlainSerializer(dump_instant)
]
Address = Annotated[str, WithJsonSchema({"type": "string", "format": "uri"})]
Key = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_name)]
DetectorName = Annotated[
    Key,
    must(
        lambda name: not name.startswith("det_"),
        "a name must not begin with det_, as ids do",
    ),
    # The name is a part of URLs, which continue after it.
    must(lambda name: "/" not in name, "a name must not contain a slash (/)"),
]
StudyName = Key
Question = Annotated[
    str, Field(min_length=1, max_length=1000), AfterValidator(_check_name)
]
VersionWanted = Annotated[
    str, Field(min_length=1, max_length=100), AfterValidator(_check_name)
]
KeyName = VersionWanted
_RESERVED = {UNCLEAR.casefold(), NO_ANSWER.casefold(), BALANCED}
ClassName = Annotated[
    VersionWanted,
    must(
        lambda name: name.casefold() not in _RESERVED,
        "a class must not be called UNCLEAR, NO_ANSWER or balanced, in upper or lower "
        "case",
    ),
]
Classes = Annotated[
    list[ClassName], Field(min_length=2, max_length=1000), _each_once("class")
]
VersionName = Annotated[
    VersionWanted,
    must(lambda name: name != "*", "* means all versions together and cannot name one"),
]
LabelText = Annotated[
    str, Field(min_length=1, max_length=100), AfterValidator(check_text)
]
# Not Key: a metadata key may begin with a space.
MetadataKey = LabelText


GroupBy = Annotated[
    str,
    Field(min_length=1, max_length=109),
    must(lambda key: key != "metadata.", "a metadata key must follow metadata."),
    must(re.compile(r"metadata\..", re.S).match, "it must be like metadata.session"),
    AfterValidator(check_text),
]
SliceNames = Annotated[list[MetadataKey], Field(max_length=8), _each_once("key")]
DetectorTags = Annotated[
    list[VersionWanted],
    Field(max_length=20),
    AfterValidator(lambda tags: list(dict.fromkeys(tags))),
]
ShownMethod = Literal["joint", "exact", "anytime"]
LabelSampling = Literal["random", "all", "targeted"]
LabelOf = Literal["input", "answer"]
Consensus = Literal["majority", "newest"]
MeasureName = Annotated[
    str, Field(min_length=1, max_length=120), AfterValidator(check_text)
]
LabelsWanted = Annotated[int, Field(ge=1, le=9)]
# Up to ten years.
Hours = Annotated[int, Field(ge=1, le=87_600)]
Note = Annotated[str, Field(max_length=2000), AfterValidator(check_text)]
Guideline = Annotated[str, Field(max_length=5000), AfterValidator(check_text)]
ImageUrl = Annotated[
    Note,
    must(
        re.compile(r"https?://[^/\s]\S*").fullmatch,
        "it must be an http or https address",
    ),
]
Sampling = Annotated[
    str,
    must(lambda one: one in SAMPLINGS, f"it must be one of {', '.join(SAMPLINGS)}"),
    WithJsonSchema({"type": "string", "enum": list(SAMPLINGS)}),
]
Metadata = Annotated[dict[str, Any], AfterValidator(_check_metadata)]
# SQLite keeps no sign of a zero, PostgreSQL does.
Probability = Annotated[
    float,
    Field(ge=0, le=1, allow_inf_nan=False),
    AfterValidator(lambda value: value + 0.0),
]
Weight = Annotated[float, Field(gt=0, le=1e12, allow_inf_nan=False)]
Level = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
# A smaller error, split over the days of intervals, would underflow.
ConfidenceLevel = Annotated[float, Field(gt=0, le=0.999_999_999, allow_inf_nan=False)]
ClassParts = dict[str, Annotated[float, Field(gt=0, allow_inf_nan=False)]]
GoldRate = Annotated[float, Field(ge=0, le=0.5, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


# The longest number that Python parses.
_MOST_DIGITS = 4_300
_ESCAPED_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


def load_json(text: str | bytes) -> Any:
    """Parse strict JSON: no NaN or Infinity, no duplicate keys, UTF-8 only.

    Raises ValueError for anything else, and for nesting too deep to parse.
    """
    if isinstance(text, bytes):
        try:
            text = text.decode("utf-8")
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not UTF-8 ({error.reason})") from error
    try:
        value = json.loads(
            text,
            parse_constant=_refuse_constant,
            object_pairs_hook=_refuse_repeated,
            parse_float=_parse_float,
            parse_int=_parse_int,
        )
        if _ESCAPED_SURROGATE.search(text):
            json.dumps(value, ensure_ascii=False).encode()
    except RecursionError as error:
        raise ValueError("it is nested too deeply") from error
    except UnicodeEncodeError as error:
        raise ValueError("half of a surrogate pair is no text") from error
    return value


def _parse_float(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:40]} is too large for a number")
    return value


def _parse_int(text: str) -> int:
    if len(text) > _MOST_DIGITS:
        raise ValueError(f"a number of {len(text):,} digits is too long")
    return int(text)


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _refuse_repeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for name, value in pairs:
        if name in values:
            raise ValueError(f"the key {show(name)} occurs twice in one object")
        values[name] = value
    return values
