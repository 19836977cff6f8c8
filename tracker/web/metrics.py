"""The estimates as Prometheus reads them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, get_args

from flask import Response
from flask.typing import ResponseReturnValue
from prometheus_client import (
    CONTENT_TYPE_LATEST,
    GC_COLLECTOR,
    PLATFORM_COLLECTOR,
    PROCESS_COLLECTOR,
    CollectorRegistry,
    Gauge,
    generate_latest,
)

from tracker.http import account, database, now
from tracker.services.estimates.calendar import Terms
from tracker.services.estimates.counted import unit_of
from tracker.services.estimates.decision import compare_with_target
from tracker.services.evidence.populations import LIVE
from tracker.storage.detectors import Detector, list_detectors
from tracker.storage.estimates.job_runs import find_last_heartbeat
from tracker.storage.estimates.pending import list_pending_detectors
from tracker.storage.estimates.projections import CALENDAR, load_by_name
from tracker.storage.estimates.snapshots import list_newest_intervals
from tracker.storage.imports import count_waiting
from tracker.storage.tasks import RECOMPUTE, count_failing
from tracker.web.blueprint import page
from tracker.words import (
    BALANCED,
    CHANGE_EVENTS,
    DECIDING_METHOD,
    EXACT,
    STORED_METHODS,
    Verdict,
)

_GAUGES = {
    "accuracy": "Estimated accuracy of a class, or the balanced accuracy",
    "labelled": "Scored labels of a class",
    "correct": "Scored labels of a class that the detector had predicted",
}
# The default method has the plain names, so that a rule without a method in it
# means one series; the bounds of the others have names of their own.
_DEFAULT = EXACT
_SIDES = {"low": "lower", "high": "upper"}
# The metrics with units in their names, and the targets to compare with.
_RATIOS = {
    "accuracy_ratio": "Estimated accuracy of a class, or the balanced accuracy",
    "accuracy_bound_ratio": "Bound of the interval of the accuracy",
    "labels": "Scored labels of a version",
    "target_ratio": "Target of a detector, for its measure",
    "verdict": "1 for what is said of the target, at any look, 0 for what is not",
    "change": "1 if the last proved change of the accuracy was this one, 0 if not",
    "basis_info": "Whose labels count, what counts once, and what the target is on",
    "accuracy_since_seconds": "Unix time of the day since which the verdict counts",
    "change_told_seconds": "Unix time at which the last proved change was told",
    "decision_bound_ratio": "Bound of the interval that decides, of the measure",
}


@page("GET /metrics", "viewer")
def show_metrics() -> ResponseReturnValue:
    """Give the newest estimate of every version to Prometheus."""
    registry = CollectorRegistry(auto_describe=False)
    for collector in (PROCESS_COLLECTOR, PLATFORM_COLLECTOR, GC_COLLECTOR):
        registry.register(collector)
    # Nothing is computed or counted: the newest snapshots are read at each scrape.
    with database().read() as session:
        found = list_detectors(session, among=account().detectors)
        rows = list_newest_intervals(session)
        calendars = load_by_name(session, [one.id for one in found], CALENDAR, key="")
        service: dict[str, tuple[str, float]] = {
            "tracker_detectors": ("Detectors", len(found)),
            "tracker_detectors_waiting": (
                "Detectors with labels to fold in",
                len(list_pending_detectors(session)),
            ),
            "tracker_detectors_failing": (
                "Detectors whose last run failed, and which are left alone for a while",
                count_failing(session, RECOMPUTE),
            ),
            "tracker_imports_waiting": (
                "Background imports that have not ended yet",
                count_waiting(session),
            ),
        }
        seen_at = find_last_heartbeat(session)
    if seen_at is not None:
        service["tracker_worker_silence_seconds"] = (
            "Seconds since a worker was seen",
            max(0.0, (now() - seen_at).total_seconds()),
        )
    for name, (text, value) in service.items():
        Gauge(name, text, registry=registry).set(value)
    estimates = write_estimates({one.id: one for one in found}, rows, calendars)
    return Response(
        generate_latest(registry) + estimates.encode(), content_type=CONTENT_TYPE_LATEST
    )


@dataclass(slots=True)
class _Gauge:
    """A metric with a sample for each row, as text.

    The client library would write a label at a time, which of ten thousand rows takes
    longer than all else.
    """

    name: str
    text: str
    samples: list[str] = field(default_factory=list)

    def add(self, labels: str, value: float) -> None:
        self.samples.append(f"{self.name}{{{labels}}} {float(value)}\n")

    def write(self) -> str:
        head = f"# HELP {self.name} {self.text}\n# TYPE {self.name} gauge\n"
        return head + "".join(self.samples)


def write_estimates(
    detectors: Mapping[int, Detector],
    rows: Iterable[Any],
    calendars: Mapping[int, Mapping[str, Mapping[str, Any]]],
) -> str:
    """Return the estimates of these detectors, and their targets to compare with.

    *rows* are those of `list_newest_intervals`; others than of *detectors* are left
    out.  *calendars* are what is kept of each version.
    """
    texts = {
        _name_gauge(method, name): f"{side.capitalize()} bound of the interval of the "
        f"accuracy, method {method}"
        for method in STORED_METHODS
        for name, side in _SIDES.items()
    }
    texts = _GAUGES | texts | _RATIOS
    gauges = {name: _Gauge(f"tracker_{name}", text) for name, text in texts.items()}
    owners = {one.id: _Owner(one) for one in detectors.values()}
    for owner in owners.values():
        if owner.target is not None:
            gauges["target_ratio"].add(owner.label, owner.target)
    unknown = {id_: one for id_, one in owners.items() if one.target is not None}
    for row in rows:
        if row.detector_id in owners:
            calendar = calendars.get(row.version_id, {}).get("")
            _add_row(gauges, owners[row.detector_id], row, calendar)
            unknown.pop(row.detector_id, None)
    for owner in unknown.values():
        # Without a label there is no version to name either.
        gauges["labels"].add(owner.label, 0)
        _add_verdict(gauges["verdict"], owner, "undecided")
    return "".join(one.write() for one in gauges.values())


def _name_gauge(method: str, name: str) -> str:
    return name if method == _DEFAULT else f"{method}_{name}"


class _Owner:
    """A detector as the labels of its samples, written once for all of them."""

    def __init__(self, detector: Detector) -> None:
        self.label = f'detector="{_escape(detector.name)}"'
        # That of the balanced accuracy first, as a row's position has it.
        names = (BALANCED, *map(_escape, detector.classes))
        self.scopes = [f'class="{one}",{self.label}' for one in names]
        self.target, self.zone = detector.target, detector.zone
        self.terms = Terms.of(detector).basis
        # What the target is on, and what counts once.
        measure = _escape(detector.measure)
        self.basis = f'measure="{measure}",unit="{unit_of(detector)}"'


def _add_row(
    gauges: Mapping[str, _Gauge],
    owner: _Owner,
    row: Any,
    calendar: Mapping[str, Any] | None,
) -> None:
    # Each is looked up in the row once: there are thousands of rows.
    method, position, accuracy = row.method, row.position, row.accuracy
    version = f'version="{_escape(row.version)}"'
    scope = f'{owner.scopes[position]},method="{method}"'
    bounds = zip(_SIDES.items(), (row.low, row.high), strict=True)
    for (name, side), bound in bounds:
        gauges[_name_gauge(method, name)].add(f"{scope},{version}", bound)
        gauges["accuracy_bound_ratio"].add(f'{scope},side="{side}",{version}', bound)
    if method == _DEFAULT:
        labels = f"{scope},{version}"
        gauges["labelled"].add(labels, row.labelled)
        gauges["correct"].add(labels, row.correct)
        if accuracy is not None:
            gauges["accuracy"].add(labels, accuracy)
            labels = f"{owner.scopes[position]},{version}"
            gauges["accuracy_ratio"].add(labels, accuracy)
    if method == DECIDING_METHOD and not position:
        labels = f"{owner.label},{version}"
        gauges["labels"].add(labels, row.labels)
        basis = f'{owner.label},{owner.basis},population="{row.population}",{version}'
        gauges["basis_info"].add(basis, 1)
        # By other settings it says nothing until the fold has found it again.
        is_found = calendar is not None and calendar["basis"] == owner.terms
        if calendar is not None and is_found and row.population == LIVE:
            _add_now(gauges, owner, version, calendar)


def _add_now(
    gauges: Mapping[str, _Gauge],
    owner: _Owner,
    version: str,
    calendar: Mapping[str, Any],
) -> None:
    change, labels = calendar["change"], f"{owner.label},{version}"
    for state in CHANGE_EVENTS:
        is_last = change is not None and change["state"] == state
        gauges["change"].add(f'{labels},state="{state}"', is_last)
    if change is not None:
        if change["before"]["labels"]:
            day = datetime.fromisoformat(change["since"]).replace(tzinfo=owner.zone)
            gauges["accuracy_since_seconds"].add(labels, day.timestamp())
        told_at = datetime.fromisoformat(change["at"])
        gauges["change_told_seconds"].add(labels, told_at.timestamp())
    for name, side in _SIDES.items():
        gauges["decision_bound_ratio"].add(f'{labels},side="{side}"', calendar[name])
    if owner.target is not None:
        said = compare_with_target(calendar["low"], calendar["high"], owner.target)
        _add_verdict(gauges["verdict"], owner, said, f",{version}")


def _add_verdict(
    gauge: _Gauge, owner: _Owner, said: Verdict, version: str = ""
) -> None:
    for one in get_args(Verdict):
        gauge.add(f'{owner.label},verdict="{one}"{version}', one == said)


def _escape(text: str) -> str:
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')
