"""What the demo says while it is being prepared."""

import io
import random

import pytest
from rich.console import Console

from tests.conftest import WHOLE
from tracker import stats
from tracker.cli.demo import (
    _LABELLED_BEFORE,
    _LABELLED_LIVE,
    _SEED,
    Waiting,
    _as_people_label,
    follow,
)
from tracker.demo.digits import DETECTORS, DemoDetector, load_digits
from tracker.words import UNCLEAR


def test_progress_is_only_shown_to_somebody_who_looks() -> None:
    digits = load_digits()[:3]
    for is_terminal in (False, True):
        said = io.StringIO()
        console = Console(file=said, force_terminal=is_terminal)
        assert list(follow(digits, "Images", console)) == digits
        assert bool(said.getvalue()) == is_terminal


def order_of(detector: DemoDetector) -> list[int]:
    """Return the places of the digits as the demo draws them for *detector*."""
    draw = random.Random(_SEED)
    digits = range(len(load_digits()))
    orders = {one.name: draw.sample(digits, len(digits)) for one in DETECTORS}
    return orders[detector.name]


@pytest.mark.parametrize(
    ("detector", "verdict"), [(DETECTORS[0], "met"), (DETECTORS[1], "missed")]
)
def test_the_demo_ends_decided(detector: DemoDetector, verdict: str) -> None:
    digits = load_digits()
    order = order_of(detector)
    # Those before were labelled for the older version, and count for it alone.
    before, after = (
        int(len(order) * part) for part in (_LABELLED_BEFORE, _LABELLED_LIVE)
    )
    live = order[before:after]
    version = detector.versions[-1]
    waiting = [Waiting(1, at, detector.label_of(digits[at].digit)) for at in live]
    labels = {
        one.query: one.label for one in _as_people_label(waiting, detector.classes)
    }
    assert UNCLEAR in labels.values()
    correct, labelled = (dict.fromkeys(detector.classes, 0) for _ in range(2))
    for at, label in labels.items():
        if label != UNCLEAR:
            labelled[label] += 1
            said = digits[at].predictions[detector.name, version].predicted
            correct[label] += said == label
    bounds = stats.balanced_interval(
        "anytime", list(correct.values()), list(labelled.values()), WHOLE
    )
    if verdict == "met":
        assert bounds.low > detector.target
    else:
        assert bounds.high < detector.target
