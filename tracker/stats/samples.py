"""Intervals straight from labels and predictions, in scikit-learn's conventions."""

import numpy as np
import numpy.typing as npt

from .measures import overall_interval
from .methods import balanced_interval


def accuracy_interval(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike, *, confidence_level: float = 0.95
) -> tuple[float, float]:
    """Return the exact interval for the accuracy of predictions.

    *y_true* and *y_pred* have shape (n,); the bounds, low and high, are in [0, 1].  It
    holds for one look at rows that are independent and drawn at random from what the
    classifier is asked.

    Raises ValueError where the two differ in length or are empty.

    C. J. Clopper and E. S. Pearson, Biometrika 26 (1934), 404-413.
    """
    truth, predicted = _columns(y_true, y_pred)
    correct = (truth == predicted).sum(keepdims=True)
    low, high = overall_interval(correct, [truth.size], confidence_level)
    return float(low), float(high)


def balanced_accuracy_interval(
    y_true: npt.ArrayLike,
    y_pred: npt.ArrayLike,
    *,
    labels: npt.ArrayLike | None = None,
    method: str = "joint",
    confidence_level: float = 0.95,
) -> tuple[float, float]:
    """Return the interval of *method* for the mean of the class accuracies.

    As ``sklearn.metrics.balanced_accuracy_score`` does, it averages over the classes
    in *y_true*, of shape (n,), unless *labels* names the classes: one that was never
    labelled then counts as unknown, between 0 and 1.  ``joint`` and ``exact`` hold for
    one look, ``anytime`` however often one looks.

    Raises ValueError where the two columns differ in length or are empty, where a
    label is not in *labels*, with fewer than two classes, and for an unknown method.
    """
    truth, predicted = _columns(y_true, y_pred)
    classes = np.unique(truth if labels is None else np.asarray(labels))
    if classes.size < 2:
        raise ValueError("fewer than two classes; name them all by labels=")
    if unknown := sorted({str(one) for one in np.setdiff1d(truth, classes)}):
        raise ValueError(f"labels= lacks classes of y_true: {', '.join(unknown)}")
    is_class = truth[:, None] == classes
    correct = (is_class & (truth == predicted)[:, None]).sum(0)
    counted = is_class.sum(0)
    low, high = balanced_interval(method, correct, counted, confidence_level)
    return float(low), float(high)


def _columns(
    y_true: npt.ArrayLike, y_pred: npt.ArrayLike
) -> tuple[npt.NDArray[np.generic], npt.NDArray[np.generic]]:
    truth, predicted = np.asarray(y_true), np.asarray(y_pred)
    if truth.ndim != 1 or truth.shape != predicted.shape or not truth.size:
        raise ValueError(
            "y_true and y_pred must be columns of the same length, of at least one"
            f" row; they have shapes {truth.shape} and {predicted.shape}"
        )
    return truth, predicted
