"""Choices of how to read a file, as the caller gives them or a detector saves them."""

from collections.abc import Sequence
from typing import Any, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import ConfigDict, Field, ValidationError, field_validator

from tracker.errors import FieldError, InvalidInputError
from tracker.services.fields import KeyName
from tracker.services.imports.reading.rows import FIELDS, IMAGE, JUDGE, PROBABILITY
from tracker.services.wording import describe_errors, show
from tracker.shapes import Shape

Extra = Literal["metadata", "ignore", "refuse"]
EXTRAS: tuple[Extra, ...] = ("metadata", "ignore", "refuse")
METADATA, _, REFUSE = EXTRAS
# How rows without a key are taken if they nearly equal an earlier file.
SAME_ROWS, NEW_ROWS = ("same", "new")
MAPPED = (*FIELDS, IMAGE, PROBABILITY)
# What may be the same in every row.
GIVEN = tuple(name for name in FIELDS if name not in {"key", "input", "metadata"})


class Mapping(Shape):
    """How files are read, as it can be saved with a detector."""

    model_config = ConfigDict(strict=True)

    columns: dict[str, str] = Field(
        default_factory=dict, description="By field, the column that holds it."
    )
    classes: dict[str, str] = Field(
        default_factory=dict, description="By value, the class that it stands for."
    )
    extra: Extra | None = Field(
        default=None, description="What to do with other columns."
    )
    time_zone: str | None = Field(
        default=None,
        description="The time zone of times without one, such as Europe/Berlin.",
    )
    time_format: str | None = Field(
        default=None,
        min_length=1,
        max_length=100,
        description="How times are written, such as %d.%m.%Y %H:%M.",
    )

    @field_validator("columns", "given", check_fields=False)
    @classmethod
    def _check_fields(cls, value: dict[str, str], info: Any) -> dict[str, str]:
        known = GIVEN if info.field_name == "given" else MAPPED
        for name in value:
            if name not in known and not (name.startswith(JUDGE) and known is MAPPED):
                raise ValueError(
                    f"{show(name)} is not a field; the fields are {', '.join(known)}"
                )
        return value

    @field_validator("time_zone")
    @classmethod
    def _check_zone(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                ZoneInfo(value)
            except (ZoneInfoNotFoundError, ValueError, OSError) as error:
                raise ValueError(
                    "it must be a time zone such as Europe/Berlin or UTC"
                ) from error
        return value

    @property
    def is_empty(self) -> bool:
        return self == Mapping()


class Choices(Mapping):
    """What was said beside the file: how it is read, and whose labels they are."""

    labeler: KeyName | None = None
    # By field, the value that every row has.
    given: dict[str, str] = Field(default_factory=dict)
    # Predictions that are none, such as "I am not sure".
    no_answer: list[str] = Field(default_factory=list)
    # Of rows without a key, SAME_ROWS or NEW_ROWS; None where nobody says it.
    rows: Literal["same", "new"] | None = None
    percent: bool = False
    # Of a workbook, and the row of a table that names the columns, counted from 1.
    sheet: str | None = None
    header_row: int | None = Field(default=None, ge=1, le=1_000)
    # What becomes of other columns where nobody says it.
    usual_extra: Extra = REFUSE
    uses_saved: bool = True
    # Columns as they were saved, which a file need not have.
    remembered: dict[str, str] = Field(default_factory=dict)
    # Of the images beside the file: the name in the store by that in the file, and
    # what is wrong with the others.
    images: dict[str, str] | None = None
    wrong_images: dict[str, str] = Field(default_factory=dict)
    # Of a file that waits for a worker: how many bytes are rows; images follow them.
    images_from: int | None = None

    def join(self, saved: Mapping) -> "Choices":
        """Return what is said here, and where nothing is, what was *saved*."""
        if not self.uses_saved:
            return self
        others = saved.columns.items()
        return self.model_copy(
            update={
                "uses_saved": False,
                "remembered": {k: v for k, v in others if k not in self.columns},
                "classes": saved.classes | self.classes,
                "extra": self.extra or saved.extra,
                "time_zone": self.time_zone or saved.time_zone,
                "time_format": self.time_format or saved.time_format,
            }
        )


DEFAULT = Choices()
# What each is called where it is said: by option, in an address, on the page.
_SAID = {"columns": "map", "classes": "class", "given": "set"}


def read_choices(  # noqa: PLR0913 - those that are no plain values.
    *,
    columns: Sequence[str] = (),
    classes: Sequence[str] = (),
    version: str | None = None,
    given: Sequence[str] = (),
    no_answer: Sequence[str] = (),
    same_rows: bool = False,
    new_rows: bool = False,
    **plain: Any,
) -> Choices:
    """Return what was said in texts, FIELD=COLUMN and VALUE=CLASS among them.

    *plain* are other fields of the choices, as they are; an empty text says nothing.
    Raises InvalidInputError that says all that is wrong with them.
    """
    wrong: list[FieldError] = []
    if same_rows and new_rows:
        wrong.append(FieldError("same_rows", "cannot be combined with new_rows"))
    said = {name: one for name, one in plain.items() if one not in {"", None}}
    try:
        return Choices(
            columns=_pairs("map", columns, "FIELD=COLUMN", wrong),
            classes=_pairs("class", classes, "VALUE=CLASS", wrong, last=True),
            given=_pairs("set", given, "FIELD=VALUE", wrong)
            | ({"version": version} if version else {}),
            no_answer=list(no_answer),
            rows="same" if same_rows else "new" if new_rows else None,
            **said,
        )
    except ValidationError as error:
        wrong += [
            FieldError(_SAID.get(one.field, one.field), one.message)
            for one in describe_errors(error)
        ]
        raise InvalidInputError(wrong) from error
    finally:
        if wrong:
            raise InvalidInputError(wrong)


def _pairs(
    name: str,
    texts: Sequence[str],
    form: str,
    wrong: list[FieldError],
    *,
    last: bool = False,
) -> dict[str, str]:
    pairs: dict[str, str] = {}
    for text in texts:
        # A value may hold an equals sign, and so may a column; a field does not.
        left, sign, right = text.rpartition("=") if last else text.partition("=")
        if not (sign and left and right):
            wrong.append(
                FieldError(name, f"{show(text)} is not right: it must be {form}")
            )
        elif pairs.setdefault(left, right) != right:
            wrong.append(FieldError(name, f"{show(left)} is given twice"))
    return pairs
