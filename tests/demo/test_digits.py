import io
from collections import Counter
from importlib.resources import files

import pytest
from PIL import Image

from tracker.demo.digits import (
    DETECTORS,
    DemoDetector,
    digit_png,
    ink_levels,
    load_digits,
)

DATA = files("tracker.demo").joinpath("data")
DIGITS = load_digits()
VERSIONS = [
    pytest.param(detector, version, id=f"{detector.name} {version}")
    for detector in DETECTORS
    for version in detector.versions
]


def count_correct(detector: DemoDetector, version: str) -> Counter[str]:
    """Count the correct predictions by true class."""
    return Counter(
        label
        for digit in DIGITS
        if digit.predictions[detector.name, version].predicted
        == (label := detector.label_of(digit.digit))
    )


def count_labelled(detector: DemoDetector) -> Counter[str]:
    return Counter(detector.label_of(digit.digit) for digit in DIGITS)


def balanced_accuracy(detector: DemoDetector, version: str) -> float:
    correct, labelled = count_correct(detector, version), count_labelled(detector)
    return sum(correct[name] / labelled[name] for name in labelled) / len(labelled)


def rows_of_readme(columns: int, detector: str, version: str) -> list[list[str]]:
    """Return the rows about one version in the README's tables of that width."""
    lines = DATA.joinpath("README.md").read_text(encoding="utf-8").splitlines()
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines]
    return [
        row[2:]
        for row in rows
        if len(row) == columns and row[:2] == [f"`{detector}`", version]
    ]


def test_there_are_as_many_of_each_digit_as_in_the_test_set_of_uci() -> None:
    # The class distribution of optdigits.tes, from the description at UCI.
    expected = [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]
    counts = Counter(digit.digit for digit in DIGITS)
    assert [counts[digit] for digit in range(10)] == expected
    assert len(DIGITS) == 1797


def test_the_index_of_a_digit_is_its_place_in_the_list() -> None:
    assert [digit.index for digit in DIGITS] == list(range(1797))


def test_an_8_is_the_only_digit_whose_label_is_yes() -> None:
    detector = DETECTORS[0]
    assert [digit for digit in range(10) if detector.label_of(digit) == "YES"] == [8]


def test_the_label_of_a_digit_is_its_name() -> None:
    assert [DETECTORS[1].label_of(digit) for digit in range(10)] == list("0123456789")


@pytest.mark.parametrize(("detector", "version"), VERSIONS)
def test_every_prediction_is_a_class_with_a_credible_confidence(
    detector: DemoDetector, version: str
) -> None:
    # The most probable of m classes has a probability of at least 1/m.
    least = round(1 / len(detector.classes), 4)
    for digit in DIGITS:
        prediction = digit.predictions[detector.name, version]
        assert prediction.predicted in detector.classes
        assert least <= prediction.confidence <= 1
        assert prediction.confidence == round(prediction.confidence, 4)


def test_a_digit_has_predictions_of_the_declared_versions_only() -> None:
    declared = {(d.name, version) for d in DETECTORS for version in d.versions}
    assert all(set(digit.predictions) == declared for digit in DIGITS)


@pytest.mark.parametrize("detector", DETECTORS, ids=lambda detector: detector.name)
def test_the_second_version_is_better(detector: DemoDetector) -> None:
    first, second = (balanced_accuracy(detector, v) for v in detector.versions)
    assert first < second


def test_one_detector_meets_its_target_and_the_other_misses_it() -> None:
    met, missed = DETECTORS
    assert balanced_accuracy(met, "v1") < met.target < balanced_accuracy(met, "v2")
    assert balanced_accuracy(missed, "v2") < missed.target


@pytest.mark.parametrize(("detector", "version"), VERSIONS)
def test_the_readme_states_the_measured_accuracies(
    detector: DemoDetector, version: str
) -> None:
    correct, labelled = count_correct(detector, version), count_labelled(detector)
    by_version, *by_class = rows_of_readme(6, detector.name, version)
    assert by_version[1:] == [
        str(correct.total()),
        str(labelled.total()),
        f"{balanced_accuracy(detector, version):.4f}",
    ]
    assert by_class == [
        [name, str(k := correct[name]), str(n := labelled[name]), f"{k / n:.4f}"]
        for name in detector.classes
    ]


def test_the_readme_names_source_and_licence() -> None:
    text = DATA.joinpath("README.md").read_text(encoding="utf-8")
    for words in ("Alpaydin", "Kaynak", "10.24432/C50P49", "CC BY 4.0"):
        assert words in text


def test_the_data_are_smaller_than_300_kilobytes() -> None:
    assert sum(len(entry.read_bytes()) for entry in DATA.iterdir()) < 300_000


def test_the_first_image_is_the_first_of_uci() -> None:
    # Sums of the eight rows of the first line of optdigits.tes:
    # 0,0,5,13,9,1,0,0, 0,0,13,15,10,15,5,0, 0,3,15,2,0,11,8,0, and so on.
    levels = ink_levels(0)
    rows = [levels[start : start + 8] for start in range(0, 64, 8)]
    assert [sum(row) for row in rows] == [28, 58, 39, 32, 30, 35, 43, 29]
    assert list(rows[0]) == [0, 0, 5, 13, 9, 1, 0, 0]


def test_every_image_has_ink_up_to_the_highest_levels_only() -> None:
    for digit in DIGITS:
        levels = ink_levels(digit.index)
        assert len(levels) == 64
        assert 10 < max(levels) <= 16


def test_no_two_images_are_drawn_from_the_same_place() -> None:
    assert len({ink_levels(digit.index) for digit in DIGITS}) == len(DIGITS)


@pytest.mark.parametrize("index", [-1, 1797, 1799, 1800, 1_000_000])
def test_there_is_no_image_outside_the_list(index: int) -> None:
    with pytest.raises(IndexError, match=f"no digit {index}"):
        digit_png(index)


@pytest.mark.parametrize(("scale", "side"), [(16, 160), (4, 40)])
def test_an_image_is_a_square_of_ten_times_the_scale(scale: int, side: int) -> None:
    with Image.open(io.BytesIO(digit_png(0, scale=scale))) as image:
        image.load()
        assert (image.format, image.mode, image.size) == ("PNG", "L", (side, side))


def test_an_image_is_dark_ink_on_a_white_margin() -> None:
    with Image.open(io.BytesIO(digit_png(0))) as image:
        darkest, lightest = image.convert("L").getextrema()
        corners = {image.getpixel((x, y)) for x in (0, 159) for y in (0, 159)}
    assert (darkest, lightest, corners) == (0, 255, {255})


def test_an_image_takes_at_most_four_kilobytes() -> None:
    assert max(len(digit_png(index)) for index in range(0, 1797, 20)) <= 4096
