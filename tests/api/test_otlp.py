"""Evaluation results by OTLP: judgements beside the labels, never the truth."""

import gzip
import json
from typing import Any

import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)

from tests.api.problems import assert_problem
from tests.conftest import START, by
from tests.processes import fetch, serving
from tracker.services.detectors import NewDetector, create_detector, get_detector
from tracker.services.people.keys import create_key
from tracker.services.queries.queries import NewQuery, log_query
from tracker.stats import clopper_pearson

EVENT = "gen_ai.evaluation.result"
NANOSECONDS = str(int(START.timestamp()) * 10**9)


def attributes(values: dict[str, Any]) -> list[dict[str, Any]]:
    kinds = {str: "stringValue", float: "doubleValue", int: "intValue"}
    return [{"key": k, "value": {kinds[type(v)]: v}} for k, v in values.items()]


def record(said: str, key: str | None, **more: Any) -> dict[str, Any]:
    given = {
        "gen_ai.evaluation.name": "door",
        "gen_ai.evaluation.score.label": said,
        "gen_ai.evaluation.score.value": 0.5,
        "tracker.judge": "llm",
        **({} if key is None else {"gen_ai.response.id": key}),
        **{name.replace("__", "."): value for name, value in more.items()},
    }
    found = {"timeUnixNano": NANOSECONDS, "eventName": EVENT}
    return {**found, "attributes": attributes(given)}


def body(*records: dict[str, Any]) -> dict[str, Any]:
    return {"resourceLogs": [{"scopeLogs": [{"logRecords": list(records)}]}]}


@pytest.fixture
def send(api):
    def post(*records, status=200):
        answer = api.post("/otlp/v1/logs", body(*records), role="editor")
        assert answer.status_code == status, answer.text
        return answer.json

    return post


@pytest.fixture
def labelled(api, door):
    """Ten queries: six YES and four NO, all predicted YES."""
    for number in range(10):
        label = "YES" if number < 6 else "NO"
        query = {"key": f"r{number}", "predicted": "YES", "label": label}
        api.post("/detectors/door/queries", query)


def test_a_judge_stands_beside_the_labels_with_exact_intervals(api, labelled, send):
    before = api.get("/detectors/door/estimate").json
    said = ["YES"] * 5 + ["NO"] + ["NO"] * 3 + ["YES"]
    assert send(*(record(one, f"r{n}") for n, one in enumerate(said))) == {}
    report = api.get("/detectors/door/judges").json
    (judge,) = report["items"]
    assert (judge["name"], judge["kind"]) == ("llm", "model")
    assert (judge["judgements"], judge["labelled"]) == (10, 10)
    yes, no = judge["classes"]
    for one, k, n in (
        (yes["sensitivity"], 5, 6),
        (yes["specificity"], 3, 4),
        (no["sensitivity"], 3, 4),
        (no["specificity"], 5, 6),
    ):
        assert (one["correct"], one["labelled"], one["accuracy"]) == (k, n, k / n)
        assert (one["low"], one["high"]) == tuple(
            map(float, clopper_pearson(k, n, 0.95))
        )
    after = api.get("/detectors/door/estimate").json
    # It is never scored as truth.
    assert after == {**before, "computed_at": after["computed_at"]}
    (query,) = api.get("/detectors/door/queries?key=r0").json["items"]
    (judged,) = api.get(f"/queries/{query['id']}/judgements").json["items"]
    assert (judged["judge"], judged["verdict"], judged["score"]) == ("llm", "YES", 0.5)


def test_sent_again_it_changes_nothing_and_a_later_word_replaces(
    api, labelled, send, tables
):
    send(record("YES", "r0"))
    before = tables()["judgements"]
    send(record("YES", "r0"))
    assert len(tables()["judgements"]) == len(before) == 1
    later = record("NO", "r0") | {"timeUnixNano": str(int(NANOSECONDS) + 10**9)}
    send(later)
    send(record("YES", "r0"))
    (row,) = tables()["judgements"]
    assert "'NO'" in row


def test_the_same_body_again_leaves_every_table_as_it_is(api, labelled, tables):
    undated = {k: v for k, v in record("NO", "r1").items() if k != "timeUnixNano"}
    brought = {"tracker__detector": "door", "tracker__predicted": "NO"}
    sent = body(
        record("YES", "r0", gen_ai__evaluation__explanation="it looks shut"),
        # Of two at one instant the first stays, however often both come.
        record("NO", "r0"),
        undated,
        record("YES", "brought", **brought),
        record("MAYBE", "r2"),
    )
    packed = Parse(json.dumps(sent), ExportLogsServiceRequest()).SerializeToString()
    before = None
    # The call takes no key for a request, and needs none.
    for headers in ({}, {"Idempotency-Key": "a"}, {"Idempotency-Key": "a"}):
        for content, kind in (
            (json.dumps(sent), "application/json"),
            (packed, "application/x-protobuf"),
        ):
            answer = api.post(
                "/otlp/v1/logs",
                data=content,
                content_type=kind,
                headers=headers,
                role="editor",
            )
            assert answer.status_code == 200
            before = before or tables()
            assert tables() == before
    assert len(before["judgements"]) == 3
    assert "it looks shut" in str(before["judgements"])
    changed = record("YES", "r1")
    del changed["timeUnixNano"]
    api.post("/otlp/v1/logs", body(changed), role="editor")
    # Undated, another word is the later one.
    assert tables()["judgements"] != before["judgements"]


