"""Describe a file and what an import of it would add, before a detector exists."""

import re
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from pydantic import Field

from tracker import stats
from tracker.charts.words import plural
from tracker.rounding import outward
from tracker.services.imports.checking import RowReader, is_reference
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.reading.rows import JUDGE, UNKNOWN
from tracker.services.imports.reading.values import as_text
from tracker.services.imports.reports import Outcome, say_error, say_readings
from tracker.services.wording import show
from tracker.shapes import Shape
from tracker.storage.detectors import Detector
from tracker.words import EXACT, NO_ANSWER, TARGETED, UNCLEAR, UNSTATED

_MOST_CLASSES = 1_000
_MOST_NAMED = 20
_WHOLE = re.compile(r"(?<=^\d)\.0$")
_BLANK = {"", "nan", "null", "none", UNCLEAR.casefold()}


@dataclass(slots=True)
class Inspection:
    """A file, its rows and what they say."""

    report: Outcome
    # By column, the field that it holds, None for the metadata, "" for none.
    columns: dict[str, str | None]
    classes: list[str]
    # By field, the columns that were taken for it, though nothing says that they are.
    proposed: dict[str, str] = field(default_factory=dict)
    predictions: int = 0
    labels: int = 0
    references: int = 0
    groups: set[str] = field(default_factory=set)
    verdicts: Counter[str] = field(default_factory=Counter)
    versions: set[str] = field(default_factory=set)
    first: datetime | None = None
    last: datetime | None = None
    # What was counted, by hash, and how many rows were of something counted already.
    units: set[int] = field(default_factory=set)
    repeated: int = 0
    # Labels that give no interval: picked on purpose, or with a weight.
    targeted: int = 0
    # By class: correct and labelled.
    counts: dict[str, list[int]] = field(default_factory=dict)


class FileReading(Shape):
    """What a file is, and what an import of it would give."""

    format: str
    rows: int
    columns: dict[str, str | None] = Field(
        description="By column, the field that it holds; null for the metadata, empty "
        "for what is left out."
    )
    classes: list[str] = Field(description="Those of the labels and predictions.")
    predictions: int
    labels: int
    references: int = Field(description="Labels of inputs without a prediction.")
    bad_rows: int = Field(description="The number of rows that would be refused.")
    says: list[str] = Field(
        description="All this in words, with the balanced accuracy that the labels "
        "give and what is wrong with rows, by cause."
    )
    warnings: list[str] = Field(description="What may make the figures wrong.")


def describe_file(file: RowFile, found: Inspection) -> FileReading:
    """Return what *found* says of *file*, as it is answered."""
    report = found.report
    taken = {None: "metadata", "": "left out"}
    said = [
        *(
            f"column {show(one)}: {taken.get(field, field)}"
            for one, field in found.columns.items()
        ),
        *(f"read: {reading}" for reading in say_readings(report)),
        *say_counts(found),
    ]
    if report.bad_rows:
        said.append(f"{report.bad_rows:,} rows would be refused:")
        said += map(say_error, report.errors[:_MOST_NAMED])
    return FileReading.from_row(
        found,
        format=file.format,
        rows=report.rows,
        bad_rows=report.bad_rows,
        warnings=report.warnings,
        says=said,
    )


def inspect(
    file: RowFile,
    classes: list[str] | None = None,
    detector: Detector | None = None,
    *,
    only_first: bool = False,
) -> Inspection:
    """Read *file*, or *only_first* rows of it, as an import into *detector* would.

    Without one it is read twice, the first time for the *classes*, unless they are
    given.  Raises InvalidInputError for one that cannot be read.
    """
    named = classes
    if detector is None:
        classes = classes or _find_classes(file)
        detector = Detector(id=0, name="", classes=classes or UNKNOWN)
    else:
        classes = detector.classes
    rows = file.rows(detector)
    found = Inspection(Outcome(), {}, classes)
    reader = RowReader(detector, [], found.report)
    with rows.pieces() as pieces:
        for piece in pieces:
            good = reader.read(piece)
            found.report.note_values(piece.noted)
            for row in good.rows():
                _count(found, row.values)
            if only_first and found.report.rows:
                break
    found.report.note_file(rows.plan.renamed(), rows.notes, rows.plan.warnings())
    found.report.put_in_order()
    proposed = rows.plan.proposed()
    if proposed and rows.plan.is_likely() and detector.id == 0:
        columns = file.choices.columns | proposed
        choices = file.choices.model_copy(update={"columns": columns})
        other = inspect(file.read_by(choices), named)
        if other.counts and not other.report.bad_rows:
            other.proposed = proposed
            taken = [
                f"the column {show(column)} was taken for {field} by its classes "
                "alone: check that"
                for field, column in proposed.items()
            ]
            other.report.warnings = [*taken, *other.report.warnings]
            return other
    found.columns = {column: name for name, column in rows.plan.fields.items()}
    for column in rows.plan.extras:
        found.columns.setdefault(column, None)
    found.columns |= dict.fromkeys(rows.plan.left_out, "")
    return found


