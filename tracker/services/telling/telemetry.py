"""Estimates as OpenTelemetry evaluation results."""

from collections.abc import Mapping
from typing import Any

from google.protobuf.json_format import MessageToJson
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
)
from sqlalchemy.orm import Session

from tracker.services.estimates.counted import unit_of
from tracker.services.estimates.decision import compare_with_target
from tracker.services.evidence.populations import LIVE
from tracker.storage.base import Key
from tracker.storage.detectors import Detector, find_detector
from tracker.storage.estimates.projections import CALENDAR, load_by_name
from tracker.storage.estimates.snapshots import list_newest_intervals
from tracker.storage.telling import list_unsent
from tracker.words import BALANCED, DECIDING_METHOD

_MOST_VERSIONS = 100
_EVENT = "gen_ai.evaluation.result"


def write_estimates(session: Session) -> tuple[bytes, dict[Key, int]] | None:
    """Return new estimates as an OTLP request, and their snapshots; None if all sent.

    There is an event for each class and one for the balanced accuracy, by each stored
    method.
    """
    unsent = list_unsent(session, limit=_MOST_VERSIONS)
    if not unsent:
        return None
    request = ExportLogsServiceRequest()
    resource = request.resource_logs.add()
    _add(resource.resource.attributes, {"service.name": "tracker"})
    records = resource.scope_logs.add().log_records
    rows = list_newest_intervals(session, versions=unsent)
    owners = {row.detector_id for row in rows}
    ids = [number for _, number in unsent]
    calendars = load_by_name(session, owners, CALENDAR, ids, key="")
    for row in rows:
        detector = find_detector(session, row.detector_id)
        assert detector is not None
        record = records.add()
        record.event_name = _EVENT
        record.time_unix_nano = int(row.computed_at.timestamp() * 1e6) * 1000
        _add(record.attributes, _describe(detector, row, calendars.get(row.version_id)))
    return MessageToJson(request, indent=None).encode(), unsent


def _describe(
    detector: Detector, row: Any, calendar: Mapping[str, Mapping[str, Any]] | None
) -> dict[str, Any]:
    scope = detector.classes[row.position - 1] if row.position else BALANCED
    found = {
        "gen_ai.evaluation.name": "accuracy" if row.position else "balanced accuracy",
        "gen_ai.evaluation.score.value": row.accuracy,
        "tracker.detector": detector.name,
        "tracker.version": row.version,
        "tracker.class": scope,
        "tracker.correct": row.correct,
        "tracker.labelled": row.labelled,
        "tracker.low": row.low,
        "tracker.high": row.high,
        "tracker.confidence_level": row.confidence_level,
        "tracker.method": row.method,
        "tracker.population": row.population,
        "tracker.unit": unit_of(detector),
    }
    target, decides = detector.target, row.method == DECIDING_METHOD
    if row.position or not decides or row.population != LIVE:
        return found
    if calendar and target is not None:
        # The verdict of the current labels in the target's measure, as on the page,
        # not of the row: that is the balanced accuracy of the whole version.
        now = calendar[""]
        verdict = compare_with_target(now["low"], now["high"], target)
        found |= {"gen_ai.evaluation.score.label": verdict, "tracker.target": target}
        found["tracker.measure"] = detector.measure
    return found


def _add(attributes: Any, values: dict[str, Any]) -> None:
    for key, value in values.items():
        if value is None:
            continue
        kind = {str: "string_value", int: "int_value", float: "double_value"}
        setattr(attributes.add(key=key).value, kind[type(value)], value)