def test_kinds_judges_and_unlabelled_queries_are_kept_apart(api, labelled, send):
    api.post("/detectors/door/queries", {"key": "open", "predicted": "YES"})
    targeted = {"key": "picked", "predicted": "YES", "label": "NO"}
    api.post("/detectors/door/queries", {**targeted, "sampling": "targeted"})
    send(
        record("YES", "r0"),
        record("YES", "open"),
        record("YES", "picked"),
        record("NO", "r0", tracker__judge="rule", tracker__judge__kind="code"),
    )
    llm, rule = api.get("/detectors/door/judges").json["items"]
    assert (llm["judgements"], llm["labelled"]) == (3, 1)
    assert (rule["name"], rule["kind"], rule["labelled"]) == ("rule", "code", 1)
    assert rule["classes"][1]["sensitivity"]["accuracy"] is None


def test_an_input_that_came_twice_counts_once(api, door, send):
    for key in ("a", "b"):
        query = {"key": key, "input": "x", "predicted": "YES", "label": "YES"}
        api.post("/detectors/door/queries", query)
        send(record("YES", key))
    (judge,) = api.get("/detectors/door/judges").json["items"]
    assert judge["judgements"] == 1


def test_an_event_can_bring_its_query(api, door, send):
    send(record("YES", "new", tracker__detector="door", tracker__predicted="NO"))
    found = api.get("/detectors/door/queries?key=new").json["items"]
    assert [one["predicted"] for one in found] == ["NO"]
    assert found[0]["label"] is None
    # A plain event, as the conventions have it: what is measured is the judge.
    send(record("NO", "plain"))
    (plain,) = api.get("/detectors/door/queries?key=plain").json["items"]
    assert plain["predicted"] == "NO"
    missing = send(record("NO", "none", tracker__detector="door"))["partialSuccess"]
    assert missing["rejectedLogRecords"] == "1"
    assert "log it first" in missing["errorMessage"]


def test_a_span_names_the_query_alike_in_both_encodings(api, door):
    one = record("YES", None)
    one |= {"traceId": "5B8EFFF798038103D269B633813FC60C", "spanId": "EEE19B7EC3C1B174"}
    assert api.post("/otlp/v1/logs", body(one)).json == {}
    sent = ExportLogsServiceRequest()
    made = sent.resource_logs.add().scope_logs.add().log_records.add()
    made.event_name, made.time_unix_nano = EVENT, int(NANOSECONDS)
    made.trace_id = bytes.fromhex("5B8EFFF798038103D269B633813FC60C")
    made.span_id = bytes.fromhex("EEE19B7EC3C1B174")
    for name in ("gen_ai.evaluation.name", "gen_ai.evaluation.score.label"):
        value = made.attributes.add(key=name).value
        value.string_value = "door" if name.endswith("name") else "YES"
    for content, coding in (
        (sent.SerializeToString(), None),
        (gzip.compress(sent.SerializeToString()), "gzip"),
    ):
        headers = {} if coding is None else {"Content-Encoding": coding}
        answer = api.call(
            "POST",
            "/otlp/v1/logs",
            data=content,
            content_type="application/x-protobuf",
            headers=headers,
        )
        assert answer.status_code == 200
        assert answer.mimetype == "application/x-protobuf"
        said = ExportLogsServiceResponse.FromString(answer.data)
        assert said.partial_success.rejected_log_records == 0
    key = "5b8efff798038103d269b633813fc60c-eee19b7ec3c1b174"
    assert api.get(f"/detectors/door/queries?key={key}").json["total"] == 1


def test_what_is_wrong_is_counted_and_the_rest_is_kept(api, labelled, send):
    said = send(
        record("YES", "r0"),
        record("MAYBE", "r1"),
        record("YES", None),
        record("YES", "r2", tracker__judge__kind="oracle"),
        {
            "timeUnixNano": NANOSECONDS,
            "eventName": "other",
            "body": {"stringValue": "x"},
        },
        record("YES", "r3", tracker__detector="nothing"),
    )["partialSuccess"]
    assert said["rejectedLogRecords"] == "5"
    for words in ("'MAYBE'", "key: is required", "kind", EVENT, "'nothing'"):
        assert words in said["errorMessage"]
    (judge,) = api.get("/detectors/door/judges").json["items"]
    assert judge["judgements"] == 1


