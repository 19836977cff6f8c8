"""Files as real packages write them, by command, page and API alike.

scripts/make_import_fixtures.py wrote them.  The samples are small files of the shape
that each tool documents, with what an import gives without any option.
"""

import io
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import func, select
from werkzeug.datastructures import FileStorage

from tests.api.conftest import Api
from tests.conftest import signed_in
from tests.processes import ROOT
from tracker.cli import main
from tracker.storage.base import parse_id
from tracker.storage.labelling.inputs import Reference

FOLDER = ROOT / "tests" / "files"
YES, NO = "YES", "NO"
# Key, prediction, label, confidence.
ALL = [
    ("a", YES, YES, 0.75),
    ("b", NO, YES, 1.0),
    ("c", YES, None, 0.5),
    ("d", NO, NO, 0.61),
]
LABELS = [row for row in ALL if row[2] is not None]
PREDICTED = [(row[0], row[1], None, row[3]) for row in ALL]
FILES: dict[str, list[Any]] = {
    **{
        f"pandas{end}": ALL
        for end in (
            *(".csv", ".csv.gz", "-german.csv", ".jsonl", ".parquet", ".xlsx"),
            *("-columns.json", "-records.json", "-split.json", "-table.json"),
        )
    },
    "openpyxl.xlsx": ALL,
    "mlflow-table.json": ALL,
    "mlflow-evaluate.json": ALL,
    "mlflow-table.parquet": ALL,
    "wandb.table.json": ALL,
    "label-studio.json": ALL,
    "label-studio-csv.csv": LABELS,
    "label-studio-json_min.json": LABELS,
    "datasets.parquet": ALL,
    "datasets.arrow": ALL,
    "fiftyone-predictions.json": PREDICTED,
    "fiftyone-labels.json": LABELS,
}
CLASSES = [YES, NO]
CONFUSION = {"YES>YES": 1, "YES>NO": 1, "NO>NO": 1}


def of_a_tool(**more: Any) -> dict[str, Any]:
    """What an import gives of the labelled rows, as a tool writes them."""
    found = {"classes": CLASSES, "queries": 3, "labels": 3, "references": 0}
    return found | {"confusion": CONFUSION} | more


REFERENCES = of_a_tool(queries=0, labels=0, references=3, confusion={})
TWICE = {name: 2 * number for name, number in CONFUSION.items()}
# The first class of a choice has the number 0.
CHOICE = {"0>0": 1, "0>1": 1, "1>1": 1}
NANNYML = of_a_tool(
    classes=["0", "1"], queries=6, labels=6, confusion={"0>0": 1, "1>1": 5}
)
TOOLS: dict[str, dict[str, Any]] = {
    "lm_eval-generate.jsonl": of_a_tool(),
    "lm_eval-choice.jsonl": of_a_tool(classes=["0", "1"], confusion=CHOICE),
    "inspect_ai.eval": of_a_tool(queries=6, labels=6, confusion=TWICE),
    "promptfoo.json": of_a_tool(version="m-1"),
    "deepeval.json": of_a_tool(),
    "evidently.csv": of_a_tool(),
    "argilla.json": of_a_tool(queries=4),
    "datumaro.json": REFERENCES,
    "ragas.csv": of_a_tool(),
    "mlflow-traces.jsonl": of_a_tool(queries=4),
    "phoenix.csv": of_a_tool(queries=4),
    "nannyml.csv": NANNYML,
}
SAMPLES = json.loads((FOLDER / "samples" / "expected.json").read_text())
# These hold labels of queries that are known already.
NEEDS_QUERIES = {one for one in FILES if FILES[one] is LABELS}


def test_every_fixture_is_imported() -> None:
    assert {path.name for path in FOLDER.iterdir() if path.is_file()} == {
        *FILES,
        *TOOLS,
        "versions.json",
    }


@pytest.fixture
def api(app, keys):
    return Api(app, keys)


def by_command(api, app, database_url, path: Path, settings, name="door") -> None:
    environ = {
        "TRACKER_DATABASE_URL": database_url,
        "TRACKER_DATA_DIR": str(settings.data_dir),
    }
    done = CliRunner().invoke(main, ["import", name, str(path)], env=environ)
    assert done.exit_code == 0, done.output


