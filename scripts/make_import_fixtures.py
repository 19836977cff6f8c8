"""Write tests/files: rows as pandas, MLflow and others write them.

Each package is installed into an environment of its own, and not into that of the
tests: together they would be a gigabyte.  Run it from a checkout with ``make
import-fixtures``; what it writes is committed, with the versions that wrote it.
tests/files/samples are of tools that need a server or a licence: known_shapes.py says
where the shape of each is documented.
"""

import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
FOLDER = ROOT / "tests" / "files"
VERSIONS = FOLDER / "versions.json"
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
HEAD = """
import json, os, sys
from pathlib import Path
folder, rows = Path(sys.argv[1]), json.loads(sys.argv[2])
work = folder / "work"
work.mkdir()
labelled = [row for row in rows if row[2]]
"""
DATASETS = """
from datasets import ClassLabel, Dataset, Features, Value
names = ClassLabel(names=["YES", "NO"])
features = Features({"id": Value("string"), "prediction": names, "label": names,
    "score": Value("float64")})
data = Dataset.from_list([dict(zip(features, row)) for row in rows], features=features)
data.to_parquet(str(folder / "datasets.parquet"))
data.save_to_disk(str(work))
[path] = work.glob("*.arrow")
(folder / "datasets.arrow").write_bytes(path.read_bytes())
"""
LM_EVAL = """
os.environ.update(HF_HOME=str(work), HF_HUB_OFFLINE="1")
import lm_eval
from lm_eval.api.model import LM
from lm_eval.api.task import ConfigurableTask
from lm_eval.loggers import EvaluationTracker
source = work / "rows.json"
source.write_text(json.dumps([{"text": row[0], "answer": row[2]} for row in labelled]))
answers = {row[0]: row[1] for row in rows}

class Model(LM):
    def generate_until(self, requests, **_):
        return [answers[one.args[0]] for one in requests]

    def loglikelihood(self, requests, **_):
        said = (answers[one.args[0]] == one.args[1].strip() for one in requests)
        return [(-0.1 if is_it else -9.0, False) for is_it in said]

    def loglikelihood_rolling(self, requests, **_):
        raise NotImplementedError

def task(name, **more):
    return ConfigurableTask(config={"task": name, "dataset_path": "json",
        "dataset_kwargs": {"data_files": {"test": str(source)}}, "test_split": "test",
        "doc_to_text": "{{text}}", **more})

tasks = {
    "generate": task("generate", output_type="generate_until",
        doc_to_target="{{answer}}", generation_kwargs={"until": ["."]},
        metric_list=[{"metric": "exact_match"}]),
    "choice": task("choice", output_type="multiple_choice",
        doc_to_choice=["YES", "NO"], doc_to_target="{{['YES', 'NO'].index(answer)}}"),
}
found = lm_eval.evaluate(lm=Model(), task_dict=tasks, log_samples=True,
    bootstrap_iters=0)
tracker = EvaluationTracker(output_path=str(work))
tracker.general_config_tracker.model_name_sanitized = "m"
tracker.date_id = "1"
for name, samples in found["samples"].items():
    tracker.save_results_samples(name, samples)
    [path] = work.rglob(f"samples_{name}_*.jsonl")
    (folder / f"lm_eval-{name}.jsonl").write_bytes(path.read_bytes())
"""
INSPECT = """
from inspect_ai import Task, eval as evaluate
from inspect_ai.dataset import Sample
from inspect_ai.model import ModelOutput, ModelUsage, get_model
from inspect_ai.scorer import match
from inspect_ai.solver import generate

# With its usage said, no tokens are counted, which would load a vocabulary.
def said(answer):
    found = ModelOutput.from_content("mockllm/model", answer)
    found.usage = ModelUsage(input_tokens=1, output_tokens=1, total_tokens=2)
    return found

outputs = [said(row[1]) for row in labelled for _ in range(2)]
model = get_model("mockllm/model", custom_outputs=outputs)
samples = [Sample(id=key, input=f"text {key}", target=label)
    for key, _, label, _ in labelled]
task = Task(dataset=samples, solver=generate(), scorer=match(), epochs=2)
evaluate(task, model=model, log_dir=str(work), log_format="eval", display="none",
    max_samples=1)
[path] = work.glob("*.eval")
(folder / "inspect_ai.eval").write_bytes(path.read_bytes())
"""
DEEPEVAL = """
os.environ.update(DEEPEVAL_TELEMETRY_OPT_OUT="YES")
os.chdir(work)
from deepeval import evaluate
from deepeval.metrics import ExactMatchMetric
from deepeval.test_case import LLMTestCase
evaluate([
    LLMTestCase(input=key, actual_output=predicted, expected_output=label)
    for key, predicted, label, _ in labelled
], [ExactMatchMetric()])
path = work / ".deepeval" / ".latest_test_run.json"
(folder / "deepeval.json").write_bytes(path.read_bytes())
"""
ARGILLA = """
import argilla as rg
from argilla.records._io import JsonIO
who = "12345678-1234-5678-1234-567812345678"
records = [
    rg.Record(id=key, fields={"text": f"text {key}"},
        suggestions=[rg.Suggestion("door", predicted, score=score, agent="m-1")],
        responses=[rg.Response("door", label, user_id=who, status="submitted")]
        if label else [])
    for key, predicted, label, score in rows
]
# What Dataset.records.to_json calls; a dataset itself would need a server.
JsonIO.to_json(records, folder / "argilla.json")
"""
DATUMARO = """
import datumaro as dm
names = ["YES", "NO"]
items = [
    dm.DatasetItem(id=key, annotations=[dm.Label(names.index(label))] if label else [])
    for key, _, label, _ in rows
]
dm.Dataset.from_iterable(items, categories=names).export(str(work), "datumaro")
[path] = work.rglob("*.json")
(folder / "datumaro.json").write_bytes(path.read_bytes())
"""
EVIDENTLY = """
import pandas as pd
from evidently import DataDefinition, Dataset, MulticlassClassification
lines = [
    {"target": label, predicted: score, other: 1 - score}
    for _, predicted, label, score in labelled
    for other in {"YES", "NO"} - {predicted}
]
kind = MulticlassClassification(target="target", prediction_probas=["YES", "NO"])
data = Dataset.from_pandas(pd.DataFrame(lines),
    data_definition=DataDefinition(classification=[kind]))
data.as_dataframe().to_csv(folder / "evidently.csv", index=False)
"""
PROMPTFOO = """
import subprocess
tests = [
    {"vars": {"text": predicted, "id": key},
        "assert": [{"type": "equals", "value": label}]}
    for key, predicted, label, _ in labelled
]
config = {"prompts": ["{{text}}"], "providers": [{"id": "echo", "label": "m-1"}],
    "tests": tests}
(work / "config.json").write_text(json.dumps(config))
subprocess.run(["npm", "install", "--ignore-scripts", "--no-audit", "promptfoo"],
    cwd=work, check=True, capture_output=True)
words = ["eval", "-c", "config.json", "--no-cache", "--no-table", "-o",
    str(folder.resolve() / "promptfoo.json")]
# It exits with 100 where an assertion is not met.
subprocess.run([work / "node_modules" / ".bin" / "promptfoo", *words], cwd=work,
    check=False, capture_output=True, env={**os.environ,
    "PROMPTFOO_DISABLE_TELEMETRY": "1", "PROMPTFOO_CONFIG_DIR": str(work)})
found = json.loads((work / "node_modules" / "promptfoo" / "package.json").read_text())
(work / "version").write_text(found["version"])
"""
RAGAS = """
os.environ.update(RAGAS_DO_NOT_TRACK="true")
from ragas import EvaluationDataset, evaluate
from ragas.metrics import ExactMatch
data = EvaluationDataset.from_list([
    {"user_input": f"text {key}", "response": predicted, "reference": label}
    for key, predicted, label, _ in labelled
])
found = evaluate(data, metrics=[ExactMatch()], show_progress=False)
found.to_pandas().to_csv(folder / "ragas.csv", index=False)
"""
NANNYML = """
os.environ.update(NML_DISABLE_USAGE_LOGGING="1")
import nannyml
reference, *_ = nannyml.load_synthetic_car_loan_dataset()
# The frame is the user's: the label is called as the option that names it.
frame = reference[:6].rename(columns={"repaid": "y_true"})
frame.to_csv(folder / "nannyml.csv", index=False)
"""
TRACES = """
import mlflow
from mlflow.entities import AssessmentSource
mlflow.set_tracking_uri(f"sqlite:///{work / 'mlflow.db'}")
mlflow.set_experiment(experiment_id=mlflow.create_experiment(
    "x", artifact_location=work.as_uri()))
answers = {f"text {row[0]}": row[1] for row in rows}

@mlflow.trace
def answer(text):
    return answers[text]

who = AssessmentSource(source_type="HUMAN", source_id="ann@example.org")
for key, _, label, _ in rows:
    answer(f"text {key}")
    mlflow.flush_trace_async_logging()
    if label:
        mlflow.log_expectation(trace_id=mlflow.get_last_active_trace_id(),
            name="expected_response", value=label, source=who)
found = mlflow.search_traces(return_type="pandas")
found = found.drop(columns=["trace", "spans", "tags", "trace_metadata"])
found.to_json(folder / "mlflow-traces.jsonl", orient="records", lines=True)
"""
# Its server runs here for as long as it takes.
PHOENIX = """
import subprocess, time
from urllib.request import urlopen
place = {"PHOENIX_WORKING_DIR": str(work), "PHOENIX_PORT": "8261",
    "PHOENIX_GRPC_PORT": "8262", "PHOENIX_TELEMETRY_ENABLED": "false"}
server = subprocess.Popen([sys.executable, "-m", "phoenix.server.main", "serve"],
    env={**os.environ, **place}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
try:
    for _ in range(120):
        try:
            urlopen("http://127.0.0.1:8261/healthz")
            break
        except OSError:
            time.sleep(1)
    import pandas as pd
    from phoenix.client import Client
    client = Client(base_url="http://127.0.0.1:8261")
    spans = [
        {"name": "answer", "span_kind": "LLM", "status_code": "OK",
            "context": {"trace_id": f"{place:032x}", "span_id": f"{place:016x}"},
            "start_time": "2026-01-31T12:00:00+00:00",
            "end_time": "2026-01-31T12:00:01+00:00",
            "attributes": {"input.value": f"text {row[0]}", "output.value": row[1]}}
        for place, row in enumerate(rows, start=1)
    ]
    client.spans.log_spans(project_identifier="x", spans=spans)
    time.sleep(5)
    for place, row in enumerate(rows, start=1):
        if row[2]:
            client.spans.add_span_annotation(span_id=f"{place:016x}",
                annotation_name="truth", annotator_kind="HUMAN", label=row[2],
                score=row[3], sync=True)
    whole = client.spans.get_spans_dataframe(project_identifier="x")
    said = client.spans.get_span_annotations_dataframe(spans_dataframe=whole,
        project_identifier="x")
    names = [name for name in said if name.startswith("result.")]
    whole.join(said[names]).to_csv(folder / "phoenix.csv", index=False)
finally:
    server.terminate()
    server.wait()
"""
PROGRAMS = {
    "pandas": (["pandas", "pyarrow", "openpyxl"], FRAME + PANDAS + OPENPYXL),
    "mlflow": (["mlflow>=3", "pandas"], FRAME + MLFLOW),
    "wandb": (["wandb", "pandas"], FRAME + WANDB),
    "label-studio": (["label-studio-sdk", "pandas"], LABEL_STUDIO),
    "fiftyone": (["fiftyone"], FIFTYONE),
    "datasets": (["datasets"], HEAD + DATASETS),
    "lm_eval": (["lm_eval"], HEAD + LM_EVAL),
    "inspect_ai": (["inspect_ai"], HEAD + INSPECT),
    "deepeval": (["deepeval"], HEAD + DEEPEVAL),
    "argilla": (["argilla", "requests"], HEAD + ARGILLA),
    "datumaro": (["datumaro"], HEAD + DATUMARO),
    "evidently": (["evidently", "pandas<3"], HEAD + EVIDENTLY),
    "promptfoo": ([], HEAD + PROMPTFOO),
    "ragas": (["ragas", "langchain-community<0.4"], HEAD + RAGAS),
    "nannyml": (["nannyml", "statsmodels"], HEAD + NANNYML),
    "phoenix": (["arize-phoenix"], HEAD + PHOENIX),
    "mlflow-traces": (["mlflow>=3"], HEAD + TRACES),
}


