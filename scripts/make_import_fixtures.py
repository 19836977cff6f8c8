"""Write tests/files: rows as pandas, MLflow and others write them.

Each package is installed into an environment of its own, and not into that of the
tests: together they would be a gigabyte.  Run it from a checkout with ``make
import-fixtures``; what it writes is committed.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "files"
ROWS = [
    ("a", "YES", "YES", 0.75),
    ("b", "NO", "YES", 1.0),
    ("c", "YES", None, 0.5),
    ("d", "NO", "NO", 0.61),
]
FRAME = """
import json, sys
from pathlib import Path
import pandas as pd
folder, rows = Path(sys.argv[1]), json.loads(sys.argv[2])
frame = pd.DataFrame(rows, columns=["id", "prediction", "target", "score"])
"""
PANDAS = """
frame.to_csv(folder / "pandas.csv")
frame.to_csv(folder / "pandas.csv.gz", compression={"method": "gzip", "mtime": 0})
frame.to_csv(folder / "pandas-german.csv", sep=";", decimal=",", index=False)
frame.to_json(folder / "pandas-columns.json")
frame.to_json(folder / "pandas-records.json", orient="records")
frame.to_json(folder / "pandas-split.json", orient="split")
frame.to_json(folder / "pandas-table.json", orient="table", index=False)
frame.to_json(folder / "pandas.jsonl", orient="records", lines=True)
frame.to_parquet(folder / "pandas.parquet")
frame.to_excel(folder / "pandas.xlsx")
"""
OPENPYXL = """
import openpyxl
book = openpyxl.Workbook()
book.active.title = "Notes"
sheet = book.create_sheet("Rows")
sheet.append([])
sheet.append(["ID", "Prediction", "Ground Truth", "Score"])
for row in rows:
    sheet.append(row)
for line in sheet.iter_rows(min_row=3, min_col=4, max_col=4):
    line[0].number_format = "0%"
book.save(folder / "openpyxl.xlsx")
"""
MLFLOW = """
(folder / "work").mkdir()
import mlflow
mlflow.set_tracking_uri(f"sqlite:///{folder / 'work' / 'mlflow.db'}")
mlflow.set_experiment(experiment_id=mlflow.create_experiment(
    "x", artifact_location=(folder / "work").as_uri()))
from mlflow.metrics import MetricValue, make_metric

# With a metric of each row, evaluate writes the table of all of them.
def right(predictions, targets):
    return MetricValue(scores=[int(a == b) for a, b in zip(predictions, targets)])

whole = frame.astype(object).where(frame.notna(), None)
with mlflow.start_run() as run:
    for name in ("mlflow-table.json", "mlflow-table.parquet"):
        mlflow.log_table(whole, name)
    mlflow.models.evaluate(data=whole, targets="target", predictions="prediction",
        extra_metrics=[make_metric(eval_fn=right, greater_is_better=True)],
        evaluators="default")
    uri = run.info.artifact_uri
for name, artifact in (("mlflow-table.json", "mlflow-table.json"),
        ("mlflow-table.parquet", "mlflow-table.parquet"),
        ("mlflow-evaluate.json", "eval_results_table.json")):
    path = mlflow.artifacts.download_artifacts(f"{uri}/{artifact}")
    (folder / name).write_bytes(Path(path).read_bytes())
"""
WANDB = """
import os
os.environ.update(WANDB_MODE="offline", WANDB_DIR=str(folder / "work"))
(folder / "work").mkdir()
import wandb
whole = frame.astype(object).where(frame.notna(), None)
with wandb.init(project="x") as run:
    run.log({"rows": wandb.Table(dataframe=whole)})
[path] = (folder / "work").rglob("*.table.json")
(folder / "wandb.table.json").write_bytes(path.read_bytes())
"""
LABEL_STUDIO = """
import json, sys
from pathlib import Path
from label_studio_sdk.converter import Converter
folder, rows = Path(sys.argv[1]), json.loads(sys.argv[2])
config = '''<View><Text name="text" value="$text"/><Choices name="choice" toName="text">
<Choice value="YES"/><Choice value="NO"/></Choices></View>'''

