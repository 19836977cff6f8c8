"""Any request that a program sends: no internal error, and documented answers only."""

from contextlib import suppress

import pytest
from flask import Flask
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable

from tests.conftest import IS_LONG

# For each role how many requests of each kind are tried of every call.
EXAMPLES = {"admin": 15, "editor": 6, "labeler": 6, "viewer": 6, None: 6}
if IS_LONG:
    EXAMPLES = dict.fromkeys(EXAMPLES, 40)
PROFILE = settings(
    deadline=None,
    database=None,
    derandomize=not IS_LONG,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)


@pytest.fixture
def ids(api, door):
    """Ids that exist, so that not every request ends with a 404."""
    body = {"predicted": "YES", "label": "NO"}
    query = api.post("/detectors/door/queries", body).json["id"]
    for version in ("v1", "v2"):
        pair = {**body, "version": version, "input": "frame-1"}
        api.post("/detectors/door/queries", pair)
    api.post("/detectors/door/recompute")
    rounds = [{"validation": 0.8}, {"validation": 0.9}]
    study = {"name": "tree", "kind": "bootstrap", "rounds": rounds}
    study = api.post("/detectors/door/studies", study).json["id"]
    later = {"Prefer": "respond-async"}
    path = "/detectors/door/import"
    sent = api.send_file(path, "predicted\nYES\n", headers=later)
    return {
        "imports": [sent.json["id"]],
        "detectors": ["door", door["id"]],
        "queries": [query],
        "studies": [study],
    }


@pytest.mark.chaos
@pytest.mark.timeout(7200 if IS_LONG else 300)
@pytest.mark.parametrize("role", EXAMPLES)
def test_any_request_gets_a_documented_answer(app: Flask, keys, ids, role, subtests):
    # Not where tests are collected: it takes two seconds.
    import schemathesis

    headers = {} if role is None else {"Authorization": f"Bearer {keys[role]}"}
    schema = schemathesis.openapi.from_wsgi("/api/v1/openapi.json", app)
    for result in schema.get_all_operations():
        operation = result.ok()
        noun = operation.path.split("/")[3]
        for mode in schemathesis.GenerationMode:
            with subtests.test(f"{operation.label}, {mode.value}"):
                check(operation, mode, ids.get(noun, []), headers, EXAMPLES[role])


def check(operation, mode, ids, headers, examples):
    from schemathesis import GenerationMode
    from schemathesis.checks import not_a_server_error
    from schemathesis.specs.openapi import checks

    existing = st.sampled_from(ids) if ids else st.none()
    classes = st.sampled_from(["YES", "NO"])

    @settings(PROFILE, max_examples=examples)
    @given(case=operation.as_strategy(mode), known=st.none() | existing, name=classes)
    def one(case, known, name):
        # Nothing that the other requests need is archived.
        if (
            known is not None
            and "id" in case.path_parameters
            and case.method != "DELETE"
        ):
            case.path_parameters["id"] = known
        # No schema can say what the classes of a detector are.
        if mode is GenerationMode.POSITIVE and isinstance(case.body, dict):
            for field in case.body.keys() & {"predicted", "label"}:
                case.body[field] = name
        wanted = [
            not_a_server_error,
            checks.status_code_conformance,
            checks.content_type_conformance,
            checks.response_headers_conformance,
            checks.response_schema_conformance,
            checks.negative_data_rejection,
        ]
        # With on_error=skip what is wrong with a row is told, and the others are
        # taken, as where a file is only inspected; and of a parameter that is an empty
        # list nothing is sent.
        if (
            case.query.get("on_error") == "skip"
            or operation.path.endswith("/inspect")
            or [] in case.query.values()
        ):
            wanted.remove(checks.negative_data_rejection)
        case.call_and_validate(headers=headers, checks=wanted)

    with suppress(Unsatisfiable):
        # What has neither parameters nor a body cannot be asked for wrongly.
        one()