def test_a_key_cannot_judge_what_it_does_not_see(api, app, database, labelled, send):
    with database.write() as session:
        create_detector(session, NewDetector(name="vault", question="?"), by())
        key = create_key(session, "vault-key", "editor", by(), detectors=["vault"])
    answer = app.test_client().post(
        "/api/v1/otlp/v1/logs",
        json=body(record("YES", "r0")),
        headers={"Authorization": f"Bearer {key}"},
    )
    unknown = send(record("YES", "r0", tracker__detector="nothing"))
    hidden = answer.json["partialSuccess"]["errorMessage"]
    assert hidden == unknown["partialSuccess"]["errorMessage"].replace(
        "nothing", "door"
    )


@pytest.mark.parametrize(
    ("content", "kind", "coding", "status"),
    [
        (b"{", "application/json", None, 400),
        (b'{"resourceLogs": 1}', "application/json", None, 400),
        (b'"text"', "application/json", None, 400),
        (b"\xff\xff", "application/x-protobuf", None, 400),
        (b"{}", "text/plain", None, 415),
        (b"{}", "application/json", "br", 415),
        (b"{}", "application/json", "gzip", 400),
        (gzip.compress(b"0" * 13 * 2**20), "application/json", "gzip", 400),
    ],
)
def test_what_is_not_otlp_is_refused(api, content, kind, coding, status):
    headers = {} if coding is None else {"Content-Encoding": coding}
    answer = api.call(
        "POST", "/otlp/v1/logs", data=content, content_type=kind, headers=headers
    )
    assert_problem(answer, status)


def test_pages_show_judgements_beside_the_labels(app, labelled, send, database):
    from tests.web.conftest import Visitor

    hostile = "<script>alert(1)</script>"
    send(record("NO", "r0", gen_ai__evaluation__explanation=hostile))
    visitor = Visitor(app)
    page = visitor.get("/detectors/door/judges")
    assert "llm" in page.text
    assert "0 of 1" in page.text
    with database.read() as session:
        from tracker.storage.queries.queries import find_query_by_key

        query = find_query_by_key(session, get_detector(session, "door").id, "r0")
    shown = visitor.get(f"/queries/iq_{query.id}")
    assert "It is no label and is never scored" in shown.text
    assert hostile not in shown.html


@pytest.mark.slow
@pytest.mark.chaos_on("postgresql")
def test_the_sdk_of_opentelemetry_sends_to_a_running_server(
    database_url, database, tmp_path
):
    from opentelemetry._logs import LogRecord, SeverityNumber
    from opentelemetry.exporter.otlp.proto.http import Compression
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import SimpleLogRecordProcessor

    with database.write() as session:
        door = create_detector(session, NewDetector(name="door", question="?"), by())
        log_query(session, door, NewQuery(key="r0", predicted="YES", label="YES"), by())
        key = create_key(session, "otel", "editor", by())
    with serving(
        TRACKER_DATABASE_URL=database_url, TRACKER_DATA_DIR=str(tmp_path)
    ) as url:
        exporter = OTLPLogExporter(
            f"{url}/api/v1/otlp/v1/logs",
            headers={"Authorization": f"Bearer {key}"},
            compression=Compression.Gzip,
        )
        provider = LoggerProvider(shutdown_on_exit=False)
        provider.add_log_record_processor(SimpleLogRecordProcessor(exporter))
        logger = provider.get_logger("judge")
        logger.emit(
            LogRecord(
                timestamp=int(NANOSECONDS),
                severity_number=SeverityNumber.INFO,
                event_name=EVENT,
                attributes={
                    "gen_ai.evaluation.name": "door",
                    "gen_ai.evaluation.score.label": "NO",
                    "gen_ai.evaluation.score.value": 0.2,
                    "gen_ai.response.id": "r0",
                },
            )
        )
        provider.shutdown()
        answer = fetch(
            f"{url}/api/v1/detectors/door/judges",
            headers={"Authorization": f"Bearer {key}"},
        )
    (judge,) = json.loads(answer)["items"]
    assert (judge["name"], judge["labelled"]) == ("door", 1)
    assert judge["classes"][0]["sensitivity"]["correct"] == 0


def test_a_verdict_that_is_no_class_logs_no_query(api, door, send):
    brought = {"tracker__detector": "door", "tracker__predicted": "YES"}
    refused = send(record("MAYBE", "new", **brought))["partialSuccess"]
    assert refused["rejectedLogRecords"] == "1"
    assert api.get("/detectors/door/queries?key=new").json["items"] == []