def by_pipe(api, app, database_url, path: Path, settings, name="door") -> None:
    environ = {
        "TRACKER_DATABASE_URL": database_url,
        "TRACKER_DATA_DIR": str(settings.data_dir),
    }
    words = ["import", name, "-"]
    done = CliRunner().invoke(main, words, env=environ, input=path.read_bytes())
    assert done.exit_code == 0, done.output


def by_api(api, app, database_url, path: Path, settings, name="door") -> None:
    kinds = {
        ".csv": "text/csv",
        ".jsonl": "application/x-ndjson",
        ".json": "application/json",
    }
    kind = kinds.get(path.suffix, "application/octet-stream")
    sent = api.send_file(
        f"/detectors/{name}/import?extra=metadata", path.read_bytes(), kind
    )
    assert sent.status_code == 200, sent.text


def by_parts(api, app, database_url, path: Path, settings, name="door") -> None:
    file = FileStorage(io.BytesIO(path.read_bytes()), path.name)
    sent = api.send_parts(f"/detectors/{name}/import?extra=metadata", {"file": file})
    assert sent.status_code == 200, sent.text


def by_page(api, app, database_url, path: Path, settings, name="door") -> None:
    browser = signed_in(app, "erin", "editor")
    place = f"/detectors/{api.get(f'/detectors/{name}').json['id']}/import"
    token = browser.get(place).text
    token = token.split('name="csrf_token"')[1].split('value="')[1].split('"')[0]
    fields = {"csrf_token": token, "file": (io.BytesIO(path.read_bytes()), path.name)}
    shown = browser.post(f"{place}/preview", data=dict(fields))
    assert "field-error" not in shown.text, shown.text
    fields["file"] = (io.BytesIO(path.read_bytes()), path.name)
    sent = browser.post(place, data=fields)
    assert sent.status_code == 200, sent.text


@pytest.mark.thorough
@pytest.mark.parametrize("door", [by_command, by_pipe, by_page, by_api, by_parts])
@pytest.mark.parametrize("name", FILES)
def test_a_file_says_the_same_by_every_door(
    api, app, database_url, settings, name: str, door: Callable[..., None]
) -> None:
    expected = FILES[name]
    made = api.post("/detectors", {"name": "door", "question": "Is it closed?"})
    assert made.status_code == 201
    if name in NEEDS_QUERIES:
        body = [{"key": key, "predicted": said} for key, said, *_ in ALL]
        text = json.dumps({"items": body})
        api.send_file("/detectors/door/import", text, "application/json")
    door(api, app, database_url, FOLDER / name, settings)
    found = {
        one["key"]: (one["predicted"], one["label"], one["confidence"])
        for one in api.get("/detectors/door/queries").json["items"]
    }
    if name in NEEDS_QUERIES:
        assert {key: row[1] for key, row in found.items() if row[1]} == {
            row[0]: row[2] for row in expected
        }
    else:
        assert found == {row[0]: row[1:] for row in expected}


@pytest.mark.thorough
@pytest.mark.parametrize("sample", [*SAMPLES, *TOOLS])
def test_a_sample_gives_what_it_should_by_every_door(
    api, app, database, database_url, settings, sample: str
) -> None:
    expected = SAMPLES.get(sample) or TOOLS[sample]
    path = FOLDER / sample if sample in TOOLS else FOLDER / "samples" / sample
    for door in (by_command, by_page, by_api):
        name = door.__name__.replace("_", "-")
        new = {"name": name, "question": "Is it?", "classes": expected["classes"]}
        detector = api.post("/detectors", new).json["id"]
        door(api, app, database_url, path, settings, name)
        version = expected.get("version")
        found = [
            (one["label"], one["predicted"] or "NO_ANSWER")
            for one in api.walk(f"/detectors/{name}/queries")
            if version in {None, one["version"]}
        ]
        labelled = Counter(f"{label}>{said}" for label, said in found if label)
        with database.read() as session:
            of_it = Reference.detector_id == parse_id("det", detector)
            count = select(func.count()).select_from(Reference).where(of_it)
            references = session.scalar(count)
        assert labelled == expected["confusion"], door
        assert len(found) == expected["queries"]
        assert labelled.total() == expected["labels"]
        assert references == expected["references"]
