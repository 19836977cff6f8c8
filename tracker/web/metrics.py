"""The estimates as Prometheus reads them."""

from collections.abc import Iterator
from typing import Any

from flask import Response
from flask.typing import ResponseReturnValue
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    generate_latest,
)
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tracker.http import account, database, now, requires
from tracker.services.access import Actor
from tracker.services.estimates import STORED_METHODS
from tracker.services.fields import BALANCED
from tracker.storage.database import Database
from tracker.storage.detectors import list_detectors
from tracker.storage.imports import count_waiting
from tracker.storage.job_runs import find_last_heartbeat
from tracker.storage.leases import count_failing
from tracker.storage.pending import list_pending_detectors
from tracker.storage.snapshots import list_newest_intervals
from tracker.web.blueprint import pages

_LABELS = ("detector", "version", "class", "method")
_GAUGES = {
    "accuracy": "Estimated accuracy of a class, or the balanced accuracy",
    "low": "Lower bound of the interval of the accuracy",
    "high": "Upper bound of the interval of the accuracy",
    "labelled": "Scored labels of a class",
    "correct": "Scored labels of a class that the detector had predicted",
}
# The default method has the plain names, so that a rule without a method in it
# means one series; the bounds of the others have names of their own.
_DEFAULT = "exact"
_BOUNDS = ("low", "high")


@pages.get("/metrics")
@requires("viewer")
def show_metrics() -> ResponseReturnValue:
    """Give the newest estimate of every version to Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
        registry.register(collector)
    registry.register(EstimateCollector(database(), now().timestamp(), account()))
    return Response(generate_latest(registry), content_type=CONTENT_TYPE_LATEST)


class EstimateCollector(Collector):
    """Reads the newest snapshots at each scrape; nothing is computed or counted."""

    def __init__(self, opened: Database, instant: float, actor: Actor) -> None:
        """Read from *opened*, at *instant*, what *actor* may see."""
        self._database = opened
        self._actor = actor
        self._instant = instant

    def collect(self) -> Iterator[GaugeMetricFamily]:
        """Yield a gauge for each number of an estimate."""
        with self._database.read() as session:
            found = list_detectors(session, among=self._actor.detectors)
            detectors = {detector.id: detector for detector in found}
            rows = list_newest_intervals(session)
            waiting = len(list_pending_detectors(session))
            failing = count_failing(session)
            imports = count_waiting(session)
            seen_at = find_last_heartbeat(session)
        yield from _estimates(detectors, rows)
        yield GaugeMetricFamily("tracker_detectors", "Detectors", value=len(detectors))
        yield GaugeMetricFamily(
            "tracker_detectors_waiting",
            "Detectors with labels to fold in",
            value=waiting,
        )
        yield GaugeMetricFamily(
            "tracker_detectors_failing",
            "Detectors whose last run failed, and which are left alone for a while",
            value=failing,
        )
        yield GaugeMetricFamily(
            "tracker_imports_waiting",
            "Imports left to a worker that have not ended yet",
            value=imports,
        )
        if seen_at is not None:
            yield GaugeMetricFamily(
                "tracker_worker_silence_seconds",
                "Seconds since a worker was seen",
                value=max(0.0, self._instant - seen_at.timestamp()),
            )


def _estimates(detectors: dict[int, Any], rows: Any) -> Iterator[GaugeMetricFamily]:
    gauges = {
        (method, name): GaugeMetricFamily(
            f"tracker_{name}" if method == _DEFAULT else f"tracker_{method}_{name}",
            f"{text}, method {method}" if name in _BOUNDS else text,
            labels=_LABELS,
        )
        for method in STORED_METHODS
        for name, text in _GAUGES.items()
        if method == _DEFAULT or name in _BOUNDS
    }
    for row in rows:
        detector = detectors.get(row.detector_id)
        if detector is None:
            continue
        scope = detector.classes[row.position - 1] if row.position else BALANCED
        labels = (detector.name, row.version, scope, row.method)
        for name in _GAUGES:
            gauge, value = gauges.get((row.method, name)), getattr(row, name)
            if gauge is not None and value is not None:
                gauge.add_metric(labels, value)
    yield from gauges.values()