def _find_classes(file: RowFile) -> list[str]:
    """Return the classes of the labels, else of the predictions, as they are written.

    What differs in case or blanks alone is one class, written as most rows do.
    """
    said: dict[str, Counter[str]] = {"label": Counter(), "predicted": Counter()}
    with file.rows(Detector(id=0, name="", classes=UNKNOWN)).pieces() as pieces:
        for piece in pieces:
            for name, found in said.items():
                if len(found) <= _MOST_CLASSES:
                    found.update(filter(None, map(_text, piece.said(name))))
    classes = _distinct(said["label"])
    if len(classes) < 2:
        classes = _distinct(said["label"] + said["predicted"])
    return sorted(classes[:_MOST_CLASSES])


def _text(value: Any) -> str | None:
    with suppress(ValueError):
        text = as_text(value)
        if text is not None and text.strip().casefold() not in _BLANK:
            # A class that is a number, as a column with gaps writes it.
            return _WHOLE.sub("", text.strip())
    return None


def _distinct(found: Counter[str]) -> list[str]:
    by_case: dict[str, str] = {}
    for text, _ in found.most_common():
        if text != NO_ANSWER:
            by_case.setdefault(text.casefold(), text)
    return list(by_case.values())


def _count(found: Inspection, item: dict[str, Any]) -> None:
    predicted, label = item.get("predicted"), item.get("label")
    found.predictions += predicted is not None
    found.labels += label is not None
    found.references += is_reference(item)
    judges = [name.removeprefix(JUDGE) for name in item if name.startswith(JUDGE)]
    found.verdicts.update(judges)
    if "group" in item:
        found.groups.add(item["group"])
    if "version" in item:
        found.versions.add(item["version"])
    if at := item.get("asked_at"):
        found.first = min(found.first or at, at)
        found.last = max(found.last or at, at)
    # Of a group, of an input and of a query that several people labelled, one counts.
    unit = next((item[one] for one in ("group", "input", "key") if one in item), None)
    place = None if unit is None else hash((item.get("version"), unit))
    if place is not None and place in found.units:
        found.repeated += 1
        return
    if predicted is not None and label in found.classes:
        usual = UNSTATED if item.get("weight") is None else TARGETED
        if item.get("sampling", usual) == TARGETED:
            found.targeted += 1
            return
        if place is not None:
            found.units.add(place)
        counts = found.counts.setdefault(label, [0, 0])
        counts[0] += predicted == label
        counts[1] += 1


def say_counts(found: Inspection) -> list[str]:
    """Return in words what a file would give, with the interval of its labels."""
    said = []
    if found.classes:
        more = " …" if len(found.classes) > _MOST_NAMED else ""
        said.append(f"classes: {', '.join(found.classes[:_MOST_NAMED])}{more}")
    known = found.labels - found.references
    if found.predictions:
        predictions = plural(found.predictions, "prediction")
        said.append(f"{predictions}, {known:,} with a label")
    elif known:
        said.append(f"{plural(known, 'label')} of queries that are known already")
    if found.references:
        labels = plural(found.references, "label")
        said.append(f"{labels} of inputs without a prediction")
    said += [
        f"{number:,} verdicts of the judge {show(judge)}"
        for judge, number in found.verdicts.items()
    ]
    counted = {
        "groups, each of which counts once": len(found.groups),
        "further rows of the same, counted once": found.repeated,
        "labels are targeted and give no interval": found.targeted,
    }
    said += [f"{number:,} {what}" for what, number in counted.items() if number]
    if len(found.versions) > 1:
        said.append(f"versions: {', '.join(map(show, sorted(found.versions)))}")
    if found.first is not None:
        said.append(f"asked from {found.first} to {found.last}")
    counts = [found.counts.get(one, [0, 0]) for one in found.classes]
    if len(counts) < 2 or len(found.versions) > 1 or not found.counts:
        return said
    correct, labelled = zip(*counts, strict=True)
    balanced = stats.balanced_interval(EXACT, correct, labelled, 0.95)
    low, high = outward(100 * float(balanced.low), 100 * float(balanced.high), 1)
    said.append(
        f"balanced accuracy: with 95 % confidence between {low} % and {high} %, "
        f"method {EXACT} (for one look)"
    )
    return said
