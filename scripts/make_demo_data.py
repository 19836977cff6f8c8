"""Make the data of the demonstration: digits, and real predictions of them.

    python scripts/make_demo_data.py

It reads the digits that scikit-learn carries, so it needs no network, and it
writes `tracker/demo/data/`.  Nothing in it is random beyond the fixed seed: with
the library versions that the data's README records, the files come out the same.

Every prediction is out of fold: the classifier that made it was trained on other
images.  The class predicted is the most probable one, and the confidence is its
probability.
"""

import csv
import platform
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import PIL

# scikit-learn carries no types.
import sklearn  # type: ignore[import-untyped]
from PIL import Image

from tracker.demo import cameras
from tracker.demo.digits import (
    DETECTORS,
    HIGHEST_INK,
    SPRITE_NAME,
    TABLE_NAME,
    TILE_SIDE,
    TILES_PER_ROW,
    DemoDetector,
    prediction_columns,
)

DATA = Path(__file__).parents[1] / "tracker" / "demo" / "data"
README_MARKER = "<!-- Written by scripts/make_demo_data.py from here on. -->\n"
SEED = 0
FOLDS = 10

Texts = npt.NDArray[np.str_]


@dataclass(frozen=True, slots=True)
class Recipe:
    """How one version of a detector is trained."""

    description: str
    build: Callable[[], Any]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one version said of every image, and what was true."""

    detector: DemoDetector
    version: str
    labels: Texts
    predicted: Texts
    confidences: npt.NDArray[np.float64]


def regress_on_components(count: int) -> Any:
    """Build a logistic regression that sees only *count* principal components."""
    return sklearn.pipeline.make_pipeline(
        sklearn.preprocessing.StandardScaler(),
        sklearn.decomposition.PCA(count, svd_solver="full", random_state=SEED),
        sklearn.linear_model.LogisticRegression(max_iter=2000),
    )


def regress_on_pixels() -> Any:
    """Build a logistic regression that sees all 64 pixels."""
    return sklearn.pipeline.make_pipeline(
        sklearn.preprocessing.MinMaxScaler(),
        sklearn.linear_model.LogisticRegression(max_iter=2000),
    )


def separate_by_kernel() -> Any:
    """Build a support vector machine with probabilities by Platt's scaling."""
    machine = sklearn.svm.SVC(kernel="rbf", gamma=0.0005)
    return sklearn.calibration.CalibratedClassifierCV(machine, cv=3, ensemble=False)


RECIPES = {
    ("digit-is-8", "v1"): Recipe(
        "logistic regression on 20 principal components",
        lambda: regress_on_components(20),
    ),
    ("digit-is-8", "v2"): Recipe(
        "support vector machine, RBF kernel, all 64 pixels", separate_by_kernel
    ),
    ("which-digit", "v1"): Recipe(
        "logistic regression on 5 principal components",
        lambda: regress_on_components(5),
    ),
    ("which-digit", "v2"): Recipe(
        "logistic regression on all 64 pixels", regress_on_pixels
    ),
}


def predict(
    images: npt.NDArray[np.float64],
    digits: npt.NDArray[np.int64],
    detector: DemoDetector,
    version: str,
) -> Outcome:
    """Return what *version* says of each image when trained on other images."""
    labels = np.array([detector.label_of(int(digit)) for digit in digits])
    folds = sklearn.model_selection.StratifiedKFold(
        FOLDS, shuffle=True, random_state=SEED
    )
    probabilities = sklearn.model_selection.cross_val_predict(
        RECIPES[detector.name, version].build(),
        images,
        labels,
        cv=folds,
        method="predict_proba",
    )
    # scikit-learn puts the columns in the order of the sorted classes.
    predicted = np.unique(labels)[probabilities.argmax(axis=1)]
    return Outcome(detector, version, labels, predicted, probabilities.max(axis=1))


def write_table(digits: npt.NDArray[np.int64], outcomes: list[Outcome]) -> None:
    """Write one row per image."""
    header = ["index", "digit"]
    for outcome in outcomes:
        header += prediction_columns(outcome.detector.name, outcome.version)
    with (DATA / TABLE_NAME).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(header)
        for index, digit in enumerate(digits):
            row = [str(index), str(digit)]
            for outcome in outcomes:
                confidence = round(float(outcome.confidences[index]), 4)
                row += [str(outcome.predicted[index]), str(confidence)]
            writer.writerow(row)


