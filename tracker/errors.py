"""The errors that Tracker raises on purpose; none of them knows about HTTP."""

from collections.abc import Iterable
from dataclasses import dataclass, field


class TrackerError(Exception):
    """Base of every error that Tracker raises on purpose."""


class NotFoundError(TrackerError):
    """The object does not exist, or the caller may not see it."""


class GoneError(TrackerError):
    """What was asked for was there, and was erased."""


class ForbiddenError(TrackerError):
    """The caller's role does not allow it."""


class ConflictError(TrackerError):
    """The request conflicts with stored data."""


class TooManyError(TrackerError):
    """Too many of these run at once; the same request may succeed later."""


class UnavailableError(TrackerError):
    """What Tracker needs is away or busy; the same request may succeed later."""


class DatabaseAwayError(UnavailableError):
    """The database does not answer; *said* is for the operator alone.

    It may name the host, the port and the role.
    """

    def __init__(self, said: str) -> None:
        super().__init__("the database does not answer")
        self.said = said


class DamagedError(UnavailableError):
    """The file of the database is damaged."""


class ConfigurationError(TrackerError):
    """A setting is missing, unknown or unusable; the message names it."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One mistake in one field of the input."""

    field: str
    message: str


@dataclass(frozen=True, slots=True)
class RowError(FieldError):
    """One thing wrong with a row, the first of so many, counted from 1."""

    row: int
    rows: int = 1
    also: list[int] = field(default_factory=list)
    # The first values that are wrong in this way, as they are shown.
    values: dict[str, None] = field(default_factory=dict)


class InvalidInputError(TrackerError):
    """The input is invalid; *errors* name the fields and what would be right."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        self.errors = tuple(errors)
        super().__init__("; ".join(f"{e.field}: {e.message}" for e in self.errors))

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidInputError":
        """Return the error of a single *field*."""
        return cls([FieldError(field, message)])


class TooLargeError(InvalidInputError):
    """A file unpacks to more bytes than a request may have."""
