"""The shapes of the tools whose files are read as they are, the most particular first.

Each says where its format is written down.
"""

import math
import re
from collections.abc import Iterator
from typing import Any

from tracker.services.imports.reading.shapes import Record, Shape, find, first_of, only
from tracker.services.wording import show
from tracker.words import NO_ANSWER

_EMPTY: Record = {}
_VARIABLE = re.compile(r"\{\{\s*(\w+)\s*\}\}")


def _lm_answer(record: Record, _: Record) -> Any:
    """Return the choice of the highest likelihood, or what the filter found."""
    found = record["filtered_resps"]
    if isinstance(found, list) and found and all(isinstance(o, list) for o in found):
        likelihoods = [float(one[0]) for one in found]
        if any(map(math.isnan, likelihoods)):
            raise ValueError("a likelihood is not a number")
        return str(likelihoods.index(max(likelihoods)))
    answer = found[0] if isinstance(found, list) and found else found
    return NO_ANSWER if answer in ("[invalid]", "", None) else answer


def _promptfoo_truth(record: Record, _: Record) -> Any:
    for path in ("vars.expected", "testCase.vars.expected"):
        if isinstance(found := find(record, path), str):
            return found
    found = find(record, "testCase.assert")
    tests = found if isinstance(found, list) else []
    for one in tests:
        if one.get("type") == "equals":
            named = _VARIABLE.fullmatch(str(one.get("value")))
            return find(record, f"vars.{named[1]}") if named else one.get("value")
    for place, one in enumerate(tests):
        if one.get("type") in ("icontains", "contains"):
            raise ValueError(
                "its test says only what the answer must contain; if that is its "
                f"class, add map label=testCase.assert[{place}].value"
            )
    return None


def _promptfoo_input(record: Record, _: Record) -> Any:
    given = record.get("vars") or {}
    found = find(record, "testCase.assert")
    tests = found if isinstance(found, list) else []
    values = (str(one.get("value")) for one in tests if one.get("type") == "equals")
    truths = {"expected", *(one[1] for one in map(_VARIABLE.fullmatch, values) if one)}
    return only({k: v for k, v in given.items() if k not in truths}) or None


def _inspect_answer(record: Record, _: Record) -> Any:
    """Return what all scorers took for the answer, else what was answered."""
    scores = record.get("scores")
    given = scores.items() if isinstance(scores, dict) else ()
    said = {k: one["answer"] for k, one in given if find(one, "answer") is not None}
    if len({str(one).strip().casefold() for one in said.values()}) > 1:
        raise ValueError(
            f"the scorers {' and '.join(map(show, said))} read different answers; "
            f"choose one, as in map predicted=scores.{next(iter(said))}.answer"
        )
    paths = "output.completion | output.choices[0].message.content"
    return next(iter(said.values())) if said else first_of(record, {}, paths)


def _human_truth(record: Record, _: Record) -> Any:
    for one in reversed(record["assessments"] or []):
        if find(one, "source.source_type") != "HUMAN":
            continue
        for path in ("expectation.value", "feedback.value"):
            if isinstance(found := find(one, path), str | int | bool):
                return found
    return None


def _sagemaker_class(record: Record, _: Record) -> Any:
    found = {
        name: one["class-name"]
        for name, one in record.items()
        if name.endswith("-metadata") and isinstance(one, dict) and "class-name" in one
    }
    if len(found) > 1:
        jobs = " and ".join(show(name.removesuffix("-metadata")) for name in found)
        raise ValueError(f"there are several jobs: {jobs}; keep one")
    return only(found)


def _prodigy_choice(record: Record, _: Record) -> Any:
    if "accept" not in record:
        return record.get("label")
    if len(record["accept"]) > 1:
        raise ValueError(f"{show(record['accept'])} is not right: there must be one")
    return only(record["accept"])


def _argilla_label(record: Record, _: Record) -> Any:
    answers = only_question(record["responses"])
    given = [
        one for one in answers or () if one.get("status", "submitted") == "submitted"
    ]
    return given[-1].get("value") if given else None


