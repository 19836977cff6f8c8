"""The examples of the OpenAPI document are what the API answers."""

import json
from typing import Any

import jsonschema
import pytest

from tests.api.story import Recorder, tell
from tracker.api.openapi import EXAMPLES, EXAMPLES_FILE, build_document


def _rounded(value: Any) -> Any:
    """Return *value* with floats that do not depend on the processor."""
    if isinstance(value, dict):
        return {name: _rounded(part) for name, part in value.items()}
    if isinstance(value, list):
        return [_rounded(part) for part in value]
    return round(value, 9) if isinstance(value, float) else value


def test_the_examples_are_fresh(app, keys, database, recompute, clock, request):
    api = Recorder(app, keys)
    tell(api, database, recompute, clock)
    if request.config.getoption("write_examples"):
        text = json.dumps(api.examples, indent=1, ensure_ascii=False, sort_keys=True)
        EXAMPLES_FILE.write_text(f"{text}\n", encoding="utf-8")
    written = json.loads(EXAMPLES_FILE.read_text(encoding="utf-8"))
    assert _rounded(written) == _rounded(api.examples), "run: make examples"


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_an_example_fits_its_schema(app, name):
    document = build_document(app)
    whole = {"$ref": f"#/components/schemas/{name}", **document}
    jsonschema.Draft202012Validator(whole).validate(EXAMPLES[name])
