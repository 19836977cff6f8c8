"""What was typed into a form, and what is wrong with it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tracker.errors import ConflictError, FieldError, InvalidInputError
from tracker.services.detectors import DetectorChange, NewDetector
from tracker.services.fields import parse_input

_PERCENT = "is not a percentage above 0 and below 100, such as 95"
_PERCENT_FIELDS = {
    "confidence_level": _PERCENT,
    "target": _PERCENT,
    "audit_rate": "is not a percentage above 0 and up to 100, such as 20",
}


@dataclass(frozen=True, slots=True)
class Form:
    """The values that a form shows, and the errors beside its fields."""

    values: Mapping[str, str]
    errors: Mapping[str, list[str]] = field(default_factory=dict)

    def value(self, name: str) -> str:
        """Return what stands in the field *name*."""
        return self.values.get(name, "")

    def errors_of(self, name: str) -> list[str]:
        """Return what is wrong with the field *name*."""
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
    lines = values.get("classes", "").splitlines()
    given = filled_in(values, "name", "question") | {
        "classes": [line.strip() for line in lines if line.strip()],
        "confidence_level": _parse_percent(values.get("confidence_level", "")),
        "target": _parse_percent(values.get("target", "")),
    }
    if "audit_rate" in values:
        given["audit_rate"] = _parse_percent(values["audit_rate"])
    given |= _parse_labels_wanted(values)
    return parse_input(NewDetector, given)


def parse_detector_change(values: Mapping[str, str]) -> DetectorChange:
    """Return what shall be different; raises InvalidInputError."""
    given = {
        "name": values.get("name", "").strip(),
        "question": values.get("question", "").strip(),
        "confidence_level": _parse_percent(values.get("confidence_level", "")),
        "target": _parse_percent(values.get("target", "")),
    }
    if "audit_rate" in values:
        given["audit_rate"] = _parse_percent(values["audit_rate"])
    given |= _parse_labels_wanted(values)
    return parse_input(DetectorChange, given)


def _parse_labels_wanted(values: Mapping[str, str]) -> dict[str, int | str]:
    if "labels_wanted" not in values:
        return {}
    typed = values["labels_wanted"].strip()
    return {"labels_wanted": int(typed) if typed.isdecimal() else typed}


def dump_percent(share: float | None) -> str:
    """Return *share* as it is typed into a field, such as "95"."""
    return "" if share is None else f"{100 * share:.10g}"


def filled_in(values: Mapping[str, str], *names: str) -> dict[str, Any]:
    """Return the fields that were filled in; an empty one counts as left out."""
    typed = {name: values.get(name, "").strip() for name in names}
    return {name: value for name, value in typed.items() if value}


def _parse_percent(text: str) -> float | str | None:
    """Return a share, None for nothing, or the text itself where it is no number."""
    cleaned = text.replace("%", "").replace(",", ".").strip()
    if not cleaned:
        return None
    try:
        # Through decimal, so that 95 gives the very float that 0.95 is.
        return float(Decimal(cleaned) / 100)
    except (ArithmeticError, ValueError):
        return text
