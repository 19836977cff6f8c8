"""What can go wrong in our own words; nothing here knows of HTTP."""

from collections.abc import Iterable
from dataclasses import dataclass


class TrackerError(Exception):
    """Base of every error that we raise on purpose."""


class NotFoundError(TrackerError):
    """What was asked for does not exist, or is not for the one who asked."""


class ConflictError(TrackerError):
    """What was asked for contradicts what is already stored."""


class UnavailableError(TrackerError):
    """What is needed is away or busy; the same request may succeed later."""


class ConfigurationError(TrackerError):
    """A setting is missing, unknown or unusable; the message names it."""


@dataclass(frozen=True, slots=True)
class FieldError:
    """One thing wrong with one field of the input."""

    field: str
    message: str


class InvalidInputError(TrackerError):
    """The input is wrong; *errors* say in which fields and what would be right."""

    def __init__(self, errors: Iterable[FieldError]) -> None:
        """Keep *errors* and make a one-line message of them."""
        self.errors = tuple(errors)
        super().__init__("; ".join(f"{e.field}: {e.message}" for e in self.errors))

    @classmethod
    def of(cls, field: str, message: str) -> "InvalidInputError":
        """Return the error of a single *field*."""
        return cls([FieldError(field, message)])
