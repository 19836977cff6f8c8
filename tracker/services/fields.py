"""The kinds of text, number and instant that input may hold, and their errors."""

import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any, NoReturn, TypeVar

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

from tracker.errors import FieldError, InvalidInputError, NotFoundError
from tracker.services.wording import say_right

UNCLEAR = "UNCLEAR"
BALANCED = "balanced"
SAMPLINGS = ("random", "targeted", "unstated")
ROLES = ("viewer", "labeler", "editor", "admin")

# Whoever sends more mistakes than these has not read the first ones yet.
_MOST_ERRORS = 100
# A longer value is cut in an error.
_LONGEST_SHOWN = 80
_METADATA_BYTES = 16 * 1024
_METADATA_DEPTH = 20
# RFC 3339, which is narrower than what datetime.fromisoformat takes.
_INSTANT = re.compile(
    r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d{1,6})?([Zz]|[+-]\d\d:\d\d)", re.ASCII
)
# Nobody logged a query before; who says so has mistaken a column.
_FIRST_YEAR = 1000
# NUL and lone surrogates cannot be stored by PostgreSQL or at all; other control
# characters have no business in a name.
_UNSTORABLE = re.compile("[\x00\ud800-\udfff]")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


class Input(BaseModel):
    """Base of everything that comes from outside: strict, nothing unknown."""

    model_config = ConfigDict(
        strict=True, extra="forbid", frozen=True, allow_inf_nan=False
    )


T = TypeVar("T", bound=Input)


def parse_input(model: type[T], values: Mapping[str, Any]) -> T:
    """Return *values* as *model*; raises InvalidInputError that names the fields."""
    try:
        return model.model_validate(dict(values))
    except ValidationError as error:
        raise InvalidInputError(describe_errors(error)) from error


def describe_errors(error: ValidationError) -> list[FieldError]:
    """Say what pydantic found, with the value received, cut short."""
    return [
        FieldError(_name_field(detail["loc"]), _describe(detail))
        for detail in error.errors(include_url=False)[:_MOST_ERRORS]
    ]


def _name_field(place: tuple[int | str, ...]) -> str:
    return _shorten(".".join(map(str, place))) or "body"


def _describe(detail: Any) -> str:
    kind = detail["type"]
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return f"is not a known field (its value was {show(detail['input'])})"
    right = say_right(kind, detail.get("ctx", {}))
    return f"{show(detail['input'])} is not right: {right}"


def show(value: object) -> str:
    """Return *value* as it may stand in a message: short, printable, storable.

    Letters stand as they are; what cannot be seen, or turns the direction of what
    is beside it, is escaped.
    """
    if isinstance(value, str):
        return _shorten(value, repr)
    try:
        return _shorten(repr(value))
    except RecursionError:
        return "what is nested so deeply"


def show_name(name: str) -> str:
    """Return *name* as it may stand where a field is named, without quotes."""
    return _shorten(name, lambda text: repr(text)[1:-1])


def _shorten(text: str, write: Callable[[str], str] = str) -> str:
    # The characters of the text itself are counted, not those it is written with.
    if len(text) <= _LONGEST_SHOWN:
        return write(text)
    return f"{write(f'{text[:60]}…')} ({len(text):,} characters)"


def parse_instant(value: object) -> datetime:
    """Return the instant written in *value* (RFC 3339), in UTC."""
    if isinstance(value, str) and _INSTANT.fullmatch(value):
        value = value.upper()
    elif not isinstance(value, datetime):
        raise ValueError(
            "an instant is written like 2026-01-31T13:45:00Z, with a time zone and at "
            "most six decimals"
        )
    elif value.tzinfo is None:
        raise ValueError("an instant needs a time zone, such as Z")
    try:
        given = datetime.fromisoformat(value) if isinstance(value, str) else value
        instant = given.astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise ValueError(f"there is no such instant ({error})") from error
    if instant.year < _FIRST_YEAR:
        raise ValueError(f"the year must be {_FIRST_YEAR} or later")
    return instant


def parse_instants(values: Sequence[object]) -> list[datetime]:
    """Return what ``parse_instant`` does of each, sooner where all are texts."""
    with suppress(TypeError, ValueError, OverflowError):
        if all(map(_INSTANT.fullmatch, values)):  # type: ignore[arg-type]
            found = map(datetime.fromisoformat, map(str.upper, values))  # type: ignore[arg-type]
            instants = [instant.astimezone(UTC) for instant in found]
            if min(instants).year >= _FIRST_YEAR:
                return instants
    return list(map(parse_instant, values))


def dump_instant(instant: datetime) -> str:
    """Return *instant* as RFC 3339 in UTC, ending in Z."""
    return instant.astimezone(UTC).isoformat().removesuffix("+00:00") + "Z"


def _check_name(value: str) -> str:
    if not value.strip():
        raise ValueError("it must not be empty")
    if value != value.strip():
        raise ValueError("it must not begin or end with a space")
    if _CONTROL.search(value):
        raise ValueError("control characters and lone surrogates are not allowed")
    return value


def is_storable(text: str) -> bool:
    """Return whether both databases can keep *text*, and search for it."""
    return not _UNSTORABLE.search(text)