def only_question(answers: Any) -> Any:
    """Return what was answered to the only question; ValueError for several."""
    if isinstance(answers, dict) and len(answers) > 1:
        shown = " and ".join(map(show, answers))
        raise ValueError(f"there are several questions: {shown}; keep one")
    return next(iter(answers.values()), None) if answers else None


def _datumaro_label(record: Record, document: Record) -> Any:
    names = document["categories"]["label"]["labels"]
    found = [one for one in record["annotations"] if one.get("type") == "label"]
    if len(found) > 1:
        raise ValueError(f"it has {len(found)} labels; it must have one")
    return names[found[0]["label_id"]]["name"] if found else None


def _vertex_answer(record: Record, _: Record) -> Any:
    found = record["prediction"]
    pairs = zip(found["confidences"], found["displayNames"], strict=False)
    return max(pairs, default=(0, None))[1]


def _coco_images(document: Record) -> Iterator[Record]:
    classes = {one["id"]: one["name"] for one in document["categories"]}
    labels: dict[Any, list[Any]] = {}
    for one in document["annotations"]:
        labels.setdefault(one["image_id"], []).append(classes.get(one["category_id"]))
    for image in document["images"]:
        yield {"name": image["file_name"], "labels": labels.get(image["id"], [])}


def _coco_label(record: Record, _: Record) -> Any:
    if len(record["labels"]) > 1:
        raise ValueError(
            f"it has {len(record['labels'])} objects; a classification has one"
        )
    return only(record["labels"])


def _helm_answer(record: Record, _: Record) -> Any:
    said = str(find(record, "result.completions[0].text") or "").strip()
    return (record.get("output_mapping") or {}).get(said, said) or NO_ANSWER


def _helm_truth(record: Record, _: Record) -> Any:
    given = find(record, "instance.references") or record.get("references") or ()
    correct = [one for one in given if "correct" in (one.get("tags") or ())]
    if len(correct) > 1:
        raise ValueError(f"it has {len(correct)} correct references; it must have one")
    return find(correct[0], "output.text") if correct else None


