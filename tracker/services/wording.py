"""What would be right instead, in our own words and not in those of a library."""

from collections.abc import Mapping
from typing import Any

_WHOLE = "it must be a whole number"
_NUMBER = "it must be a number"
_TEXT = "it must be text"
_LIST = "it must be a list"
_OBJECT = "it must be an object with named values"

# By the type of a pydantic error; what stands in braces is in its context.
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
_ANYTHING_ELSE = "something else belongs here"


def say_right(kind: str, context: Mapping[str, Any]) -> str:
    """Return what would be right where pydantic found an error of this *kind*."""
    if kind == "value_error":
        # One of our own validators said it already.
        return str(context["error"])
    if kind == "string_too_short" and context["min_length"] == 1:
        return "it must not be empty"
    said = {name: _dump(value) for name, value in context.items()}
    return _RIGHT.get(kind, _ANYTHING_ELSE).format(**said)


def _dump(value: object) -> str:
    if isinstance(value, int | float):
        return f"{value:,}".removesuffix(".0")
    return str(value)
