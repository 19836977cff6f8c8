"""Detectors of the Groundlight SDK: modes, settings, evaluation."""

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Annotated, Any, Literal

from flask import Response, jsonify, request
from flask.typing import ResponseReturnValue
from pydantic import StringConstraints
from sqlalchemy.orm import Session

from tracker.errors import ConflictError, FieldError, InvalidInputError
from tracker.groundlight.routes import (
    Body,
    Metadata,
    Patience,
    call,
    dump_page,
    naming,
    once,
    read_body,
    read_place,
)
from tracker.http import account, by, database, no_content, now
from tracker.services import detectors as services
from tracker.services import device, fields, wording
from tracker.services.detectors import archive_detector
from tracker.services.estimates.estimate import get_estimate
from tracker.services.estimates.measures import MeasuredEstimate, add_measure
from tracker.services.estimates.report import add_sentence
from tracker.services.labelling.rechecks import find_label_errors
from tracker.storage import detectors as storage
from tracker.storage.base import dump_id
from tracker.storage.detectors import Detector
from tracker.storage.device import DetectorGroup, DeviceSettings
from tracker.words import UNCLEAR

RESULT_TYPES = {
    device.BINARY: "binary_classification",
    device.MULTI_CLASS: "multi_classification",
    device.COUNT: "counting",
}
_USUAL_MOST = 10
_LARGEST_COUNT = 50
_BINARY_WORDS = {
    UNCLEAR: UNCLEAR,
    "YES": "YES",
    "NO": "NO",
    "TRUE": "YES",
    "FALSE": "NO",
    # Sent by older versions of the SDK.
    "PASS": "YES",
    "FAIL": "NO",
    "NEEDS_REVIEW": UNCLEAR,
    "__UNSURE": UNCLEAR,
}


_SETTINGS = (
    *("group_name", "mode", "mode_configuration", "confidence_threshold"),
    *("patience_time", "status", "escalation_type"),
)
_Words = Annotated[str, StringConstraints(strip_whitespace=True)]


class NewDetectorBody(Body):
    """A new detector."""

    name: _Words
    query: _Words
    group_name: fields.KeyName | None = None
    confidence_threshold: fields.Probability | None = None
    patience_time: Patience | None = None
    metadata: Metadata = None
    mode: str = device.BINARY
    mode_configuration: dict[str, Any] | None = None


class DetectorPatch(Body):
    """The fields of a detector to change."""

    name: _Words | None = None
    confidence_threshold: fields.Probability | None = None
    patience_time: Patience | None = None
    status: Literal["ON", "OFF"] | None = None
    escalation_type: Literal["STANDARD", "NO_HUMAN_LABELING"] | None = None


class GroupBody(Body):
    """A new group."""

    name: fields.KeyName


def _choose_classes(
    mode: str, configuration: dict[str, Any]
) -> tuple[list[Any], dict[str, Any] | None]:
    """Return the classes and the stored configuration of a new detector."""
    if mode == device.BINARY:
        return ["YES", "NO"], None
    if mode == device.MULTI_CLASS:
        names = configuration.get("class_names")
        if not isinstance(names, list):
            raise _wrong_configuration("class_names must be a list of classes.")
        return names, {"class_names": names}
    if mode != device.COUNT:
        raise InvalidInputError.of(
            "mode",
            f"{_quote(mode)} is not a valid choice: Tracker measures classifiers, "
            f"which are {', '.join(RESULT_TYPES)}.",
        )
    name, most = configuration.get("class_name"), configuration.get("max_count")
    most = _USUAL_MOST if most is None else most
    if not isinstance(most, int) or not 1 <= most <= _LARGEST_COUNT:
        raise _wrong_configuration(f"max_count must be 1 to {_LARGEST_COUNT}.")
    if not isinstance(name, str) or not name:
        raise _wrong_configuration("class_name must say what is counted.")
    classes = [*map(str, range(most + 1)), f">{most}"]
    return classes, {"class_name": name, "max_count": most}


def _wrong_configuration(message: str) -> InvalidInputError:
    return InvalidInputError.of("mode_configuration", message)