SHAPES = (
    # https://inspect.aisi.org.uk/eval-logs.html, as .json and as .eval
    Shape(
        "a log of inspect_ai",
        "eval.model samples",
        {
            "key": "uuid",
            # Once: other epochs have the group alone.
            "input": lambda record, _: (
                record.get("id") if record.get("epoch", 1) == 1 else None
            ),
            "group": "id",
            "predicted": _inspect_answer,
            "label": "target",
            "version": "^.eval.model",
        },
        records="samples",
    ),
    # https://github.com/EleutherAI/lm-evaluation-harness, --log_samples
    Shape(
        "samples of lm-evaluation-harness",
        "doc_id filtered_resps target",
        {
            "input": "doc_hash | doc_id",
            "predicted": _lm_answer,
            "label": "target",
            "version": lambda record, _: (
                None if record.get("filter") == "none" else record.get("filter")
            ),
        },
    ),
    # https://crfm-helm.readthedocs.io, scenario_state.json and instances.json
    Shape(
        "a scenario state of HELM",
        "adapter_spec request_states",
        {
            "input": "instance.id",
            "group": "instance.id",
            "predicted": _helm_answer,
            "label": _helm_truth,
            "version": "^.adapter_spec.model_deployment | ^.adapter_spec.model",
        },
        records="request_states",
    ),
    Shape(
        "instances of HELM",
        "input.text references",
        {"input": "id", "label": _helm_truth},
    ),
    Shape(
        "predictions of HELM",
        "instance_id predicted_text",
        {"input": "instance_id", "predicted": "mapped_output | predicted_text"},
    ),
    # https://www.promptfoo.dev/docs/configuration/outputs/
    Shape(
        "results of promptfoo",
        "results.results",
        {
            "input": _promptfoo_input,
            "predicted": "response.output",
            "label": _promptfoo_truth,
            "version": lambda record, _: (
                find(record, "provider.label")
                or first_of(record, {}, "provider.id | provider")
            ),
        },
        records="results.results",
    ),
    # https://github.com/openai/evals, the record log
    Shape(
        "a log of OpenAI evals",
        "spec.eval_name spec.run_config",
        {
            "input": "sample_id",
            "predicted": "data.picked | data.sampled",
            "label": "data.expected",
            "version": "^.spec.completion_fns[0]",
            "asked_at": "created_at",
        },
        is_row=lambda record, _: record.get("type") == "match",
    ),
    # https://deepeval.com/docs/evaluation-flags-and-configs, .deepeval/.latest_test_run
    *(
        Shape(
            "a test run of deepeval",
            cases,
            {"input": "input", "predicted": "actualOutput", "label": "expectedOutput"},
            records=cases,
        )
        for cases in ("testCases", "testRunData.testCases")
    ),
    # https://langfuse.com/docs/api-and-data-platform/features/export-from-ui
    Shape(
        "scores of Langfuse",
        "traceId dataType stringValue",
        {
            "input": "traceId",
            "label": "stringValue | value",
            "labeler": "authorUserId",
            "labelled_at": "timestamp",
            "note": "comment",
        },
        is_row=lambda record, _: record.get("source") in (None, "ANNOTATION"),
        same="name",
    ),
    Shape(
        "items with an expected output, such as those of Langfuse",
        "input expectedOutput",
        {
            "input": "input",
            "predicted": "actualOutput | output",
            "label": "expectedOutput",
        },
    ),
    # https://www.comet.com/docs/opik, Experiment.get_items
    Shape(
        "items of an experiment of Opik",
        "dataset_item_id evaluation_task_output",
        {
            "key": "id",
            "input": "dataset_item_id",
            "predicted": "evaluation_task_output.output | evaluation_task_output",
            "label": "dataset_item_data.expected_output"
            " | dataset_item_data.expected_model_output",
        },
    ),
    # https://docs.langchain.com/langsmith, rows of an experiment
    Shape(
        "rows of a LangSmith experiment",
        "inputs outputs reference_outputs",
        {"input": "inputs", "predicted": "outputs", "label": "reference_outputs"},
    ),
    # https://mlflow.org/docs/latest/genai/eval-monitor/
    Shape(
        "an evaluation of MLflow",
        "inputs outputs expectations",
        {
            "input": "inputs",
            "predicted": "outputs",
            "label": "expectations.expected_response | expectations",
        },
    ),
    Shape(
        "traces of MLflow",
        "trace_id request response assessments",
        {
            "key": "trace_id",
            "input": "request",
            "predicted": "response",
            "label": _human_truth,
            "asked_at": "request_time",
        },
    ),
    # https://arize.com/docs/phoenix, spans with annotations as a frame
    Shape(
        "spans of Phoenix",
        "context.span_id attributes.output.value",
        {
            "key": "context.span_id",
            "input": "attributes.input.value",
            "predicted": "attributes.output.value",
            "label": "label | result.label",
            "asked_at": "start_time",
            "note": "explanation | result.explanation",
        },
    ),
    # https://docs.ragas.io, EvaluationResult.to_pandas
    Shape(
        "an evaluation of Ragas",
        "user_input response reference",
        {"input": "user_input", "predicted": "response", "label": "reference"},
    ),
    # https://docs.aws.amazon.com/sagemaker/latest/dg/sms-data-output.html
    *(
        Shape(
            "an output manifest of SageMaker Ground Truth",
            f"{source} *-metadata",
            {"input": source, "label": _sagemaker_class},
        )
        for source in ("source-ref", "source")
    ),
    # https://cloud.google.com/vertex-ai/docs/image-data/classification/prepare-data
    *(
        Shape(
            "a data set of Vertex AI",
            f"{source} classificationAnnotation.displayName",
            {"input": source, "label": "classificationAnnotation.displayName"},
        )
        for source in ("imageGcsUri", "textContent", "textGcsUri")
    ),
    Shape(
        "batch predictions of Vertex AI",
        "instance prediction.displayNames prediction.confidences",
        {
            "input": "instance.content",
            "predicted": _vertex_answer,
            "confidence": lambda record, _: max(
                record["prediction"]["confidences"], default=None
            ),
        },
    ),
    # https://cocodataset.org/#format-results
    Shape(
        "results of COCO",
        "image_id category_id score",
        {"input": "image_id", "predicted": "category_id", "confidence": "score"},
    ),
    # https://prodi.gy/docs/api-interfaces
    Shape(
        "annotations of Prodigy",
        "_input_hash answer",
        {
            "input": "text | image | html",
            "label": _prodigy_choice,
            "labelled_at": "_timestamp",
        },
        is_row=lambda record, _: record.get("answer") == "accept",
    ),
    # https://doccano.github.io/doccano/, text classification
    Shape(
        "texts labelled in doccano",
        "id text label Comments",
        {"input": "text", "label": "label"},
    ),
    # https://docs.argilla.io/latest/how_to_guides/import_export/
    Shape(
        "records of Argilla",
        "fields suggestions responses",
        {
            "key": "id",
            "predicted": lambda record, _: (
                only_question(record["suggestions"]) or _EMPTY
            ).get("value"),
            "confidence": "suggestions.*.score",
            "version": "suggestions.*.agent",
            "label": _argilla_label,
        },
    ),
    # https://docs.voxel51.com and https://open-edge-platform.github.io/datumaro
    Shape(
        "a data set of Datumaro",
        "categories.label.labels items",
        {"input": "id", "label": _datumaro_label},
        records="items",
    ),
    # https://cocodataset.org/#format-data
    Shape(
        "a data set of COCO",
        "images annotations categories",
        {"input": "name", "label": _coco_label},
        records=_coco_images,
    ),
    # Tables that are of a shape only as a whole: their names could be of others too.
    # https://tune.tidymodels.org/reference/collect_predictions.html; the id is that of
    # the resampling, and the truth has the name of the outcome.
    Shape(
        "predictions of tidymodels",
        ".pred_class .row .config",
        {"key": ".row", "predicted": ".pred_class"},
        others=r"\.pred_.+|id\d?|\.iter",
        own=1,
    ),
    # https://github.com/huggingface/pytorch-image-models, inference.py with --topk and
    # --results-separate-col
    *(
        Shape(
            "predictions of timm",
            f"filename {answer}_0 {answer}_1 {score}_0 {score}_1",
            {
                "input": "filename",
                "predicted": f"{answer}_0",
                "confidence": "prob_0",
            },
            others=rf"(index|{answer}|{score})_\d+",
        )
        for answer in ("label", "index")
        for score in ("prob", "logit")
    ),
    # https://catboost.ai/docs/en/concepts/output-data_model-value-output
    *(
        Shape(
            "predictions of CatBoost",
            f"{key} Class Label",
            {
                "key": key,
                "predicted": "Class",
                "label": "Label",
                "group": "GroupId | QueryId",
            },
            others="(Probability|LogProbability|RawFormulaVal)(:Class=.+)?|Exponent|"
            "Baseline|Weight|GroupId|QueryId|SubgroupId|GroupWeight|Timestamp",
        )
        for key in ("SampleId", "DocId")
    ),
    # https://github.com/confident-ai/deepeval, TestResult and EvaluationDataset
    Shape(
        "results of deepeval",
        "input actual_output expected_output",
        {"input": "input", "predicted": "actual_output", "label": "expected_output"},
        others="name|success|metrics_data|conversational|index|multimodal|context|"
        "retrieval_context|turns|metadata|additional_metadata|classifications|"
        "expectations|comments|source_file|tools_called|expected_tools|token_cost|"
        "input_token_count|output_token_count|custom_column_key_values",
    ),
    # https://docs.ultralytics.com/modes/predict, Results.to_csv and to_json
    Shape(
        "answers of Ultralytics",
        "name class confidence",
        {"confidence": "confidence"},
        others="box|track_id|segments|keypoints",
        unclear="name, class and confidence may be the answers of Ultralytics, several "
        "of an image, or those of files; say which column is the prediction, as in map "
        "predicted=name",
    ),
)
