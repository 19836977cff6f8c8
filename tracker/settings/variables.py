"""The variables of the environment that settings are read from."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from tracker.errors import ConfigurationError

_PREFIX = "TRACKER_"
# The test suite and tracker-client have variables of their own: no settings.
_OF_TESTS = "TRACKER_TEST_"
_OF_CLIENT = frozenset({"TRACKER_URL", "TRACKER_KEY", "TRACKER_SPOOL"})

Fields = Mapping[str, FieldInfo]


def read_variables(environ: Mapping[str, str], fields: Fields) -> dict[str, str]:
    """Return the text of each of *fields* that *environ* sets.

    Raises ConfigurationError for an unknown ``TRACKER_`` variable: it is most likely
    a misspelt one.
    """
    values: dict[str, str] = {}
    for variable, value in environ.items():
        if variable.startswith(_PREFIX) and not _is_of_others(variable):
            name, text = _read_variable(variable, value, fields)
            if name in values:
                raise ConfigurationError(
                    f"{_PREFIX}{name.upper()} and its _FILE are both set; keep one"
                )
            values[name] = text
    return values


def _is_of_others(variable: str) -> bool:
    return variable in _OF_CLIENT or variable.startswith(_OF_TESTS)


def _read_variable(variable: str, value: str, fields: Fields) -> tuple[str, str]:
    name = variable.removeprefix(_PREFIX).lower()
    if name in fields:
        return name, value
    stem = name.removesuffix("_file")
    if stem != name and stem in fields:
        try:
            text = Path(value).read_text().strip()
        except (OSError, UnicodeError) as error:
            raise ConfigurationError(
                f"{variable}: cannot read {value}: {error}"
            ) from error
        # An empty secret would quietly be replaced by the default.
        if not text:
            raise ConfigurationError(f"{variable}: the file {value} is empty")
        return stem, text
    known = ", ".join(f"{_PREFIX}{field.upper()}" for field in fields)
    raise ConfigurationError(f"{variable} is not a setting; there are: {known}")


def describe_errors(error: ValidationError, fields: Fields) -> str:
    """Return one line for each setting that is wrong, with what would be right."""

    def line(detail: Any) -> str:
        name = str(detail["loc"][0])
        said = detail["msg"].removeprefix("Value error, ")
        right = _describe_bounds(fields[name]) or said
        # What stands in a log is no secret any more.
        given = repr(detail["input"]) if fields[name].repr else "…"
        return f"{_PREFIX}{name.upper()}={given}: {right}"

    return "\n".join(line(detail) for detail in error.errors())


def _describe_bounds(field: FieldInfo) -> str | None:
    limits = {
        bound: getattr(limit, bound)
        for limit in field.metadata
        for bound in ("ge", "le")
        if hasattr(limit, bound)
    }
    if not limits:
        return None
    is_whole = field.annotation in {int, int | None}
    kind = "a whole number" if is_whole else "a number"
    # Not 1.09951e+12, and without commas, as it is to be written.
    return f"it must be {kind} from {limits['ge']:.15g} to {limits['le']:.15g}"