def read_class(
    detector: Detector, settings: DeviceSettings, said: object, *, field: str
) -> str:
    """Parse the class, or UNCLEAR, in *said*."""
    # Python's True is an int; its text means YES.
    words = _BINARY_WORDS if settings.mode == device.BINARY else {UNCLEAR: UNCLEAR}
    word = words.get(str(said).upper(), str(said))
    if settings.mode == device.COUNT and word.isascii() and word.isdigit():
        most = int((settings.mode_configuration or {})["max_count"])
        word = str(int(word)) if len(word) < 9 and int(word) <= most else f">{most}"
    is_word = isinstance(said, str | int)
    if not is_word or (word not in detector.classes and word != UNCLEAR):
        raise InvalidInputError.of(field, f"{_quote(said)} is not a valid choice.")
    return word


def _quote(said: object) -> str:
    return json.dumps(said, ensure_ascii=False)[:100]


def dump_result(
    settings: DeviceSettings, answer: str, confidence: float | None, source: str
) -> dict[str, Any]:
    """Return the SDK's result of a query with the class *answer*, or UNCLEAR."""
    result = {
        "confidence": confidence,
        "from_edge": False,
        "result_type": RESULT_TYPES[settings.mode],
        "source": source,
    }
    if settings.mode != device.COUNT:
        return {**result, "label": answer}
    is_greater = answer.startswith(">")
    number = int(answer.removeprefix(">")) if answer != UNCLEAR else None
    return {**result, "count": number, "greater_than_max": is_greater}


def find_detector(session: Session, detector_id: str) -> Detector:
    detector = services.get_detector(session, detector_id)
    if detector.archived_at is not None:
        raise wording.missing("detector", detector_id)
    return detector


def dump_detector(session: Session, detector: Detector) -> dict[str, Any]:
    """Return the SDK's JSON of a detector."""
    settings = device.get_settings(session, detector)
    return {
        "id": dump_id("det", detector.id),
        "type": "detector",
        "created_at": wording.dump_instant(detector.created_at),
        "name": detector.name,
        "query": detector.question,
        "metadata": settings.details and json.loads(settings.details),
        **{name: getattr(settings, name) for name in _SETTINGS},
    }


@contextmanager
def _naming_taken_names() -> Iterator[None]:
    try:
        yield
    except ConflictError as error:
        raise InvalidInputError(
            [
                FieldError("name", "Detector with this name already exists."),
                # Programs look for the name of this constraint.
                FieldError(
                    "non_field_errors",
                    "Constraint unique_undeleted_name_per_set is violated.",
                ),
            ]
        ) from error


@call("POST /detectors", "editor")
def create_detector() -> Response:
    """Create a detector in one of the classifier modes."""
    body = read_body(NewDetectorBody)
    classes, configuration = _choose_classes(body.mode, body.mode_configuration or {})
    names = {"group_name", "confidence_threshold", "patience_time", "metadata"}
    settings = body.model_dump(include=names, exclude_none=True)

    def create(session: Session) -> dict[str, Any]:
        with naming(question="query", classes="mode_configuration"):
            values = {"name": body.name, "question": body.query, "classes": classes}
            new = fields.parse_input(services.NewDetector, values)
        with _naming_taken_names():
            detector = services.create_detector(session, new, by())
        kept = {"mode": body.mode, "mode_configuration": configuration, **settings}
        device.set_settings(session, detector, by(), **kept)
        return dump_detector(session, detector)

    return once(create, body)


@call("GET /detectors", "viewer")
def list_detectors() -> dict[str, Any]:
    """List the detectors, or the one named ``name``."""
    offset, size = read_place()
    name, seen = request.args.get("name"), account().detectors
    with database().read() as session:
        found: Sequence[Detector] = []
        if name is None or fields.is_storable(name):
            found = storage.list_detectors(session, name=name, among=seen)
        shown = [dump_detector(session, one) for one in found[offset : offset + size]]
        return dump_page(len(found), shown)


@call("GET /detectors/<id>", "viewer")
def get_detector(id: str) -> dict[str, Any]:  # noqa: A002 - as in the path.
    with database().read() as session:
        return dump_detector(session, find_detector(session, id))


@call("PATCH /detectors/<id>", "editor")
def change_detector(id: str) -> dict[str, Any]:  # noqa: A002 - as in the path.
    """Change the name or settings of a detector."""
    body = read_body(DetectorPatch)
    settings = body.model_dump(exclude={"name"}, exclude_none=True)
    with database().write() as session:
        detector = find_detector(session, id)
        if body.name is not None:
            change = fields.parse_input(services.DetectorChange, {"name": body.name})
            with _naming_taken_names():
                services.change_detector(session, detector, change, by())
        if settings:
            device.set_settings(session, detector, by(), **settings)
        return dump_detector(session, detector)


