"""Query parameters of the API, and the pages of its lists."""

import re
from collections.abc import Callable, Sequence
from datetime import datetime
from functools import partial
from typing import Annotated, Any, ClassVar, Self, TypeVar
from urllib.parse import urlencode

from flask import request, url_for
from pydantic import (
    BeforeValidator,
    Field,
    ModelWrapValidatorHandler,
    ValidationError,
    WithJsonSchema,
    field_validator,
    model_validator,
)
from sqlalchemy.orm import Session

from tracker import errors, http, shapes, stats
from tracker.services import detectors, fields, wording
from tracker.services.queries.where import FORMS
from tracker.storage.base import dump_id, parse_id, parse_whole

_NUMBER = re.compile(r"-?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,3})?", re.ASCII)
_PLACE = re.compile(r"(\d{1,18})-(\d{1,18})", re.ASCII)

_SCHEMAS: dict[type, dict[str, Any]] = {}

Answer = dict[str, Any]


def optional(description: str) -> Any:
    """Return the field of a parameter that may be left out."""
    return Field(default=None, description=description)


class Parameters(fields.Input):
    """Base of the query parameters of a call."""

    # The parameters that may be repeated.
    repeated: ClassVar[frozenset[str]] = frozenset()

    @classmethod
    def model_json_schema(cls, *arguments: Any, **options: Any) -> dict[str, Any]:
        """Return the cached schema: flask-openapi3 asks for it at every request."""
        if arguments or options:
            return super().model_json_schema(*arguments, **options)
        if cls not in _SCHEMAS:
            _SCHEMAS[cls] = super().model_json_schema()
        return _SCHEMAS[cls]

    @model_validator(mode="wrap")
    @classmethod
    def _say_what_would_be_right(
        cls, values: Any, handler: ModelWrapValidatorHandler[Self]
    ) -> Self:
        try:
            return handler(values)
        except ValidationError as error:
            known = ", ".join(cls.model_fields) or "none"
            unknown = f"is not a parameter of this call; known parameters: {known}"
            raise http.BadParametersError(
                one
                if one.field in cls.model_fields
                else errors.FieldError(one.field, unknown)
                for one in wording.describe_errors(error)
            ) from error


class NoParameters(Parameters):
    """A call without query parameters."""


def wrong_parameter(name: str, value: object, message: str) -> http.BadParametersError:
    wrong = errors.FieldError(name, f"{wording.show(value)} is not right: {message}")
    return http.BadParametersError([wrong])


def _read_by(parse: Callable[[Any], object], right: str) -> BeforeValidator:
    """Return a validator that parses a text; *parse* returns None for a wrong one."""

    def read(value: object) -> object:
        found = parse(value) if isinstance(value, str) else None
        if found is None:
            raise ValueError(right)
        return found

    return BeforeValidator(read)


def _find_place(text: str) -> tuple[int, int] | None:
    found = _PLACE.fullmatch(text)
    return (int(found[1]), int(found[2])) if found else None


def _id_schema(prefix: str) -> WithJsonSchema:
    return WithJsonSchema({"type": "string", "pattern": f"^{prefix}_[0-9]{{1,19}}$"})


_WHOLE = _read_by(parse_whole, "it must be a whole number of at most 63 bits")
_DECIMAL = _read_by(
    lambda text: float(text) if _NUMBER.fullmatch(text) else None,
    "it must be a number, such as 0.95",
)
_FROM_NEXT = "it must be taken from the address in next"

Limit = Annotated[int, Field(ge=1, le=1000), _WHOLE]
DrawLimit = Annotated[int, Field(ge=1, le=100), _WHOLE]
RowLimit = Annotated[int, Field(ge=1, le=10_000), _WHOLE]
Whole = Annotated[int, Field(ge=0, le=stats.MOST_LABELS), _WHOLE]
Flag = Annotated[
    bool, _read_by({"true": True, "false": False}.get, "it must be true or false")
]
Text = Annotated[
    str, fields.must(lambda text: "\x00" not in text, "NUL is not allowed")
]
_SHOWN = "The version; by default the one that is shown"
ShownVersion = Annotated[Text | None, Field(description=f"{_SHOWN}.")]
AnyVersion = Annotated[
    Text | None, Field(description=f"{_SHOWN}; * pools all versions.")
]
LevelText = Annotated[fields.Level, _DECIMAL]
OwnLevel = Annotated[
    Annotated[fields.ConfidenceLevel, _DECIMAL] | None,
    Field(description="The confidence level; by default the detector's own."),
]
ShareText = Annotated[fields.Probability, _DECIMAL]
# The service checks the method.
Method = Annotated[str, WithJsonSchema({"type": "string", "enum": list(stats.METHODS)})]
StoredMethod = Annotated[
    str, WithJsonSchema({"type": "string", "enum": [*stats.METHODS, "*"]})
]
QueryReference = Annotated[
    int,
    _read_by(
        partial(parse_id, "iq"), "it must be the id of a query, such as iq_16777216"
    ),
    _id_schema("iq"),
]
Place = Annotated[
    tuple[int, int],
    _read_by(_find_place, _FROM_NEXT),
    WithJsonSchema({"type": "string", "pattern": "^[0-9]{1,18}-[0-9]{1,18}$"}),
]
# An instant, or a span before the request.
When = Annotated[
    datetime,
    BeforeValidator(lambda value: fields.parse_when(value, at=http.now())),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "string", "format": "date-time"},
                {"type": "string", "pattern": "^[0-9]{1,4}[mhdw]$"},
            ]
        }
    ),
]
AS_KNOWN_AT = (
    "As known at this instant: without later labels, and before later corrections. "
    "Settings, such as target and measure, are the current ones."
)


