"""Bodies that are wrong: a problem that names the field, and nothing written."""

import json

import pytest

from tests.api.problems import assert_problem

DEEP = "[" * 2_000 + "]" * 2_000
# Not JSON, or not JSON that can be stored anywhere, whatever the call.
NOT_JSON = {
    "empty": "",
    "white space": " \n",
    "cut off": '{"name": "x"',
    "NaN": '{"x": NaN}',
    "Infinity": '{"x": Infinity}',
    "-Infinity": '{"x": -Infinity}',
    "1e999": '{"x": 1e999}',
    "-1e999": '{"x": -1e999}',
    "5,000 digits": '{"x": ' + "1" * 5_000 + "}",
    "depth of 2,000": DEEP,
    "depth of 2,000 in an object": '{"x": ' + DEEP + "}",
    "duplicate key": '{"name": "a", "name": "b"}',
    "duplicate key further in": '{"metadata": {"a": 1, "a": 1}}',
    "half of a surrogate pair": r'{"name": "\ud800"}',
    "half of a surrogate pair as a key": r'{"\uDfff": 1}',
    "surrogates in the wrong order": r'{"name": "\udc00\ud800"}',
    "single quotes": "{'name': 'x'}",
    "comment": '{"name": "x"} // done',
    "two documents": '{"name": "x"} {"name": "y"}',
    "trailing comma": '{"name": "x",}',
    "raw control character": '{"name": "a\x01b"}',
    "UTF-16": '{"name": "x"}'.encode("utf-16"),
    "UTF-16 without a mark": '{"name": "x"}'.encode("utf-16-le"),
    "UTF-32": '{"name": "x"}'.encode("utf-32"),
    "Latin-1": '{"name": "é"}'.encode("latin-1"),
    "UTF-8 of a surrogate": b'{"name": "\xed\xa0\x80"}',
    "byte-order mark": '\ufeff{"name": "x"}',
}
NO_OBJECT = [
    "[]",
    '[{"name": "x"}]',
    "null",
    "1",
    '"text"',
    r'"{\"label\": \"YES\"}"',
    "true",
]

NAMES = [
    "",
    " ",
    "x" * 201,
    "x" * 2**20,
    "a\u0000b",
    "a\nb",
    " a",
    "a ",
    "\u2028",
    "\x9b",
]
WRONG_INSTANTS = [
    *("", "now", "2026-01-31", "2026-01-31T12:00:00", "2026-02-30T00:00:00Z"),
    *("2026-01-31T12:00:00+24:00", "2026-01-31T12:00:60Z", "0000-01-01T00:00:00Z"),
    *("10000-01-01T00:00:00Z", "0001-01-01T00:00:00+01:00", "2026-01-31T24:00:01Z"),
    *(
        "9999-12-31T23:59:59-01:00",
        "2026-01-31T12:00:00.1234567Z",
        "2026-1-31T1:00:00Z",
    ),
    *(
        0,
        1769860800,
        True,
        [],
        {},
        "2026-01-31T12:00:00Z\u0000",
        "\u0662026-01-31T12:00:00Z",
    ),
]
WRONG_CONFIDENCES = [
    *("NaN", "0.5", "", True, False, [], {}, 2**63, 10**400, -1, 2),
    *(-1e-12, 1 + 1e-12, -5e-324, 1e308),
]
WRONG_METADATA = [
    *("", "{}", [], 1, True, {"a": "\u0000"}, {"\u0000": 1}, {"a": "x" * 2**18}),
    *(
        json.loads('{"a":' * 21 + "1" + "}" * 21),
        json.loads('{"a":' * 700 + "1" + "}" * 700),
    ),
]
CLASSES = [
    *([], ["YES"], [f"c{i}" for i in range(1_001)], ["YES", "YES"], ["YES", "Unclear"]),
    *(["unclear", "YES"], ["UNCLEAR", "YES"], ["Balanced", "YES"], ["YES", "BALANCED"]),
    *("YES", {"YES": 1}, [1, 2], ["YES", None], ["YES", ""], ["YES", "x" * 101]),
    *(["YES", "a\u0000"], ["YES", " NO"], [["YES"], ["NO"]], 2, True),
]
LEVELS = [0, 1, -0.0, 1.0, 2, -0.5, "0.95", True, [], 2**63, 10**400, "NaN"]