@call("DELETE /detectors/<id>", "admin")
def delete_detector(id: str) -> Response:  # noqa: A002 - as in the path.
    """Archive a detector: the SDK no longer finds it, and nothing is lost."""
    with database().write() as session:
        archive_detector(session, find_detector(session, id), by())
    return no_content()


@call("DELETE /detector-reset/<id>", "admin")
def reset_detector(id: str) -> Response:  # noqa: A002 - as in the path.
    """Refuse to reset: queries and labels are never deleted on request."""
    with database().read() as session:
        find_detector(session, id)
    raise InvalidInputError.of(
        "non_field_errors",
        "Tracker keeps every label, so a detector cannot be reset. Delete it, which "
        "archives it and frees its name, and create it again.",
    )


def _dump_group(group: DetectorGroup) -> dict[str, Any]:
    return {"id": dump_id("dgr", group.id), "name": group.name}


@call("GET /detector-groups", "viewer")
def list_groups() -> ResponseReturnValue:
    with database().read() as session:
        return jsonify([_dump_group(group) for group in device.list_groups(session)])


@call("POST /detector-groups", "editor")
def create_group() -> Response:
    body = read_body(GroupBody)

    def create(session: Session) -> dict[str, Any]:
        group = device.create_group(session, body.name, by())
        if group is None:
            raise InvalidInputError.of(
                "name", "Detector group with this name already exists."
            )
        return _dump_group(group)

    return once(create, body)


@call("GET /detectors/<id>/evaluation", "viewer")
def get_evaluation(id: str) -> dict[str, Any]:  # noqa: A002 - as in the path.
    """Return the accuracies of the shown version, null before its first label."""
    with database().read() as session:
        detector = find_detector(session, id)
        is_binary = device.get_settings(session, detector).mode == device.BINARY
        estimate = get_estimate(session, detector, computed_at=now())
        if not estimate.labels:
            return {"evaluation_results": None}
        errors = find_label_errors(session, detector, estimate)
        measured = add_sentence(detector, add_measure(estimate, "recall", errors))
    return {"evaluation_results": _dump_results(measured, is_binary=is_binary)}


def _dump_results(estimate: MeasuredEstimate, *, is_binary: bool) -> dict[str, Any]:
    accuracies = {one.name: one.accuracy for one in estimate.classes}
    balanced = estimate.balanced
    return {
        "eval_timestamp": wording.dump_instant(estimate.computed_at),
        "total_ground_truth_examples": estimate.labels,
        "total_labeled_examples": estimate.labels
        + estimate.unclear
        + estimate.targeted_left_out,
        "kfold_pooled__balanced_accuracy": balanced.accuracy,
        "kfold_pooled__positive_accuracy": accuracies["YES"] if is_binary else None,
        "kfold_pooled__negative_accuracy": accuracies["NO"] if is_binary else None,
        "precision__mean": None,
        "recall__mean": None,
        "roc_auc__mean": None,
        "class_accuracies": accuracies,
        "confusion_dict": estimate.confusion,
        "num_examples_per_class": {one.name: one.labelled for one in estimate.classes},
        # Unknown to the SDK, which passes them to the program.
        "x_confidence_level": estimate.confidence_level,
        "x_confidence_intervals": {
            "balanced_accuracy": {"lower": balanced.low, "upper": balanced.high},
            "class_accuracies": {
                one.name: {"lower": one.low, "upper": one.high}
                for one in estimate.classes
            },
        },
        "x_estimate": estimate.dump(),
    }


@call("GET /detectors/<id>/metrics", "viewer")
def get_metrics(id: str) -> dict[str, Any]:  # noqa: A002 - as in the path.
    """Count the queries of a detector by their current answer."""
    with database().read() as session:
        detector = find_detector(session, id)
        answers = device.count_answers(session, detector)
    by_people, none = answers.by_people, dict.fromkeys(detector.classes, 0)
    return {
        "summary": {
            "class_counts": {
                "cloud": {},
                "cloud_labeler": {},
                "source_human": none | by_people,
                "source_ml": none | answers.by_detector,
                "total": none | (by_people + answers.by_detector),
            },
            "unconfident_counts": none | answers.unsure,
            "num_current_source_human": by_people.total(),
            "num_ground_truth": by_people.total() - by_people[UNCLEAR],
            "total_iqs": answers.queries,
        }
    }
