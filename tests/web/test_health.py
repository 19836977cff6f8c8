"""Is it alive, is it ready, and what does Prometheus read?"""

import json
import os
from collections.abc import Callable
from datetime import timedelta

import pytest
from prometheus_client.parser import text_string_to_metric_families
from sqlalchemy import text, update

from tests.conftest import Clock
from tests.databases import downgrade, noted_statements
from tests.web.conftest import Shelf, Visitor
from tests.web.reading import read
from tracker.app import create_app
from tracker.settings import Settings
from tracker.storage.database import Database, open_database
from tracker.storage.detectors import Version


def test_it_is_alive(visitor: Visitor) -> None:
    page = visitor.get("/healthz")
    assert page.status == 200
    assert json.loads(page.html) == {"status": "alive"}


def test_it_is_ready_with_a_worker(
    visitor: Visitor, recompute: Callable[[], None]
) -> None:
    page = visitor.get("/readyz")
    assert page.status == 503
    assert "no worker has ever run" in json.loads(page.html)["checks"]["worker"]
    recompute()
    page = visitor.get("/readyz")
    assert page.status == 200
    assert json.loads(page.html) == {
        "status": "ready",
        "checks": {"database": "ok", "disk": "ok", "schema": "ok", "worker": "ok"},
    }


@pytest.mark.thorough
def test_a_server_that_takes_no_writes_is_not_ready(
    settings: Settings, new_database: Callable[[str], Database]
) -> None:
    database = new_database("postgresql")
    visitor = Visitor(create_app(settings, database))
    name = database.engine.url.database
    change = f"ALTER DATABASE {name} SET default_transaction_read_only"
    try:
        with database.write() as session:
            session.execute(text(f"{change} = on"))
        # What is connected already keeps what it was told.
        database.engine.dispose()
        page = visitor.get("/readyz")
        assert page.status == 503
        assert json.loads(page.html)["checks"]["database"] == "it is read-only"
    finally:
        with database.write() as session:
            session.execute(text("SET TRANSACTION READ WRITE"))
            session.execute(text(f"{change} = off"))
        database.engine.dispose()
    assert json.loads(visitor.get("/readyz").html)["checks"]["database"] == "ok"


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("seconds", "silence", "status"),
    [(5, 29, 200), (5, 31, 503), (60, 170, 200), (60, 190, 503)],
)
def test_a_silent_worker_is_noticed(
    settings: Settings,
    database: Database,
    clock: Clock,
    recompute: Callable[[], None],
    seconds: int,
    silence: int,
    status: int,
) -> None:
    slow = settings.model_copy(update={"recompute_seconds": float(seconds)})
    visitor = Visitor(create_app(slow, database, clock=clock))
    recompute()
    clock.at += timedelta(seconds=silence)
    page = visitor.get("/readyz")
    assert page.status == status
    if status == 503:
        assert f"seen for {silence} seconds" in page.html


def test_an_old_schema_is_not_ready(visitor: Visitor, database: Database) -> None:
    downgrade(database, "-1")
    page = visitor.get("/readyz")
    assert page.status == 503
    assert "run tracker db upgrade" in json.loads(page.html)["checks"]["schema"]


def test_a_schema_that_changes_under_a_running_server_is_a_503_that_says_so(
    visitor: Visitor, database: Database
) -> None:
    assert visitor.get("/").status == 200
    downgrade(database, "base")
    page = visitor.get("/")
    assert page.status == 503
    assert "The database is empty" in page.html


