"""Texts of error messages: what is wrong with a value, and what would be right."""

import json
import re
from collections.abc import Callable, Collection
from datetime import UTC, date, datetime, time
from decimal import Decimal
from functools import lru_cache
from typing import Any

from pydantic import ValidationError

from tracker.errors import FieldError, InvalidInputError, NotFoundError

# More errors than these help nobody.
_MOST_ERRORS = 100
# A longer value is cut in an error.
_LONGEST_SHOWN = 80
_LONGEST_REASON = 200
# Characters of binary files; a text has at most one by mistake.
_BINARY = re.compile("[\x00-\x08\x0e-\x1f\x80-\x9f\ufffd]")
_MOST_BINARY = 3

_WHOLE = "it must be a whole number"
_NUMBER = "it must be a number"
_TEXT = "it must be text"
_LIST = "it must be a list"
_OBJECT = "it must be an object with named values"

# By the type of a pydantic error; braces refer to its context.
_RIGHT = {
    "too_short": "there must be at least {min_length}",
    "too_long": "there must be at most {max_length}",
    "string_too_short": "it must have at least {min_length} characters",
    "string_too_long": "it must have at most {max_length} characters",
    "greater_than": "it must be more than {gt}",
    "greater_than_equal": "it must be at least {ge}",
    "less_than": "it must be less than {lt}",
    "less_than_equal": "it must be at most {le}",
    "literal_error": "it must be {expected}",
    "enum": "it must be {expected}",
    "int_type": _WHOLE,
    "int_parsing": _WHOLE,
    "int_parsing_size": f"{_WHOLE} that is not as long",
    "int_from_float": _WHOLE,
    "float_type": _NUMBER,
    "float_parsing": _NUMBER,
    "finite_number": "it must be a number that is not infinite",
    "bool_type": "it must be true or false",
    "bool_parsing": "it must be true or false",
    "string_type": _TEXT,
    "string_unicode": f"{_TEXT} without half of a surrogate pair",
    "list_type": _LIST,
    "tuple_type": _LIST,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
}


def describe_errors(error: ValidationError) -> list[FieldError]:
    return [
        FieldError(
            _shorten(".".join(map(str, detail["loc"]))) or "body", _describe(detail)
        )
        for detail in error.errors(include_url=False)[:_MOST_ERRORS]
    ]


def _describe(detail: Any) -> str:
    kind = detail["type"]
    if kind == "missing":
        return "is required"
    if kind == "extra_forbidden":
        return f"is not a known field (its value was {show(detail['input'])})"
    context = {
        name: f"{value:,}".removesuffix(".0")
        if isinstance(value, int | float)
        else value
        for name, value in detail.get("ctx", {}).items()
    }
    right = _RIGHT.get(kind, "another value is needed").format(**context)
    if kind == "value_error":
        # Our own validators word their errors.
        right = str(context["error"])
    if kind == "string_too_short" and context["min_length"] == "1":
        right = "it must not be empty"
    return f"{show(detail['input'])} is not right: {right}"


def show(value: object) -> str:
    """Return *value* for a message, short and printable.

    Letters are kept.  Invisible characters, and those that change the direction of
    text, are escaped.
    """
    if isinstance(value, str):
        return _shorten(value, repr)
    if isinstance(value, bytes):
        return f"binary data of {len(value):,} bytes"
    try:
        return _shorten(_write_json(value))
    except RecursionError:
        return "a value nested so deeply"


def _write_json(value: object) -> str:
    if value is None or isinstance(value, bool):
        return json.dumps(value)
    if isinstance(value, datetime) and value.tzinfo is not None:
        return dump_instant(value)
    if isinstance(value, date | time):
        return value.isoformat()
    if isinstance(value, dict):
        pairs = (f"{_write_json(k)}: {_write_json(v)}" for k, v in value.items())
        return f"{{{', '.join(pairs)}}}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_write_json, value))}]"
    return str(value) if isinstance(value, Decimal) else repr(value)


def show_name(name: str) -> str:
    return _shorten(name, lambda text: repr(text)[1:-1])


def _shorten(text: str, write: Callable[[str], str] = str) -> str:
    # Counts the characters of the text, not of its escaped form.
    if len(_BINARY.findall(text, 0, 200)) > _MOST_BINARY:
        return f"binary data of {len(text):,} characters"
    if len(text) <= _LONGEST_SHOWN:
        return write(text)
    return f"{write(f'{text[:60]}…')} ({len(text):,} characters)"


def show_reason(error: BaseException) -> str:
    """Return the first line of a library's error, short and printable.

    It may quote the input; further lines often advise programmers.
    """
    line = str(error).strip().partition("\n")[0][:_LONGEST_REASON]
    said = "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)
    return said or type(error).__name__


def dump_instant(instant: datetime) -> str:
    return dump_utc(instant if instant.tzinfo is UTC else instant.astimezone(UTC))


# Cached: the rows of a snapshot have one instant.  Only for UTC, because Python takes
# both passes of a repeated hour for equal.
@lru_cache(maxsize=64)
def dump_utc(instant: datetime) -> str:
    return f"{instant.isoformat()[:-6]}Z"


def missing(noun: str, reference: str) -> NotFoundError:
    return NotFoundError(f"there is no {noun} {show(reference)}")


def check_one_of(field: str, value: str, known: Collection[str]) -> None:
    if value not in known:
        raise invalid(field, value, f"it must be one of {', '.join(known)}")


def invalid(field: str, value: object, message: str) -> InvalidInputError:
    return InvalidInputError.of(field, f"{show(value)} is not right: {message}")
