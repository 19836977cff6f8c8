"""The values of a form, and their errors."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import date, datetime, tzinfo
from decimal import Decimal
from typing import Any

from tracker.errors import ConflictError, FieldError, InvalidInputError
from tracker.services.detectors import DetectorChange, NewDetector
from tracker.services.fields import parse_input
from tracker.services.wording import invalid
from tracker.storage.base import parse_whole
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import midnight_in

_PERCENT = "is not a percentage above 0 and below 100, such as 95"
_PERCENT_FIELDS = {
    "confidence_level": _PERCENT,
    "target": _PERCENT,
    "reference": _PERCENT,
    "queue_rate": "is not a percentage above 0 and up to 100, such as 20",
    "gold_rate": "is not a percentage from 0 to 50, such as 5",
}


@dataclass(frozen=True, slots=True)
class Form:
    """The values that a form shows, and the errors beside its fields."""

    values: Mapping[str, str]
    errors: Mapping[str, list[str]] = field(default_factory=dict)

    def value(self, name: str) -> str:
        return self.values.get(name, "")

    def errors_of(self, name: str) -> list[str]:
        return self.errors.get(name, [])


def failed_form(
    values: Mapping[str, str],
    error: InvalidInputError | ConflictError,
    *,
    conflict_field: str = "name",
) -> Form:
    """Return what was typed with each error at its field.

    A conflict is always about one field, which the caller knows.
    """
    found = (
        error.errors
        if isinstance(error, InvalidInputError)
        else [FieldError(conflict_field, str(error))]
    )
    errors: dict[str, list[str]] = {}
    for wrong in found:
        # One of many classes is wrong in the field that holds all of them.
        name = wrong.field.partition(".")[0]
        message = _PERCENT_FIELDS.get(name, wrong.message)
        errors.setdefault(name, []).append(message)
    return Form(values, errors)


def parse_new_detector(values: Mapping[str, str]) -> NewDetector:
    """Return the detector that was described; raises InvalidInputError."""
    fields = NewDetector.model_fields
    given = filled_in(values, "name", "question", "label_of") | {
        "classes": _lines(values.get("classes", "")),
        **{name: one for name, one in _parse_fields(values).items() if name in fields},
    }
    return parse_input(NewDetector, given)


def parse_detector_change(
    values: Mapping[str, str], classes: Sequence[str]
) -> DetectorChange:
    """Return the requested changes; raises InvalidInputError.

    *classes* are those there are, to which the new ones are added.  A field that the
    form does not have keeps its value.
    """
    names = {"name", "question"} & values.keys()
    given: dict[str, Any] = {name: values[name].strip() for name in names}
    given |= _parse_fields(values)
    kind = given.get("measure")
    if f"{kind}_of" in values:
        given["measure"] = f"{kind}:{values[f'{kind}_of'].strip()}"
    if added := _lines(values.get("added", "")):
        given["classes"] = [*classes, *added]
    return parse_input(DetectorChange, given)


def dump_detector(detector: Detector) -> dict[str, str]:
    """Return the fields of *detector* as they are typed into a form."""
    stored = {name: dump(getattr(detector, name)) for name, (_, dump) in FIELDS.items()}
    return stored | {
        "name": detector.name,
        "question": detector.question,
        "label_of": detector.label_of,
    }


def _parse_fields(values: Mapping[str, str]) -> dict[str, Any]:
    given = {
        name: parse(values[name])
        for name, (parse, _) in FIELDS.items()
        if name in values
    }
    return {
        name: value
        for name, value in given.items()
        if value != "" or name not in _CHOICES
    }


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


def _parse_also(text: str) -> list[dict[str, Any]]:
    pairs = map(_parse_percent_line, _lines(text))
    return [{"measure": name, "target": part} for name, part in pairs]


def _parse_shares(text: str) -> dict[str, Any] | None:
    return dict(map(_parse_percent_line, _lines(text))) or None


def _dump_parts(parts: Iterable[tuple[str, float]]) -> str:
    return "\n".join(f"{name} {dump_percent(part)} %" for name, part in parts)


def _parse_percent_line(line: str) -> tuple[str, Any]:
    """Return the name and the part of a line such as "recall:DEFECT 90 %"."""
    words = line.removesuffix("%").split()
    return " ".join(words[:-1]), parse_percent(words[-1]) if words else ""


def _parse_whole(text: str) -> int | str:
    """Return a whole number, or the text itself where it is none."""
    typed = text.strip()
    number = parse_whole(typed)
    return typed if number is None else number


def dump_percent(share: float | None) -> str:
    """Return *share* as it is typed into a field, such as "95"."""
    return "" if share is None else f"{100 * share:.10g}"


def filled_in(values: Mapping[str, str], *names: str) -> dict[str, Any]:
    """Return the fields that were filled in; an empty one counts as left out."""
    typed = {name: values.get(name, "").strip() for name in names}
    return {name: value for name, value in typed.items() if value}


def parse_percent(text: str) -> float | str | None:
    """Return a share, None for nothing, or the text itself where it is no number."""
    cleaned = text.replace("%", "").replace(",", ".").strip()
    if not cleaned:
        return None
    try:
        # Through decimal, so that 95 gives the very float that 0.95 is.
        return float(Decimal(cleaned) / 100)
    except (ArithmeticError, ValueError):
        return text


def parse_day(name: str, text: str, zone: tzinfo) -> datetime:
    """Return when a day begins in *zone*; raises InvalidInputError."""
    try:
        return midnight_in(date.fromisoformat(text), zone)
    except (ValueError, OverflowError):
        raise invalid(name, text, "it must be a day, such as 2026-01-31") from None


def _dump(value: object) -> str:
    return "" if value is None else str(value)


_PERCENTS = (parse_percent, dump_percent)
_TEXT = (lambda text: text.strip() or None, _dump)
_CHOICE = (str.strip, _dump)
# How each field of a detector is read from a form, and written into one.
FIELDS: Mapping[str, tuple[Callable[[str], Any], Callable[[Any], str]]] = {
    # A form sends line breaks as the two characters of old.
    "guideline": (lambda text: text.replace("\r\n", "\n").strip(), _dump),
    **dict.fromkeys(("confidence_level", "target", "reference"), _PERCENTS),
    **dict.fromkeys(("queue_rate", "gold_rate"), _PERCENTS),
    **dict.fromkeys(("measure", "consensus", "method"), _CHOICE),
    **dict.fromkeys(("label_sampling", "group_by", "production_version"), _TEXT),
    **dict.fromkeys(("predictor", "text_field", "owner"), _TEXT),
    "also": (_parse_also, _dump_parts),
    "class_shares": (_parse_shares, lambda found: _dump_parts((found or {}).items())),
    "labels_wanted": (_parse_whole, _dump),
    "stalled_after_hours": (
        lambda text: _parse_whole(text) if text.strip() else None,
        _dump,
    ),
    "slices": (_lines, "\n".join),
    "tags": (lambda text: _lines(text.replace(",", "\n")), ", ".join),
}
# An empty one counts as left out.
_CHOICES = ("measure", "consensus", "method")
