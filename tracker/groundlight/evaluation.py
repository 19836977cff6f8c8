"""How good a detector is: the SDK's own figures, and our intervals beside them."""

from collections.abc import Mapping
from typing import Any

from tracker.groundlight.detectors import find_detector
from tracker.groundlight.routes import routes
from tracker.http import database, now, requires
from tracker.services.device import BINARY, count_answers, get_settings
from tracker.services.estimates.estimate import get_estimate
from tracker.services.estimates.measures import MeasuredEstimate, add_measure
from tracker.services.labelling.label_errors import find_label_errors
from tracker.services.wording import dump_instant
from tracker.words import UNCLEAR


@routes.get("/detectors/<id>/evaluation")
@requires("viewer")
def get_evaluation(id: str) -> dict[str, Any]:  # noqa: A002 - as in the path.
    """Compute the accuracies of the version shown, null before its first label.

    What the SDK does not know goes through to the program: ``x_confidence_intervals``
    has the interval of each accuracy, ``x_estimate`` is the estimate of our own API.
    """
    with database().read() as session:
        detector = find_detector(session, id)
        is_binary = get_settings(session, detector).mode == BINARY
        estimate = get_estimate(session, detector, computed_at=now())
        if not estimate.labels:
            return {"evaluation_results": None}
        errors = find_label_errors(session, detector, estimate)
        measured = add_measure(estimate, "recall", errors)
    return {"evaluation_results": _dump_results(measured, is_binary=is_binary)}


def _dump_results(estimate: MeasuredEstimate, *, is_binary: bool) -> dict[str, Any]:
    by_class = {one.name: one for one in estimate.classes}
    accuracies = {name: one.accuracy for name, one in by_class.items()}
    intervals = {
        name: {"lower": one.low, "upper": one.high} for name, one in by_class.items()
    }
    balanced = estimate.balanced
    return {
        "eval_timestamp": dump_instant(estimate.computed_at),
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
        "num_examples_per_class": {
            name: one.labelled for name, one in by_class.items()
        },
        "x_confidence_level": estimate.confidence_level,
        "x_confidence_intervals": {
            "balanced_accuracy": {"lower": balanced.low, "upper": balanced.high},
            "class_accuracies": intervals,
        },
        "x_estimate": estimate.dump(),
    }


@routes.get("/detectors/<id>/metrics")
@requires("viewer")
def get_metrics(id: str) -> dict[str, Any]:  # noqa: A002 - as in the path.
    """Count the queries of a detector by the answer they have now."""
    with database().read() as session:
        detector = find_detector(session, id)
        answers = count_answers(session, detector)
    none = dict.fromkeys(detector.classes, 0)

    def dump(counts: Mapping[str, int]) -> dict[str, int]:
        return {**none, **counts}

    by_people = answers.by_people
    return {
        "summary": {
            "class_counts": {
                "cloud": {},
                "cloud_labeler": {},
                "source_human": dump(by_people),
                "source_ml": dump(answers.by_detector),
                "total": dump(by_people + answers.by_detector),
            },
            "unconfident_counts": dump(answers.unsure),
            "num_current_source_human": by_people.total(),
            "num_ground_truth": by_people.total() - by_people[UNCLEAR],
            "total_iqs": answers.queries,
        }
    }
