"""OTLP over HTTP: evaluation results become judgements of queries."""

import base64
import zlib
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from flask import Response, request
from google.protobuf.json_format import MessageToJson, ParseDict, ParseError
from google.protobuf.message import DecodeError
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord
from sqlalchemy.orm import Session

from tracker import http
from tracker.api.routes import BYTES, build_routes
from tracker.errors import InvalidInputError
from tracker.services.fields import load_json, parse_input
from tracker.services.labelling.labelers import NewJudgement, add_judgements

routes = build_routes("otlp", "Evaluation results by OpenTelemetry (OTLP/HTTP).")

EVENT = "gen_ai.evaluation.result"
_JSON, _PROTOBUF = "application/json", "application/x-protobuf"
_MOST_BYTES = 12 * 2**20
_PLAIN = frozenset({"string_value", "bool_value", "int_value", "double_value"})
_FIRST = datetime(1970, 1, 1, tzinfo=UTC)
_EXAMPLE = {
    "timeUnixNano": "1769867100000000000",
    "eventName": EVENT,
    "attributes": [
        {"key": name, "value": {"stringValue": value}}
        for name, value in (
            ("gen_ai.evaluation.name", "door"),
            ("gen_ai.evaluation.score.label", "YES"),
            ("gen_ai.response.id", "frame-1"),
        )
    ],
}
_CONTENT: dict[str, Any] = {
    _JSON: {"schema": {"type": "object"}},
    _PROTOBUF: {"schema": BYTES},
}
_BODY = {
    "required": True,
    "content": {
        **_CONTENT,
        _JSON: {
            **_CONTENT[_JSON],
            "example": {"resourceLogs": [{"scopeLogs": [{"logRecords": [_EXAMPLE]}]}]},
        },
    },
}
_ANSWER: dict[Any, Any] = {
    "200": {
        "description": "Accepted; partialSuccess has the rejected records and why.",
        "content": _CONTENT,
    }
}


@routes.call(
    "POST /otlp/v1/logs",
    "editor",
    _ANSWER,
    *(413, 415, 422),
    openapi_extensions={"requestBody": _BODY},
)
def receive_logs() -> Response:
    """Receive gen_ai.evaluation.result events as judgements of queries.

    A judgement is shown beside the labels and never counts as truth.  Sending it
    again changes nothing.  Records not understood are counted in partialSuccess.
    """
    is_json = request.mimetype == _JSON
    if not is_json and request.mimetype != _PROTOBUF:
        raise http.UnsupportedMediaTypeError(
            f"the body is {request.mimetype or 'of no media type'}; send {_JSON} or "
            f"{_PROTOBUF}"
        )
    found, errors = [], []
    for resource in _parse(_read_body(), is_json=is_json).resource_logs:
        shared = _read_attributes(resource.resource.attributes)
        for record in chain(*(scope.log_records for scope in resource.scope_logs)):
            try:
                found.append(_read_record(record, shared, is_json=is_json))
            except InvalidInputError as error:
                errors.append(str(error))

    def add(session: Session) -> list[str]:
        return [why for _, why in add_judgements(session, found, http.by())]

    errors = [*errors, *(http.database().run(add) if found else ())]
    answer = ExportLogsServiceResponse()
    if errors:
        answer.partial_success.rejected_log_records = len(errors)
        answer.partial_success.error_message = "; ".join(dict.fromkeys(errors))[:2000]
    if is_json:
        return Response(MessageToJson(answer, indent=None), mimetype=_JSON)
    return Response(answer.SerializeToString(), mimetype=_PROTOBUF)


def _read_body() -> bytes:
    raw = request.get_data()
    coding = request.headers.get("Content-Encoding", "identity").lower()
    if coding == "identity":
        return raw
    if coding != "gzip":
        raise http.UnsupportedMediaTypeError(
            f"the body is encoded as {coding[:40]}; send gzip, or no encoding"
        )
    try:
        unpacked = zlib.decompressobj(wbits=31)
        content = unpacked.decompress(raw, _MOST_BYTES)
    except zlib.error as error:
        raise http.BadRequestError(f"the body is not gzip: {error}") from error
    if unpacked.unconsumed_tail:
        raise http.BadRequestError(f"the unpacked body may have {_MOST_BYTES:,} bytes")
    return content


def _parse(content: bytes, *, is_json: bool) -> ExportLogsServiceRequest:
    found = ExportLogsServiceRequest()
    try:
        if is_json:
            sent = load_json(content)
            if not isinstance(sent, dict):
                raise ValueError("it must be an object")
            # Newer senders may send more fields, which are ignored.
            ParseDict(sent, found, ignore_unknown_fields=True)
        else:
            found.ParseFromString(content)
    except (ParseError, DecodeError, ValueError, RecursionError) as error:
        raise http.BadRequestError(
            f"the body is not OTLP: {str(error)[:200]}"
        ) from error
    return found


def _read_record(
    record: LogRecord, shared: Mapping[str, Any], *, is_json: bool
) -> NewJudgement:
    given = {**shared, **_read_attributes(record.attributes)}
    name = record.event_name or given.get("event.name")
    if name != EVENT:
        raise InvalidInputError.of("event_name", f"only {EVENT} is stored")
    evaluation = given.get("gen_ai.evaluation.name")
    judged = given.get("gen_ai.evaluation.score.label")
    detector, predicted = given.get("tracker.detector"), given.get("tracker.predicted")
    if detector is None and predicted is None:
        # The evaluation itself is measured: its result is the prediction.
        predicted = judged
    nanoseconds = record.time_unix_nano or record.observed_time_unix_nano
    score = given.get("gen_ai.evaluation.score.value")
    explanation = given.get("gen_ai.evaluation.explanation")
    values = {
        "detector": detector or evaluation,
        "key": given.get("tracker.key")
        or given.get("gen_ai.response.id")
        or _span_of(record, is_json=is_json),
        "judge": given.get("tracker.judge") or evaluation,
        "kind": given.get("tracker.judge.kind"),
        "verdict": judged,
        "score": float(score) if isinstance(score, int) else score,
        "explanation": explanation[:2000]
        if isinstance(explanation, str)
        else explanation,
        "judged_at": _FIRST + timedelta(microseconds=nanoseconds // 1000)
        if nanoseconds
        else None,
        "predicted": predicted,
        "version": given.get("tracker.version"),
    }
    return parse_input(
        NewJudgement, {key: value for key, value in values.items() if value is not None}
    )


def _span_of(record: LogRecord, *, is_json: bool) -> str | None:
    """Return the trace and span ids of the judged call, in hexadecimal."""
    if not (record.trace_id and record.span_id):
        return None
    # OTLP's JSON has them in hexadecimal, which ParseDict reads as Base64.
    parts = (record.trace_id, record.span_id)
    written = [
        base64.b64encode(part).decode().lower() if is_json else part.hex()
        for part in parts
    ]
    return "-".join(written)


def _read_attributes(attributes: Iterable[KeyValue]) -> dict[str, Any]:
    kinds = {one.key: (one.value, one.value.WhichOneof("value")) for one in attributes}
    return {
        key: getattr(value, kind) if kind in _PLAIN else None
        for key, (value, kind) in kinds.items()
    }
