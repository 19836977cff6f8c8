"""The values of a form, and their errors."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from tracker.errors import ConflictError, FieldError, InvalidInputError
from tracker.services.detectors import DetectorChange, NewDetector
from tracker.services.fields import parse_input
from tracker.storage.base import parse_whole

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
    lines = values.get("classes", "").splitlines()
    given = filled_in(values, "name", "question", "label_of") | {
        "classes": [line.strip() for line in lines if line.strip()],
        "confidence_level": _parse_percent(values.get("confidence_level", "")),
        "target": _parse_percent(values.get("target", "")),
    }
    if "queue_rate" in values:
        given["queue_rate"] = _parse_percent(values["queue_rate"])
    given |= _parse_labels_wanted(values) | filled_in(values, "method")
    given |= _parse_guideline(values) | _parse_evidence(values)
    return parse_input(NewDetector, given)


def parse_detector_change(
    values: Mapping[str, str], classes: Sequence[str]
) -> DetectorChange:
    """Return the requested changes; raises InvalidInputError.

    *classes* are those there are, to which the new ones are added.
    """
    given: dict[str, Any] = {
        "name": values.get("name", "").strip(),
        "question": values.get("question", "").strip(),
        "confidence_level": _parse_percent(values.get("confidence_level", "")),
        "target": _parse_percent(values.get("target", "")),
    }
    if "queue_rate" in values:
        given["queue_rate"] = _parse_percent(values["queue_rate"])
    if "gold_rate" in values:
        given["gold_rate"] = _parse_percent(values["gold_rate"])
    given |= _parse_stalled(values) | _parse_guideline(values)
    given |= _parse_labels_wanted(values) | filled_in(values, "method")
    given |= _parse_evidence(values)
    if "slices" in values:
        lines = values["slices"].splitlines()
        given |= {"slices": [line.strip() for line in lines if line.strip()]}
    added = [line.strip() for line in values.get("added", "").splitlines()]
    if any(added):
        given["classes"] = [*classes, *filter(None, added)]
    if "production_version" in values:
        given["production_version"] = values["production_version"] or None
    for name in ("predictor", "text_field"):
        if name in values:
            given[name] = values[name].strip() or None
    return parse_input(DetectorChange, given)


def _parse_evidence(values: Mapping[str, str]) -> dict[str, Any]:
    given = filled_in(values, "measure", "consensus")
    if "label_sampling" in values:
        given["label_sampling"] = values["label_sampling"] or None
    if "group_by" in values:
        given["group_by"] = values["group_by"].strip() or None
    if "reference" in values:
        given["reference"] = _parse_percent(values["reference"])
    if "also" in values:
        lines = [line.strip() for line in values["also"].splitlines()]
        pairs = [_parse_percent_line(line) for line in lines if line]
        given["also"] = [{"measure": name, "target": part} for name, part in pairs]
    if "class_shares" in values:
        lines = [line.strip() for line in values["class_shares"].splitlines()]
        parts = dict(_parse_percent_line(line) for line in lines if line)
        given["class_shares"] = parts or None
    return given


def _parse_percent_line(line: str) -> tuple[str, Any]:
    """Return the name and the part of a line such as "recall:DEFECT 90 %"."""
    words = line.removesuffix("%").split()
    return " ".join(words[:-1]), _parse_percent(words[-1]) if words else ""


def _parse_guideline(values: Mapping[str, str]) -> dict[str, str]:
    if "guideline" not in values:
        return {}
    # A form sends line breaks as the two characters of old.
    return {"guideline": values["guideline"].replace("\r\n", "\n").strip()}


def _parse_labels_wanted(values: Mapping[str, str]) -> dict[str, int | str | None]:
    if "labels_wanted" not in values:
        return {}
    return {"labels_wanted": _parse_whole(values["labels_wanted"])}


def _parse_stalled(values: Mapping[str, str]) -> dict[str, int | str | None]:
    if "stalled_after_hours" not in values:
        return {}
    typed = _parse_whole(values["stalled_after_hours"])
    return {"stalled_after_hours": None if typed == "" else typed}


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