def test_a_folder_of_images_that_is_read_only_is_not_ready(
    visitor: Visitor, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.image_dir.mkdir(parents=True, exist_ok=True)
    allowed = os.access
    monkeypatch.setattr(
        os,
        "access",
        lambda path, mode: path != settings.image_dir and allowed(path, mode),
    )
    page = visitor.get("/readyz")
    assert page.status == 503
    assert json.loads(page.html)["checks"]["disk"] == "it is read-only"


def test_a_database_that_is_away_is_not_ready(settings: Settings, clock: Clock) -> None:
    gone = open_database("postgresql+psycopg://tracker:pa55word@127.0.0.1:1/tracker")
    page = read(create_app(settings, gone, clock=clock).test_client().get("/readyz"))
    assert page.status == 503
    assert json.loads(page.html)["checks"] == {
        "disk": "ok",
        "database": "it does not respond",
    }
    assert "pa55word" not in page.html
    gone.close()


def test_metrics_hold_the_published_check(visitor: Visitor, published: str) -> None:
    answer = visitor.client.get("/metrics")
    assert answer.mimetype == "text/plain"
    samples = {
        (sample.name, sample.labels.get("class")): sample
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }
    assert samples["tracker_low", "balanced"].value == pytest.approx(0.6996, abs=1e-4)
    assert samples["tracker_high", "balanced"].value == pytest.approx(0.9691, abs=1e-4)
    assert samples["tracker_accuracy", "YES"].value == pytest.approx(23 / 28)
    assert samples["tracker_correct", "YES"].value == 23
    assert samples["tracker_labelled", "YES"].value == 28
    assert samples["tracker_low", "NO"].value == pytest.approx(0.8134, abs=1e-4)
    assert samples["tracker_low", "NO"].labels["detector"] == "door"
    assert samples["tracker_low", "NO"].labels["version"] == "v1"
    assert samples["tracker_detectors", None].value == 1
    assert ("process_cpu_seconds_total", None) in samples


def test_metrics_say_what_is_said_of_the_target(
    visitor: Visitor,
    shelf: Shelf,
    recompute: Callable[[], None],
) -> None:
    sure = shelf.add_detector(name="sure", target=0.5)
    shelf.add_detector(name="aimless")
    rows = [{"predicted": c, "label": c} for c in ("YES", "NO") for _ in range(40)]
    shelf.add_queries(sure, [*rows, {"predicted": "YES", "label": "NO"}])
    recompute()
    families = text_string_to_metric_families(visitor.client.get("/metrics").text)
    found = {
        # The labels by their names, in alphabetical order.
        (sample.name, *(one for _, one in sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
        if sample.name.startswith("tracker_")
    }
    assert found["tracker_labels", "sure", "default"] == 81
    assert found["tracker_accuracy_ratio", "NO", "sure", "default"] == 40 / 41
    assert found["tracker_target_ratio", "sure"] == 0.5
    assert ("tracker_target_ratio", "aimless") not in found
    verdicts = [
        found["tracker_verdict", "sure", one, "default"]
        for one in ("met", "missed", "undecided")
    ]
    assert verdicts == [1, 0, 0]
    for method, old in (("exact", "tracker"), ("anytime", "tracker_anytime")):
        for side, name in (("lower", "low"), ("upper", "high")):
            bound = found[
                *("tracker_accuracy_bound_ratio", "balanced", "sure", method),
                *(side, "default"),
            ]
            assert (
                bound == found[f"{old}_{name}", "balanced", "sure", method, "default"]
            )


def test_a_class_without_labels_has_no_accuracy(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector(name='quo"te\\\n'.strip())
    shelf.add_queries(detector_id, [{"predicted": "YES", "label": "YES"}])
    recompute()
    families = text_string_to_metric_families(visitor.client.get("/metrics").text)
    named = {family.name: family.samples for family in families}
    assert [s.labels["class"] for s in named["tracker_accuracy"]] == ["YES"]
    for name in ("tracker_low", "tracker_joint_high", "tracker_anytime_low"):
        assert len(named[name]) == 3
    assert "tracker_joint_accuracy" not in named
    assert named["tracker_low"][0].labels["detector"] == 'quo"te\\'


def test_a_scrape_takes_few_statements(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None], database: Database
) -> None:
    for number in range(5):
        detector_id = shelf.add_detector(name=f"detector {number}")
        shelf.add_queries(detector_id, [{"predicted": "YES", "label": "YES"}] * 2)
    recompute()
    with noted_statements(database) as statements:
        visitor.get("/metrics")
    # Two of them find out who asks, and one reads the proved changes.
    assert len(statements) <= 10


@pytest.mark.slow
def test_a_detector_whose_run_failed_is_counted_and_says_so_on_its_page(
    visitor: Visitor,
    shelf: Shelf,
    published: str,
    database: Database,
    clock: Clock,
    recompute: Callable[[], None],
) -> None:
    def count() -> float:
        families = text_string_to_metric_families(visitor.client.get("/metrics").text)
        named = {family.name: family.samples for family in families}
        return named["tracker_detectors_failing"][0].value

    page = visitor.get(f"/detectors/{published}")
    assert count() == 0
    assert "history is not updating" not in page.html
    row = {"predicted": "YES", "label": "YES", "version": "v1"}
    shelf.add_queries(published, [row])
    set_back_sequence(database, by=1)
    recompute()
    page = visitor.get(f"/detectors/{published}")
    assert count() == 1
    assert "The history is not updating" in page.html
    assert "IntegrityError" in page.html
    set_back_sequence(database, by=-1)
    clock.at += timedelta(seconds=10)
    recompute()
    assert count() == 0
    assert "history is not updating" not in visitor.get(f"/detectors/{published}").html


def set_back_sequence(database: Database, *, by: int) -> None:
    """So that the next snapshot gets a number that there is; a hand could do it."""
    with database.write() as session:
        session.execute(update(Version).values(sequence=Version.sequence - by))


def test_an_archived_detector_leaves_the_metrics(
    visitor: Visitor, published: str
) -> None:
    visitor.send(f"/detectors/{published}/archive", {"sure": "yes"})
    assert 'detector="door"' not in visitor.client.get("/metrics").text