BODIES = {
    ("POST", "/detectors"): (
        {"name": "new", "question": "?"},
        {
            "name": [*NAMES, None, 1, True, [], {}, "det_1", "det_"],
            "question": [*NAMES[:2], "x" * 1_001, "a\u0000b", None, 1, []],
            "classes": [*CLASSES, None],
            "confidence_level": [*LEVELS, None],
            "target": LEVELS,
            "unknown": [1, None],
            "id": ["det_9"],
        },
    ),
    ("PATCH", "/detectors/door"): (
        {},
        {
            "name": [*NAMES, None, 1, "det_1"],
            "question": ["", None, "a\u0000b", {}],
            "classes": [["A", "B"], None],
            "confidence_level": [*LEVELS, None],
            "target": LEVELS,
            "archived_at": [None, "2026-01-31T12:00:00Z"],
        },
    ),
    ("POST", "/detectors/door/queries"): (
        {"predicted": "YES"},
        {
            "predicted": [
                "",
                "yes",
                " YES",
                "UNCLEAR",
                "MAYBE",
                1,
                True,
                "\u0000",
                [],
            ],
            "label": [
                "",
                "no",
                "unclear",
                "Unclear",
                "MAYBE",
                1,
                "\u0000",
                "x" * 2**20,
            ],
            "key": [*NAMES, 1, True, []],
            "input": [*NAMES, 1, True, []],
            "confidence": WRONG_CONFIDENCES,
            "version": [*NAMES[:2], "x" * 101, "a\u0000b", "*", None, 3, 3.0],
            "asked_at": WRONG_INSTANTS,
            "metadata": WRONG_METADATA,
            "image_url": [
                *("", "x", "ftp://a/b", "javascript:alert(1)", "http://", 1, "//a/b"),
                *(
                    "https://a b/",
                    "https://a\u00a0b/",
                    "https://a/\u0000",
                    "https://a/" + "x" * 2_000,
                ),
            ],
            "sampling": ["", "RANDOM", "all", 1, True],
            "image": [None, "a.png"],
            "sampled": [1],
        },
    ),
    ("POST", "/queries/{query}/labels"): (
        {"label": "YES"},
        {
            "label": [
                "",
                "yes",
                "unclear",
                "MAYBE",
                None,
                1,
                True,
                [],
                "\u0000",
                "x" * 101,
            ],
            "sampling": ["", "Random", 1],
            "note": ["a\u0000b", "x" * 2_001, 1, [], True],
            "labelled_at": WRONG_INSTANTS,
            "labeler": ["", 5],
            "unknown": [1],
        },
    ),
}


@pytest.fixture
def query(api, door):
    """A query with a label, so that there is something to harm."""
    body = {"predicted": "YES", "label": "NO", "key": "k"}
    return api.post("/detectors/door/queries", body).json["id"]


@pytest.mark.thorough
@pytest.mark.parametrize("call", BODIES, ids=" ".join)
def test_a_wrong_field_is_named_and_nothing_is_written(
    api, query, tables, subtests, call
):
    method, path = call
    right, wrong = BODIES[call]
    before = tables()
    for field, values in wrong.items():
        for value in values:
            with subtests.test(f"{field}={value!r:.60}"):
                sent = api.call(
                    method, path.format(query=query), json={**right, field: value}
                )
                problem = assert_problem(sent, 422)
                named = {error["field"].split(".")[0] for error in problem["errors"]}
                assert named == {field}
                assert len(sent.data) < 20_000
    assert tables() == before


@pytest.mark.thorough
@pytest.mark.chaos_on("postgresql")
@pytest.mark.parametrize("call", BODIES, ids=" ".join)
def test_what_is_not_strict_json_is_refused(api, query, tables, subtests, call):
    method, path = call
    before = tables()
    for kind, text in NOT_JSON.items():
        with subtests.test(kind):
            sent = api.call(
                method,
                path.format(query=query),
                data=text,
                content_type="application/json",
            )
            problem = assert_problem(sent, 400)
            assert "not JSON" in problem["detail"]
    for text in NO_OBJECT:
        with subtests.test(text):
            sent = api.call(
                method,
                path.format(query=query),
                data=text,
                content_type="application/json",
            )
            assert_problem(sent, 422, field="body")
    assert tables() == before


@pytest.mark.chaos_on("postgresql")
@pytest.mark.parametrize("call", BODIES, ids=" ".join)
def test_the_media_type_must_be_json(api, query, tables, subtests, call):
    method, path = call
    right, _ = BODIES[call]
    before = tables()
    for media_type in (
        *("", "text/plain", "text/json", "application/x-www-form-urlencoded"),
        *(
            "application/xml",
            "application/json-patch+json",
            "application/jsonx",
            "json",
        ),
    ):
        with subtests.test(media_type):
            sent = api.call(
                method,
                path.format(query=query),
                data=json.dumps(right),
                content_type=media_type,
            )
            assert_problem(sent, 415)
    with subtests.test("no body"):
        assert_problem(api.call(method, path.format(query=query)), 415)
    with subtests.test("another charset"):
        sent = api.call(
            method,
            path.format(query=query),
            data=json.dumps(right),
            content_type="application/json; charset=utf-16",
        )
        assert_problem(sent, 400)
    assert tables() == before


def test_a_missing_field_is_named(api, query, tables):
    before = tables()
    assert_problem(api.post("/detectors", {"name": "x"}), 422, field="question")
    assert_problem(api.post("/detectors", {"question": "x"}), 422, field="name")
    assert_problem(api.post(f"/queries/{query}/labels", {}), 422, field="label")
    assert tables() == before


def test_every_wrong_field_is_named_at_once(api, door):
    body = {"name": "", "classes": ["YES", ""], "target": 2, "colour": "red"}
    problem = assert_problem(api.post("/detectors", body), 422)
    named = [error["field"] for error in problem["errors"]]
    assert sorted(named) == ["classes.1", "colour", "name", "question", "target"]


@pytest.mark.thorough
def test_very_many_mistakes_are_cut_short(api, door, tables):
    before = tables()
    body = {"name": "x", "question": "?", **{f"wrong {i}": i for i in range(50_000)}}
    sent = api.post("/detectors", body)
    problem = assert_problem(sent, 422)
    assert len(problem["errors"]) == 100
    assert len(sent.data) < 50_000
    assert_problem(api.post("/detectors", {"x" * 2**20: 1}), 422)
    assert tables() == before


def test_a_body_over_the_limit_is_refused(api, door, tables):
    before = tables()
    large = json.dumps({"name": "x" * 13 * 2**20, "question": "?"})
    for path in ("/detectors", "/detectors/door/queries"):
        assert_problem(api.send_file(path, large, "application/json"), 413)
    assert tables() == before