class Page(Parameters):
    """The page of a list."""

    # The prefix of the items' ids.
    prefix: ClassVar[str]

    limit: Limit = Field(
        default=100, description="The maximum number of items on a page."
    )
    after: Annotated[int, _id_schema("[a-z]{2,3}")] | None = optional(
        "The value from next."
    )

    @field_validator("after", mode="before")
    @classmethod
    def _parse_after(cls, value: object) -> int:
        number = parse_id(cls.prefix, value) if isinstance(value, str) else None
        if number is None:
            raise ValueError(_FROM_NEXT)
        return number


class Window(Parameters):
    """The first and last instant of a range."""

    since: When | None = optional(
        "From this instant on, or from this long ago: 30m, 12h, 7d, 2w."
    )
    until: When | None = optional("Before this instant, in the same format.")

    @model_validator(mode="wrap")
    @classmethod
    def _check_order(cls, sent: Any, read: ModelWrapValidatorHandler[Self]) -> Self:
        found = read(sent)
        if found.since and found.until and found.since >= found.until:
            message = "it must be later than since"
            raise wrong_parameter("until", str(sent["until"]), message)
        return found


class Where(Parameters):
    """Conditions on queries."""

    repeated: ClassVar[frozenset[str]] = frozenset({"where"})

    where: list[Text] = Field(
        default=[],
        description="Only queries that meet this condition, or all of several. "
        f"{FORMS} (ranges include both ends; a date is its whole day in the "
        "workspace's time zone). Conditions on keys of metadata that the detector does "
        "not declare may take seconds for a million queries.",
    )


class IdPath(fields.Input):
    """The id in a path."""

    id: str = Field(description="The id; a detector may be given by its name.")


Item = TypeVar("Item")


def dump_page(
    found: Sequence[Item],
    limit: int,
    describe: Callable[[Item], shapes.Shape],
    place: Callable[[Item], str],
) -> dict[str, Any]:
    """Return a page as JSON; *found* has one more than *limit* if there is another."""
    items = found[:limit]
    after = place(items[-1]) if len(found) > limit else None
    return {
        "items": [describe(item).dump() for item in items],
        "next": next_address(after),
    }


def dump_newest(  # noqa: PLR0913 - the list and its page.
    detector: str,
    list_rows: Callable[..., Sequence[Any]],
    describe: Callable[[Session, Any], shapes.Shape],
    prefix: str,
    *,
    after: int | None,
    limit: int,
) -> dict[str, Any]:
    """Return a page of a list of *detector* as JSON; *prefix* is that of its ids."""
    with http.database().read() as session:
        detector_id = detectors.get_detector(session, detector).id
        rows = list_rows(session, detector_id, before=after, limit=limit + 1)
        return dump_page(
            rows,
            limit,
            lambda row: describe(session, row),
            lambda row: dump_id(prefix, row.id),
        )


def read_detector(
    path: IdPath, service: Callable[..., shapes.Shape], *given: Any, **choices: Any
) -> dict[str, Any]:
    """Return what *service* says of the detector in a path, as JSON."""
    with http.database().read() as session:
        detector = detectors.get_detector(session, path.id)
        return service(session, detector, *given, **choices).dump()


def next_address(after: str | None) -> str | None:
    """Return the request's URL with *after*; None for None."""
    if after is None:
        return None
    # Not request.url: it does not escape a % in a name.
    address = url_for(
        str(request.endpoint), _external=True, **(request.view_args or {})
    )
    asked = {**request.args.to_dict(flat=False), "after": after}
    return f"{address}?{urlencode(asked, doseq=True)}"
