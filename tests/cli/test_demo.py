"""What the demo says while it is being prepared."""

import io
import random
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from itertools import pairwise

import pytest
from rich.console import Console
from sqlalchemy import select

from tests.conftest import WHOLE
from tracker import stats
from tracker.cli.demo import (
    _LABELLED_BEFORE,
    _LABELLED_LIVE,
    _SEED,
    Waiting,
    _as_people_label,
    follow,
    log_cameras,
)
from tracker.demo import cameras
from tracker.demo.digits import DETECTORS, DemoDetector, load_digits
from tracker.services.detectors import get_detector
from tracker.services.estimates.estimate import get_estimate
from tracker.settings import Settings
from tracker.storage.database import Database
from tracker.storage.images import open_image_store
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query
from tracker.words import UNCLEAR


def test_progress_is_only_shown_to_somebody_who_looks() -> None:
    digits = load_digits()[:3]
    for is_terminal in (False, True):
        said = io.StringIO()
        console = Console(file=said, force_terminal=is_terminal)
        assert list(follow(digits, "Images", console)) == digits
        assert bool(said.getvalue()) == is_terminal


@pytest.mark.slow
def test_the_camera_that_went_dark_is_dated_by_late_labels_out_of_order(
    database: Database, settings: Settings, recompute: Callable[[], None]
) -> None:
    now = datetime(2026, 3, 21, 12, tzinfo=UTC)
    log_cameras(database, open_image_store(settings), created_at=now)
    recompute()
    with database.read() as session:
        detector = get_detector(session, cameras.NAME)
        found = get_estimate(session, detector, computed_at=now)
        rows = session.execute(
            select(Query.asked_at, Label.labelled_at)
            .join(Label, Label.query_id == Query.id)
            .order_by(Label.id)
        ).all()
    dark = (now - timedelta(days=cameras.DAYS - cameras.DARK_FROM_DAY)).date()
    assert found.change is not None
    assert (found.change.state, abs(found.change.since - dark).days <= 1) == (
        "dropped",
        True,
    )
    assert found.change.since_from <= dark <= found.change.since_to
    assert found.decision is not None
    assert found.decision.span.since == found.change.since
    asked, labelled = zip(*rows, strict=True)
    days_late = [(b - a).days for a, b in rows]
    assert sorted(days_late)[len(rows) // 2] >= 3
    earlier = sum(after < before for before, after in pairwise(asked))
    assert earlier > len(rows) // 3
    assert sorted(labelled) == list(labelled)


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