def make(name: str, packages: list[str], program: str) -> None:
    """Write the files of one package; say so if it cannot be installed."""
    with tempfile.TemporaryDirectory() as folder:
        python = Path(folder, "env", "bin", "python")
        uv = [sys.executable, "-m", "uv", "--quiet"]
        subprocess.run([*uv, "venv", python.parents[1]], check=True)
        install = [*uv, "pip", "install", "--python", python, *packages]
        if packages and subprocess.run(install, check=False).returncode:
            print(f"{name}: cannot be installed here; its files stay as they are")
            return
        out = Path(folder, "out")
        out.mkdir()
        subprocess.run([python, "-c", program, out, json.dumps(ROWS)], check=True)
        keep(name, out, find_versions(python, packages))


def find_versions(python: Path, packages: list[str]) -> dict[str, str]:
    """Return which version of each of the *packages* is installed."""
    program = (
        "import sys; from importlib.metadata import version; "
        "print(*map(version, sys.argv[1:]))"
    )
    names = [re.split("[<>=]", one)[0] for one in packages]
    found = subprocess.run([python, "-c", program, *names], check=True, stdout=-1)
    return dict(zip(names, found.stdout.decode().split(), strict=True))


def keep(name: str, out: Path, versions: dict[str, str]) -> None:
    """Take the files of a package, and note the versions that wrote them."""
    noted = out / "work" / "version"
    known = json.loads(VERSIONS.read_text()) if VERSIONS.exists() else {}
    known[name] = versions or {name: noted.read_text()}
    VERSIONS.write_text(json.dumps(known, indent=1, sort_keys=True) + "\n")
    for path in sorted(one for one in out.iterdir() if one.is_file()):
        (FOLDER / path.name).write_bytes(path.read_bytes())
        print(f"{name}: {path.name}, {path.stat().st_size:,} bytes")


if __name__ == "__main__":
    FOLDER.mkdir(exist_ok=True)
    for chosen in sys.argv[1:] or PROGRAMS:
        make(chosen, *PROGRAMS[chosen])
