"""The metrics of many detectors take few statements, and are well formed."""

from collections.abc import Callable

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.conftest import IS_LONG, START, by
from tests.databases import noted_statements
from tests.web.conftest import Shelf, Visitor
from tracker.jobs.recompute import recompute_all
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.queries.queries import NewQuery, log_query
from tracker.storage.database import Database

DETECTORS = 1_000 if IS_LONG else 100


def add_detectors(database: Database, first: int, last: int) -> None:
    with database.write() as session:
        for number in range(first, last):
            new = NewDetector(
                name=f"door {number}",
                question="?",
                target=0.5,
                label_sampling="random",
            )
            detector = create_detector(session, new, by(at=START))
            query = NewQuery(predicted="YES", label="YES")
            log_query(session, detector, query, by(at=START))


@pytest.mark.slow
@pytest.mark.longer
def test_many_detectors_take_as_many_statements_as_one(
    visitor: Visitor, database: Database, clock
) -> None:
    counts = []
    for first, last in ((0, 1), (1, DETECTORS)):
        add_detectors(database, first, last)
        recompute_all(database, worker="w", clock=clock)
        with noted_statements(database) as statements:
            page = visitor.client.get("/metrics")
        counts.append(len(statements))
        assert page.text.count("tracker_verdict{") == 3 * last
    assert counts[1] <= counts[0] < 20


def test_a_target_without_a_label_is_undecided(visitor: Visitor, shelf: Shelf) -> None:
    shelf.add_detector(name="new", target=0.9)
    shelf.add_detector(name="free")
    text = visitor.client.get("/metrics").text
    for verdict, value in (("met", 0.0), ("missed", 0.0), ("undecided", 1.0)):
        sample = f'tracker_verdict{{detector="new",verdict="{verdict}"}} {value}\n'
        assert sample in text
    assert 'tracker_labels{detector="new"} 0.0\n' in text
    assert 'detector="free"' not in text


def test_names_of_any_kind_come_back_as_they_are(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    hostile = 'a"b\\n,c="d"}1\u00e9'
    classes = [hostile, "NO"]
    detector_id = shelf.add_detector(name=hostile, classes=classes, target=0.5)
    row = {"predicted": hostile, "label": hostile, "version": hostile}
    shelf.add_queries(detector_id, [row])
    recompute()
    text = visitor.client.get("/metrics").text
    families = {one.name: one for one in text_string_to_metric_families(text)}
    # Each has its samples beside its head, and a head once.
    assert text.count("# TYPE") == len(families)
    names = {"detector": hostile, "version": hostile}
    scopes = {hostile, "NO", "balanced"}
    bounds = families["tracker_accuracy_bound_ratio"].samples
    assert len(bounds) == 2 * 3 * len(scopes)
    for sample in (*bounds, *families["tracker_low"].samples):
        assert sample.labels["class"] in scopes
        assert sample.labels.items() >= names.items()
    said = {
        one.labels["verdict"]: one.value for one in families["tracker_verdict"].samples
    }
    assert said == {"met": 0, "missed": 0, "undecided": 1}