def _check_text(value: str) -> str:
    if not is_storable(value):
        raise ValueError("NUL and lone surrogates are not allowed")
    return value


def _check_detector_name(value: str) -> str:
    if value.startswith("det_"):
        raise ValueError("a name must not begin with det_, which begins an id")
    return value


def _check_class(value: str) -> str:
    if value.casefold() in (UNCLEAR.casefold(), BALANCED):
        raise ValueError("no class may be called UNCLEAR or balanced, in any case")
    return value


def _check_classes(value: list[str]) -> list[str]:
    seen: set[str] = set()
    for name in value:
        if name in seen:
            raise ValueError(f"the class {show(name)} stands in it twice")
        seen.add(name)
    return value


def _check_version(value: str) -> str:
    if value == "*":
        raise ValueError("* stands for all versions together and cannot be one")
    return value


def _check_image_url(value: str) -> str:
    if not re.match(r"https?://[^/\s]+", value, re.ASCII) or re.search(r"\s", value):
        raise ValueError("it must be an http or https address")
    return value


def _check_sampling(value: str) -> str:
    if value not in SAMPLINGS:
        raise ValueError(f"it must be one of {', '.join(SAMPLINGS)}")
    return value


def _check_metadata(value: dict[str, Any]) -> dict[str, Any]:
    try:
        text = dump_metadata(value)
        text.encode()
    except (ValueError, RecursionError) as error:
        raise ValueError(
            "it must be strict JSON: no NaN, Infinity or lone surrogate"
        ) from error
    if "\\u0000" in text or "\x00" in text:
        raise ValueError("NUL is not allowed")
    if len(text.encode()) > _METADATA_BYTES:
        raise ValueError(f"it must be at most {_METADATA_BYTES:,} bytes of JSON")
    if _is_deeper(value, _METADATA_DEPTH):
        raise ValueError(f"it must be at most {_METADATA_DEPTH} levels deep")
    return value


def _is_deeper(value: object, levels: int) -> bool:
    if not isinstance(value, dict | list):
        return False
    parts = value.values() if isinstance(value, dict) else value
    return levels == 0 or any(_is_deeper(part, levels - 1) for part in parts)


def dump_metadata(value: Mapping[str, Any]) -> str:
    """Return metadata as the JSON text that is stored."""
    return json.dumps(value, allow_nan=False, ensure_ascii=False, separators=(",", ":"))


def _drop_sign_of_zero(value: float) -> float:
    # SQLite keeps no sign of a zero, PostgreSQL does.
    return value + 0.0


Instant = Annotated[
    datetime,
    BeforeValidator(parse_instant),
    PlainSerializer(dump_instant),
    WithJsonSchema({"type": "string", "format": "date-time"}),
]
DetectorName = Annotated[
    str,
    Field(min_length=1, max_length=200),
    AfterValidator(_check_name),
    AfterValidator(_check_detector_name),
]
Question = Annotated[
    str, Field(min_length=1, max_length=1000), AfterValidator(_check_name)
]
ClassName = Annotated[
    str,
    Field(min_length=1, max_length=100),
    AfterValidator(_check_name),
    AfterValidator(_check_class),
]
Classes = Annotated[
    list[ClassName],
    Field(min_length=2, max_length=1000),
    AfterValidator(_check_classes),
]
VersionName = Annotated[
    str,
    Field(min_length=1, max_length=100),
    AfterValidator(_check_name),
    AfterValidator(_check_version),
]
Key = Annotated[str, Field(min_length=1, max_length=200), AfterValidator(_check_name)]
StudyName = Annotated[
    str, Field(min_length=1, max_length=200), AfterValidator(_check_name)
]
LabelsWanted = Annotated[int, Field(ge=1, le=9)]
KeyName = Annotated[
    str, Field(min_length=1, max_length=100), AfterValidator(_check_name)
]
Note = Annotated[str, Field(max_length=2000), AfterValidator(_check_text)]
LabelText = Annotated[
    str, Field(min_length=1, max_length=100), AfterValidator(_check_text)
]
ImageUrl = Annotated[
    str,
    Field(max_length=2000),
    AfterValidator(_check_text),
    AfterValidator(_check_image_url),
]
Sampling = Annotated[
    str,
    AfterValidator(_check_sampling),
    WithJsonSchema({"type": "string", "enum": list(SAMPLINGS)}),
]
Metadata = Annotated[dict[str, Any], AfterValidator(_check_metadata)]
Probability = Annotated[
    float, Field(ge=0, le=1, allow_inf_nan=False), AfterValidator(_drop_sign_of_zero)
]
Level = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False)]
Rate = Annotated[float, Field(gt=0, le=1, allow_inf_nan=False)]


def missing(noun: str, reference: str) -> NotFoundError:
    """Return the error for something that does not exist, or is not to be seen."""
    return NotFoundError(f"there is no {noun} {show(reference)}")


def refuse(field: str, value: object, message: str) -> NoReturn:
    """Raise the error that *value* of *field* is wrong, and what would be right."""
    raise InvalidInputError.of(field, f"{show(value)} is not right: {message}")
