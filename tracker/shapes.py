"""The values that services answer with, and that every room reads as they are."""

from datetime import datetime
from typing import Any, Self

from pydantic import BaseModel, ConfigDict, Field


class Shape(BaseModel):
    """Base of every answer."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    @classmethod
    def from_row(cls, row: object, **more: Any) -> Self:
        """Return what *more* gives, and of all other fields what *row* has."""
        names = cls.model_fields.keys() - more.keys()
        return cls(**{name: getattr(row, name) for name in names}, **more)

    def dump(self) -> dict[str, Any]:
        return self.model_dump(mode="json", by_alias=True)


class OfDetector(Shape):
    """Something that is said of one version of a detector, or of all of them."""

    detector: str = Field(description="The id of the detector.")
    name: str = Field(description="The name of the detector.")
    version: str | None = Field(
        description="* for all versions pooled; null before the first query."
    )


class OfClass(Shape):
    """Something that is said of one class."""

    name: str = Field(serialization_alias="class")


class Accuracy(Shape):
    """An accuracy and its interval."""

    accuracy: float | None = Field(
        description="null while one of its classes has no label."
    )
    low: float
    high: float

    @property
    def width(self) -> float:
        return self.high - self.low


class Counts(Shape):
    """How many queries have a label, and for how many of them it was predicted."""

    correct: int
    labelled: int


# Pydantic puts the fields of the last base first: counts, accuracy, low, high.
class Score(Accuracy, Counts):
    """An accuracy with its counts and its interval.

    The accuracy of a class is correct / labelled.  The balanced accuracy is the mean
    of the class accuracies, with the counts of all classes.
    """


class Moment(Score):
    """A score as it stood after so many labels."""

    computed_at: datetime
    labels: int
