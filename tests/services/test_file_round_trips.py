"""Labels that are exported, read by another program and imported again.

docs/importing.md has a table of what each way loses; this holds it to that.
"""

import io
import json
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import openpyxl
import pandas
import pytest

from tests.conftest import START, by
from tests.imports import import_file, import_rows
from tests.processes import ROOT
from tracker.services.detectors import NewDetector, create_detector, get_detector
from tracker.services.estimates.history import LABEL_COLUMNS, iter_labels
from tracker.services.exports import write_rows
from tracker.services.imports.reading.choices import METADATA, read_choices
from tracker.services.imports.reading.files import open_named
from tracker.services.imports.reports import Outcome
from tracker.storage.database import Database

DAY = timedelta(days=1)
ROWS: list[dict[str, Any]] = [
    {
        "key": "a",
        "predicted": "YES",
        "confidence": 1 / 3,
        "version": "v2",
        "asked_at": (START - DAY).isoformat(),
        "metadata": {"camera": "north", "frame": 7, "text": "=1+1 é\nß"},
        "input": "1.png",
        "label": "NO",
        "sampling": "random",
        "note": "a hinge, hidden",
        "labeler": "ann@example.org",
        "labelled_at": (START - DAY / 2).isoformat(),
    },
    {"key": "0012", "predicted": "NO", "label": "NO", "confidence": 0.1},
    {"key": "c", "predicted": "NO", "label": "UNCLEAR", "sampling": "targeted"},
    {"key": "d", "predicted": "YES", "label": "YES", "confidence": 1.0},
]
# Corrects a label, so that the export has one that was replaced.
CORRECTION = [{"key": "d", "label": "NO", "labeler": "bob"}]


@pytest.fixture
def doors(database: Database) -> Database:
    """Two detectors, of which the first has queries and labels."""
    with database.write() as session:
        for name in ("door", "copy"):
            new = NewDetector(name=name, question="?", classes=["YES", "NO"])
            create_detector(session, new, by(at=START))
    for at, rows in ((START, ROWS), (START + DAY, CORRECTION)):
        with database.write() as session:
            detector = get_detector(session, "door")
            import_rows(session, detector, rows, by(at=at), digest=str(at))
    return database


def exported(database: Database, name: str) -> list[dict[str, Any]]:
    with database.read() as session:
        return list(iter_labels(session, get_detector(session, name)))


def imported(
    database: Database, name: str, content: bytes, file: str, columns: tuple[str, ...]
) -> Outcome:
    choices = read_choices(columns=columns, usual_extra=METADATA)
    read = open_named(io.BytesIO(content), file).read_by(choices)
    with database.write() as session:
        detector = get_detector(session, name)
        return import_file(session, detector, read, by(at=START + 2 * DAY))


def by_pandas(content: bytes) -> bytes:
    frame = pandas.read_csv(io.BytesIO(content))
    return frame.to_csv(index=False).encode()


def by_pandas_parquet(content: bytes) -> bytes:
    buffer = io.BytesIO()
    pandas.read_parquet(io.BytesIO(content)).to_parquet(buffer)
    return buffer.getvalue()


def by_excel(content: bytes) -> bytes:
    buffer = io.BytesIO()
    openpyxl.load_workbook(io.BytesIO(content)).save(buffer)
    return buffer.getvalue()


def by_label_studio(content: bytes) -> bytes:
    """What Label Studio exports of tasks that were made of our rows and annotated."""
    tasks = []
    for number, data in enumerate(json.loads(content)["items"], start=1):
        if not data["is_current"]:
            continue
        choices = {"choices": [data["label"]]}
        annotation = {
            "completed_by": {"id": 3, "email": "cleo@example.org"},
            "created_at": "2026-03-01T12:00:00Z",
            "was_cancelled": False,
            "result": [{"type": "choices", "value": choices}],
        }
        task = {"id": number, "data": data, "annotations": [annotation]}
        tasks.append(task | {"predictions": []})
    return json.dumps(tasks).encode()


def same(content: bytes) -> bytes:
    return content


EVERY = set(LABEL_COLUMNS) - {"query", "tags"}
WAYS: dict[str, tuple[str, Callable[[bytes], bytes], set[str]]] = {
    "CSV": ("csv", same, EVERY),
    "JSON": ("json", same, EVERY),
    "JSON Lines": ("jsonl", same, EVERY),
    "Parquet": ("parquet", same, EVERY),
    "Excel": ("xlsx", by_excel, EVERY),
    "pandas": ("csv", by_pandas, EVERY),
    "pandas, Parquet": ("parquet", by_pandas_parquet, EVERY),
    "Label Studio, JSON": ("json", by_label_studio, EVERY - {"labeler", "labelled_at"}),
}


@pytest.mark.thorough
@pytest.mark.parametrize("way", WAYS)
def test_what_the_table_says_is_kept(doors: Database, way: str) -> None:
    format_name, through, kept = WAYS[way]
    rows = exported(doors, "door")
    content = through(b"".join(write_rows(format_name, LABEL_COLUMNS, rows)))
    file = f"labels.{format_name}"

    report = imported(doors, "copy", content, file, ())
    assert (report.queries_added, report.labels_added) == (4, 4)
    current = [row for row in rows if row["is_current"]]
    found = {row["key"]: row for row in exported(doors, "copy")}
    assert {key: {n: row[n] for n in kept} for key, row in found.items()} == {
        row["key"]: {n: row[n] for n in kept} for row in current
    }


@pytest.mark.parametrize("way", ["CSV", "JSON Lines", "Parquet", "Excel"])
def test_an_export_adds_nothing_to_where_it_came_from(
    doors: Database, way: str
) -> None:
    format_name, through, _ = WAYS[way]
    rows = exported(doors, "door")
    content = through(b"".join(write_rows(format_name, LABEL_COLUMNS, rows)))

    report = imported(doors, "door", content, f"labels.{format_name}", ())
    assert not report.has_changed
    assert exported(doors, "door") == rows


def test_a_label_from_label_studio_is_a_correction(doors: Database) -> None:
    rows = [one for one in exported(doors, "door") if one["is_current"]]
    [one] = [row for row in rows if row["key"] == "0012"]
    changed = by_label_studio(json.dumps({"items": [one | {"label": "YES"}]}).encode())

    report = imported(doors, "door", changed, "project.json", ())
    assert (report.queries_added, report.labels_added) == (0, 1)
    newest = exported(doors, "door")[-1]
    assert (newest["label"], newest["labeler"]) == ("YES", "cleo@example.org")
    assert newest["labelled_at"] == "2026-03-01T12:00:00Z"


def test_each_way_stands_in_the_table() -> None:
    table = (ROOT / "docs" / "importing.md").read_text().split("round trip loses")[1]
    for way in WAYS:
        assert way.split(",")[0] in table
