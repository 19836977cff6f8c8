"""What a file is and what it would give, before there is a detector."""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from tracker.services.imports.checking import Columns, RowReader, is_reference
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reading.values import as_text
from tracker.services.imports.reports import Outcome
from tracker.storage.detectors import Detector
from tracker.words import NO_ANSWER, UNCLEAR

_MOST_CLASSES = 1_000
_BLANK = {"", "nan", "null", "none", UNCLEAR.casefold()}
_UNKNOWN = ["\0", "\0\0"]


@dataclass(slots=True)
class Inspection:
    """A file, its rows and what they say."""

    report: Outcome
    # By column, the field that it holds, None for the metadata, "" for none.
    columns: dict[str, str | None]
    classes: list[str]
    predictions: int = 0
    labels: int = 0
    references: int = 0
    groups: int = 0
    versions: list[str] = field(default_factory=list)
    first: datetime | None = None
    last: datetime | None = None
    # By class: correct and labelled.
    counts: dict[str, list[int]] = field(default_factory=dict)


def inspect(file: RowFile, classes: list[str] | None = None) -> Inspection:
    """Read *file* twice: for the *classes*, if need be, then as an import would.

    Raises InvalidInputError for one that cannot be read.
    """
    classes = classes or _find_classes(file)
    detector = Detector(id=0, name="", classes=classes or _UNKNOWN)
    rows = file.rows(detector)
    found = Inspection(Outcome(), {}, classes)
    reader = RowReader(detector, [], found.report)
    groups: set[str] = set()
    versions: set[str] = set()
    with rows.pieces() as pieces:
        for piece in pieces:
            good = reader.read(piece)
            found.report.note_values(piece.noted)
            for row in good.rows() if isinstance(good, Columns) else good:
                _count(found, row.values, groups, versions)
    found.report.note_file(rows.plan.renamed(), rows.notes, rows.plan.warnings())
    found.report.put_in_order()
    found.groups, found.versions = len(groups), sorted(versions)
    found.columns = {
        **dict(zip(rows.plan.fields.values(), rows.plan.fields, strict=True)),
        **dict.fromkeys(rows.plan.extras),
        **dict.fromkeys(rows.plan.left_out, ""),
    }
    return found


def _find_classes(file: RowFile) -> list[str]:
    """Return the classes of the labels, else of the predictions, as they are written.

    What differs in case or blanks alone is one class, written as most rows do.
    """
    said: dict[str, Counter[str]] = {"label": Counter(), "predicted": Counter()}
    with file.rows(Detector(id=0, name="", classes=_UNKNOWN)).pieces() as pieces:
        for piece in pieces:
            for name, found in said.items():
                if len(found) <= _MOST_CLASSES:
                    found.update(_texts(piece.said(name)))
    classes = _distinct(said["label"])
    if len(classes) < 2:
        classes = _distinct(said["label"] + said["predicted"])
    return sorted(classes[:_MOST_CLASSES])


def _texts(values: Iterable[Any]) -> list[str]:
    found = []
    for value in values:
        try:
            text = as_text(value)
        except ValueError:
            continue
        if text is not None and text.strip().casefold() not in _BLANK:
            found.append(text.strip())
    return found


def _distinct(found: Counter[str]) -> list[str]:
    by_case: dict[str, str] = {}
    for text, _ in found.most_common():
        if text != NO_ANSWER:
            by_case.setdefault(text.casefold(), text)
    return list(by_case.values())


def _count(
    found: Inspection, item: dict[str, Any], groups: set[str], versions: set[str]
) -> None:
    predicted, label = item.get("predicted"), item.get("label")
    found.predictions += predicted is not None
    found.labels += label is not None
    found.references += is_reference(item)
    if "group" in item:
        groups.add(item["group"])
    if "version" in item:
        versions.add(item["version"])
    if at := item.get("asked_at"):
        found.first = min(found.first or at, at)
        found.last = max(found.last or at, at)
    if predicted is not None and label in found.classes:
        counts = found.counts.setdefault(label, [0, 0])
        counts[0] += predicted == label
        counts[1] += 1