def write_cameras(
    images: npt.NDArray[np.float64], digits: npt.NDArray[np.int64]
) -> None:
    """Write what four cameras saw, and what a classifier said of those very pixels.

    It was trained on light images alone, as classifiers are before a lamp fails.
    """
    places = [cameras.place(index, len(images)) for index in range(len(images))]
    seen = np.array(
        [
            list(cameras.darken(bytes(image.astype(np.uint8))))
            if cameras.is_dark(*where)
            else image
            for image, where in zip(images, places, strict=True)
        ],
        dtype=np.float64,
    )
    labels = np.array([cameras.label_of(int(digit)) for digit in digits])
    said = np.empty(len(images), dtype=labels.dtype)
    confidences = np.empty(len(images))
    folds = sklearn.model_selection.StratifiedKFold(
        FOLDS, shuffle=True, random_state=SEED
    )
    for training, rest in folds.split(images, labels):
        machine = separate_by_kernel().fit(images[training], labels[training])
        chances = machine.predict_proba(seen[rest])
        said[rest] = machine.classes_[chances.argmax(axis=1)]
        confidences[rest] = chances.max(axis=1)
    with (DATA / cameras.TABLE_NAME).open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(["index", "digit", "camera", "day", "predicted", "confidence"])
        for index, (camera, day) in enumerate(places):
            confidence = round(float(confidences[index]), 4)
            writer.writerow(
                [index, digits[index], camera, day, said[index], confidence]
            )


def write_sprite(images: npt.NDArray[np.float64]) -> None:
    """Write all images into one PNG, row by row, whose pixels are ink levels."""
    rows = -(-len(images) // TILES_PER_ROW)
    sheet = np.zeros((rows * TILES_PER_ROW, TILE_SIDE, TILE_SIDE), np.uint8)
    sheet[: len(images)] = images.reshape(-1, TILE_SIDE, TILE_SIDE)
    grid = sheet.reshape(rows, TILES_PER_ROW, TILE_SIDE, TILE_SIDE).swapaxes(1, 2)
    size = (TILES_PER_ROW * TILE_SIDE, rows * TILE_SIDE)
    sprite = Image.frombytes("P", size, grid.tobytes())
    # A palette keeps the levels exact and still lets any viewer show dark ink.
    greys = [255 - level * 255 // HIGHEST_INK for level in range(HIGHEST_INK + 1)]
    sprite.putpalette([grey for grey in greys for _ in "RGB"])
    sprite.save(DATA / SPRITE_NAME, optimize=True)


def describe(outcomes: list[Outcome]) -> str:
    """Return the README's section on classifiers, accuracies and versions."""
    versions = [
        "| Detector | Version | Classifier | Correct | Labelled | Balanced accuracy |",
        "|---|---|---|---:|---:|---:|",
    ]
    classes = [
        "| Detector | Version | Class | Correct | Labelled | Accuracy |",
        "|---|---|---|---:|---:|---:|",
    ]
    for outcome in outcomes:
        names = f"| `{outcome.detector.name}` | {outcome.version} "
        is_correct = outcome.predicted == outcome.labels
        accuracies = []
        for name in outcome.detector.classes:
            of_class = is_correct[outcome.labels == name]
            accuracies.append(of_class.mean())
            classes.append(
                f"{names}| {name} | {of_class.sum()} | {of_class.size} "
                f"| {of_class.mean():.4f} |"
            )
        recipe = RECIPES[outcome.detector.name, outcome.version]
        versions.append(
            f"{names}| {recipe.description} | {is_correct.sum()} "
            f"| {is_correct.size} | {np.mean(accuracies):.4f} |"
        )
    made_with = (
        f"Made with Python {platform.python_version()}, "
        f"scikit-learn {sklearn.__version__}, NumPy {np.__version__} and "
        f"Pillow {PIL.__version__}; {FOLDS} folds, seed {SEED}."
    )
    return "\n".join(
        [
            "## Measured accuracies",
            "",
            *versions,
            "",
            *classes,
            "",
            made_with,
            "",
        ]
    )


def write_readme(outcomes: list[Outcome]) -> None:
    """Replace the part of the README that is measured, and keep the rest."""
    path = DATA / "README.md"
    by_hand, marker, _ = path.read_text(encoding="utf-8").partition(README_MARKER)
    if not marker:
        raise SystemExit(f"{path} has lost the line {README_MARKER.strip()!r}.")
    text = f"{by_hand}{marker}\n{describe(outcomes)}"
    path.write_text(text, encoding="utf-8", newline="\n")


def main() -> None:
    """Train, predict and write."""
    source = sklearn.datasets.load_digits()
    outcomes = []
    for detector in DETECTORS:
        for version in detector.versions:
            recipe = RECIPES[detector.name, version]
            print(f"{detector.name} {version}: {recipe.description}", flush=True)
            outcomes.append(predict(source.data, source.target, detector, version))
    write_table(source.target, outcomes)
    write_sprite(source.data)
    write_cameras(source.data, source.target)
    write_readme(outcomes)
    size = sum(path.stat().st_size for path in DATA.iterdir())
    print(f"Wrote {size:,} bytes to {DATA}.")


if __name__ == "__main__":
    main()