def said(choice):
    value = {"choices": [choice]}
    names = {"from_name": "choice", "to_name": "text"}
    return [{"type": "choices", **names, "value": value}]

tasks = []
for number, (key, predicted, label, score) in enumerate(rows, start=1):
    who = {"completed_by": {"id": 1, "email": "a@example.org"}, "lead_time": 1.5,
        "created_at": "2026-01-31T12:00:00Z", "updated_at": "2026-01-31T12:00:00Z"}
    cancelled = {**who, "id": number * 10, "was_cancelled": True}
    annotations = [{**cancelled, "result": said("NO")}]
    if label is not None:
        annotations.append({**who, "id": number * 10 + 1, "was_cancelled": False,
            "result": said(label)})
    prediction = {"model_version": "v1", "score": score, "result": said(predicted)}
    tasks.append({"id": number, "data": {"key": key, "text": f"text {key}"},
        "annotations": annotations, "predictions": [prediction]})
source = folder / "label-studio.json"
source.write_text(json.dumps(tasks, indent=1))
converter = Converter(config, str(folder / "work"), download_resources=False)
for name, suffix in (("CSV", "csv"), ("JSON_MIN", "json")):
    out = folder / "work" / name
    converter.convert(str(source), str(out), name, is_dir=False)
    [path] = [one for one in ([out] if out.is_file() else out.rglob(f"*.{suffix}"))]
    (folder / f"label-studio-{name.lower()}.{suffix}").write_bytes(path.read_bytes())
"""
FIFTYONE = """
import json, sys
from pathlib import Path
import fiftyone as fo
from fiftyone.utils.data.exporters import FiftyOneImageClassificationDatasetExporter
folder, rows = Path(sys.argv[1]), json.loads(sys.argv[2])

# What Dataset.export calls; a dataset itself would need a MongoDB.
def export(name, labels, **options):
    exporter = FiftyOneImageClassificationDatasetExporter(
        labels_path=str(folder / f"fiftyone-{name}.json"), export_media=False, **options
    )
    with exporter:
        for (key, *_), label in zip(rows, labels):
            exporter.export_sample(f"/data/{key}.png", label)

export("predictions", [
    fo.Classification(label=row[1], confidence=row[3]) for row in rows
], include_confidence=True, classes=["NO", "YES"])
export("labels", [row[2] and fo.Classification(label=row[2]) for row in rows])
"""
PROGRAMS = {
    "pandas": (["pandas", "pyarrow", "openpyxl"], FRAME + PANDAS + OPENPYXL),
    "mlflow": (["mlflow>=3", "pandas"], FRAME + MLFLOW),
    "wandb": (["wandb", "pandas"], FRAME + WANDB),
    "label-studio": (["label-studio-sdk", "pandas"], LABEL_STUDIO),
    "fiftyone": (["fiftyone"], FIFTYONE),
}


def make(name: str, packages: list[str], program: str) -> None:
    """Write the files of one package; say so if it cannot be installed."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "env", "bin", "python")
        uv = [sys.executable, "-m", "uv", "--quiet"]
        subprocess.run([*uv, "venv", python.parents[1]], check=True)
        install = [*uv, "pip", "install", "--python", python, *packages]
        if subprocess.run(install, check=False).returncode:
            print(f"{name}: cannot be installed here; its files stay as they are")
            return
        out = Path(folder, "out")
        out.mkdir()
        subprocess.run([python, "-c", program, out, json.dumps(ROWS)], check=True)
        for path in sorted(one for one in out.iterdir() if one.is_file()):
            (FOLDER / path.name).write_bytes(path.read_bytes())
            print(f"{name}: {path.name}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for chosen in sys.argv[1:] or PROGRAMS:
        make(chosen, *PROGRAMS[chosen])
