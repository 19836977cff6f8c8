"""What is accepted comes back equal, on both databases."""

import json
import math

import pytest

NAMES = [
    *(
        "a",
        "é",
        "e\u0301",
        "Ⓐ",
        "日本語",
        "🚪",
        "a\u200db",
        "\u202eabc",
        "ÅÄÖ",
        "a  b",
        "%",
        "'",
    ),
    *(
        '"; DROP TABLE detectors; --',
        "<b>",
        "{{ 7*7 }}",
        "\\",
        "x" * 200,
        "🚪" * 200,
        "NULL",
    ),
    *("nan", "1e999", "true", "[]", "\ufeff", "A", "\u0130", "ß", "SS"),
]
CONFIDENCES = [0, 1, 0.0, 1.0, 0.1, 1 / 3, 5e-324, 1 - 2**-53, 2.2250738585072014e-308]
INSTANTS = {
    "2026-01-31T13:45:00Z": "2026-01-31T13:45:00Z",
    "2026-01-31T13:45:00.000001Z": "2026-01-31T13:45:00.000001Z",
    "2026-01-31T13:45:00.5+05:30": "2026-01-31T08:15:00.500000Z",
    "2026-01-31t13:45:00z": "2026-01-31T13:45:00Z",
    "2026-01-31 13:45:00-00:00": "2026-01-31T13:45:00Z",
    "2024-02-29T23:59:59.999999+14:00": "2024-02-29T09:59:59.999999Z",
    "1000-01-01T00:00:00Z": "1000-01-01T00:00:00Z",
    "9999-12-31T23:59:59.999999Z": "9999-12-31T23:59:59.999999Z",
    "1969-12-31T23:59:59.999999Z": "1969-12-31T23:59:59.999999Z",
}
METADATA = [
    {},
    {"": ""},
    {"a": None, "b": [True, False, None, {}], "c": {"d": [[]]}},
    {"small": 5e-324, "large": 1.7976931348623157e308, "third": 1 / 3, "one": 1.0},
    {"whole": 2**63, "more": 2**200, "less": -(2**63) - 1},
    {"text": "a\nb\t\u001f\u2028🚪", "é": "e\u0301"},
    json.loads('{"a":' * 20 + "1" + "}" * 20),
    {"x": "y" * 16_000},
]


@pytest.fixture
def log(api, door):
    """Log a query and return it as it is found again."""

    def log(**values):
        made = api.post("/detectors/door/queries", {"predicted": "YES", **values})
        assert made.status_code == 201, made.text
        found = api.get(f"/queries/{made.json['id']}").json
        assert found == made.json
        return found

    return log


def test_names(api):
    for name in NAMES:
        made = api.post("/detectors", {"name": name, "question": name * 2})
        assert made.status_code == 201, made.text
        found = api.get(f"/detectors/{made.json['id']}").json
        assert found == made.json
        assert (found["name"], found["question"]) == (name, name * 2)
        listed = api.get("/detectors", query_string={"name": name}).json["items"]
        assert listed == [found]


def test_a_surrogate_pair_is_one_character(api):
    text = r'{"name": "\ud83d\udeaa", "question": "\u003f"}'
    made = api.send_file("/detectors", text, "application/json")
    assert (made.json["name"], made.json["question"]) == ("🚪", "?")
    assert api.get("/detectors/🚪").json == made.json


def test_classes_are_told_apart_exactly_as_written(api):
    for classes in (
        ["a", "A"],
        ["é", "e\u0301"],
        ["I", "i", "\u0130", "\u0131"],
        ["x" * 100, "y" * 100],
        [f"class {i}" for i in range(1_000)],
    ):
        body = {
            "name": f"{len(classes)} {classes[0]}",
            "question": "?",
            "classes": classes,
        }
        made = api.post("/detectors", body).json
        assert made["classes"] == classes
        path = f"/detectors/{made['id']}"
        for name in classes[:4]:
            query = api.post(f"{path}/queries", {"predicted": name, "label": name}).json
            assert (query["predicted"], query["label"]) == (name, name)
            assert api.walk(f"{path}/queries?label={name}") == [query]
        rows = api.get(f"{path}/estimate").json["classes"]
        assert [row["class"] for row in rows] == classes
        assert [row["correct"] for row in rows[:2]] == [1, 1]


def test_keys_inputs_and_versions(log, api):
    for name in NAMES:
        found = log(key=name, input=name, version=name[:100])
        assert (found["key"], found["version"]) == (name, name[:100])
        assert found["input"] == name


def test_confidences_to_the_last_bit(log):
    for confidence in CONFIDENCES:
        assert log(confidence=confidence)["confidence"] == confidence


def test_the_sign_of_a_zero_is_not_kept(log):
    assert math.copysign(1, log(confidence=-0.0)["confidence"]) == 1


def test_levels_and_targets_to_the_last_bit(api):
    for level in (5e-324, 0.5, 0.95, 1 / 3, 0.999_999_999):
        body = {
            "name": str(level),
            "question": "?",
            "confidence_level": level,
            "target": level,
        }
        made = api.post("/detectors", body).json
        found = api.get(f"/detectors/{made['id']}").json
        assert (found["confidence_level"], found["target"]) == (level, level)
        assert api.get(f"/detectors/{made['id']}/estimate").status_code == 200


def test_instants(log):
    for sent, expected in INSTANTS.items():
        assert log(asked_at=sent)["asked_at"] == expected


def test_metadata(log):
    for metadata in METADATA:
        found = log(metadata=metadata)["metadata"]
        assert found == metadata
        assert json.dumps(found) == json.dumps(metadata)


@pytest.mark.thorough
def test_notes_and_instants_of_labels(log, api):
    query = log()["id"]
    for note in ("", " ", "a\r\nb\t", "x" * 2_000, "\x01\x1b[31m", "=1+1", "🚪"):
        for sent, expected in INSTANTS.items():
            body = {"label": "NO", "note": note, "labelled_at": sent}
            made = api.post(f"/queries/{query}/labels", body).json
            assert (made["note"], made["labelled_at"]) == (note, expected)
            assert api.get(f"/queries/{query}/labels?limit=1").json["items"] == [made]
