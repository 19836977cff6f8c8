"""The OpenAPI document and its page."""

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from tracker.api.openapi import EXAMPLES, build_document, dump_document
from tracker.http import PUBLIC, required_role

ROOT = Path(__file__).parents[2]
METHODS = {"get", "post", "patch", "delete", "put"}


@pytest.fixture
def document(app):
    return build_document(app)


def list_operations(document):
    for path, calls in document["paths"].items():
        for method, call in calls.items():
            assert method in METHODS
            yield method, path, call


def test_the_document_in_the_repository_is_fresh(app):
    written = (ROOT / "docs" / "openapi.json").read_text()
    assert written == dump_document(app), "run: make openapi"


@pytest.mark.parametrize("suffix", ["json", "csv", "jsonl", "parquet"])
def test_each_format_of_the_history_is_documented(api, door, document, suffix):
    got = api.get(f"/detectors/door/history?format={suffix}")
    call = document["paths"]["/api/v1/detectors/{id}/history"]["get"]
    assert got.mimetype in call["responses"]["200"]["content"]


@pytest.mark.slow
def test_the_command_prints_the_document():
    command = [sys.executable, "-W", "error", "-m", "tracker.api"]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, check=True)
    assert run.stdout.decode() == (ROOT / "docs" / "openapi.json").read_text()


def test_the_server_gives_the_document_to_everybody(api, document):
    got = api.get("/openapi.json", role=None)
    assert got.status_code == 200
    assert got.json == document
    assert document["openapi"].startswith("3.1")


def test_the_document_is_built_once_and_sent_if_it_is_new(
    app, api, document, monkeypatch
):
    path = "/openapi.json"
    etag = api.get(path, role=None).headers["ETag"]
    monkeypatch.delattr("tracker.api.openapi.build_document")
    accepting = {"Accept-Encoding": "gzip"}
    small = app.test_client().get(f"/api/v1{path}", headers=accepting)
    assert json.loads(gzip.decompress(small.data)) == document
    assert len(small.data) < 150_000
    known = {"If-None-Match": etag}
    assert api.get(path, role=None, headers=known).status_code == 304


def test_every_reference_points_at_something(document):
    schemas = document["components"]["schemas"]
    seen = set()

    def walk(part):
        if isinstance(part, dict):
            if "$ref" in part:
                head, _, name = part["$ref"].rpartition("/")
                assert head == "#/components/schemas"
                assert name in schemas
                seen.add(name)
            for value in part.values():
                walk(value)
        elif isinstance(part, list):
            for value in part:
                walk(value)

    walk(document)
    assert seen == set(schemas)


def test_every_call_of_the_api_is_documented(app, document):
    documented = {
        (method.upper(), path) for method, path, _ in list_operations(document)
    }
    for rule in app.url_map.iter_rules():
        if rule.rule.startswith("/api/v1/") and "file" not in rule.arguments:
            named = rule.build({name: f"{{{name}}}" for name in rule.arguments})[1]
            path = named.replace("%7B", "{").replace("%7D", "}")
            for method in rule.methods - {"HEAD", "OPTIONS"}:
                assert (method, path) in documented


def test_every_operation_says_what_it_is_and_what_it_answers(app, document):
    ids = []
    for _, path, call in list_operations(document):
        ids.append(call["operationId"])
        assert call["summary"].endswith("."), path
        assert len(call["tags"]) == 1
        is_public = call["security"] == []
        assert is_public or call["security"] == [{"key": []}]
        statuses = set(call["responses"])
        assert {"400", "503"} <= statuses
        assert is_public or {"401", "403"} <= statuses
        assert "{id}" not in path or "404" in statuses
        assert "requestBody" not in call or {"413", "415", "422"} <= statuses
        for status, response in call["responses"].items():
            assert response["description"]
            if int(status) >= 400:
                assert response["content"] == {
                    "application/problem+json": {
                        "schema": {"$ref": "#/components/schemas/Problem"}
                    }
                }
        endpoint = next(
            name
            for name in app.view_functions
            if name.rpartition(".")[2] == call["operationId"] and "." in name
        )
        assert (required_role(app, endpoint) == PUBLIC) == is_public
    assert len(ids) == len(set(ids))
    assert document["components"]["securitySchemes"] == {
        "key": {"type": "http", "scheme": "bearer"}
    }


def test_every_body_and_answer_has_an_example(document):
    schemas = document["components"]["schemas"]
    for name, example in EXAMPLES.items():
        assert schemas[name]["examples"] == [example]
    for _, path, call in list_operations(document):
        parts = [*call["responses"].values()]
        parts += [call["requestBody"]] if "requestBody" in call else []
        for part in parts:
            for content in part.get("content", {}).values():
                named = content.get("schema", {}).get("$ref", "").rpartition("/")[2]
                assert not named or named in EXAMPLES, path


def test_every_content_has_a_schema_and_json_comes_first(document):
    for _, path, call in list_operations(document):
        parts = [*call["responses"].values()]
        parts += [call["requestBody"]] if "requestBody" in call else []
        for part in parts:
            types = list(part.get("content", {}))
            assert "application/json" not in types[1:], path
            assert all(
                content["schema"] for content in part.get("content", {}).values()
            )


def test_a_generated_client_knows_every_media_type(document):
    # Without its configuration openapi-python-client drops the others.
    known = {"application/json", "application/octet-stream", "multipart/form-data"}
    known |= {"application/problem+json", "text/html"}
    config = yaml.safe_load((ROOT / "docs" / "openapi-python-client.yaml").read_text())
    overridden = set(config["content_type_overrides"])
    used = {
        name
        for _, _, call in list_operations(document)
        for part in [*call["responses"].values(), call.get("requestBody", {})]
        for name in part.get("content", {})
    }
    assert used - known == overridden


def test_words_that_are_chosen_from_a_list_are_enums(document):
    wanted = {"verdict", "state", "sampling", "method", "agreement"}
    # The verdict of a judge is a class of the detector.
    free = {("NewVerdict", "verdict"), ("QueryJudgement", "verdict")}
    seen = set()
    for name, schema in document["components"]["schemas"].items():
        for field, said in schema.get("properties", {}).items():
            if field in wanted and (name, field) not in free:
                kinds = said.get("anyOf", [said])
                fixed = any(kind.get("enum") or "const" in kind for kind in kinds)
                assert fixed, (name, field)
                seen.add(field)
    assert seen == wanted


def test_the_server_is_the_one_of_the_document(document):
    assert [server["url"] for server in document["servers"]] == ["/"]


def test_parameters_are_described_and_never_null(document):
    for _, path, call in list_operations(document):
        for parameter in call.get("parameters", []):
            assert parameter["description"], path
            assert "null" not in json.dumps(parameter["schema"])


def test_the_page_loads_nothing_from_outside(api):
    page = api.get("/docs", role=None)
    assert page.status_code == 200
    assert page.mimetype == "text/html"
    assert "//" not in page.text
    policy = page.headers["Content-Security-Policy"]
    assert "unsafe" not in policy
    assert policy == api.get("/detectors").headers["Content-Security-Policy"]
    for name, media_type in (
        ("swagger-ui.css", "text/css"),
        ("swagger-ui-bundle.js", "text/javascript"),
    ):
        assert f"docs/{name}" in page.text
        got = api.get(f"/docs/{name}", role=None)
        assert got.status_code == 200
        assert got.mimetype == media_type
    for name in ("nothing.js", "..%2f..%2fopenapi.json", "%00"):
        assert api.get(f"/docs/{name}", role=None).status_code == 404


def test_the_guide_names_every_call(document):
    guide = (ROOT / "docs" / "api.md").read_text()
    for method, path, _ in list_operations(document):
        assert f"| `{method.upper()} {path.removeprefix('/api/v1')}` |" in guide
