"""Parameters that are wrong: a 400 that names them and says what would be right."""

from urllib.parse import quote

import pytest

from tests.api.problems import assert_problem

# What is refused here is refused before the database is asked.
pytestmark = pytest.mark.chaos_on("postgresql")

LIMITS = [
    "0",
    "-1",
    "1001",
    "1000000000",
    "1e9",
    "abc",
    "",
    "1.0",
    " 1",
    "1_0",
    "\u0661",
    "9" * 99,
]
INSTANTS = ["", "now", "2026-01-31", "2026-01-31T00:00:00", "2026-02-30T00:00:00Z", "0"]
LEVELS = [
    "0",
    "1",
    "nan",
    "inf",
    "-0.5",
    "2",
    "1e999",
    "",
    "0,95",
    "95%",
    "0x1",
    "1e-999",
]
FLAGS = ["", "1", "0", "True", "yes", "null"]
TEXTS = ["a\x00b"]
ACCURACIES = [
    "",
    "nan",
    "-0.1",
    "1.01",
    "1e999",
    "0.9;0.8",
    "-inf",
    "90%",
    *TEXTS,
]

CALLS = {
    "/detectors": {
        "limit": LIMITS,
        "after": [
            "",
            "garbage",
            "1",
            "iq_1",
            "det_",
            "det_01",
            "det_-1",
            "det_" + "9" * 20,
        ],
        "name": TEXTS,
        "page": ["1"],
    },
    "/detectors/door/queries": {
        "limit": LIMITS,
        "after": [
            "",
            "garbage",
            "det_1",
            "iq_0x1",
            "iq_-1",
            "iq_9999999999999999999999",
        ],
        "labelled": FLAGS,
        "predicted": ["", "yes", "MAYBE", "UNCLEAR", *TEXTS],
        "label": ["", "no", "unclear", "MAYBE", *TEXTS],
        "version": ["", "v9", *TEXTS],
        "labeled": ["true"],
    },
    "/queries/{query}/labels": {
        "limit": LIMITS,
        "after": ["", "garbage", "iq_1", "lab_1", "lab_x"],
        "label": ["YES"],
    },
    "/detectors/door/estimate": {
        "method": ["", "wald", "EXACT", "exact ", *TEXTS],
        "confidence_level": LEVELS,
        "since": INSTANTS,
        "until": INSTANTS,
        "include_targeted": FLAGS,
        "version": ["", "v9", "V1", *TEXTS],
        "level": ["0.9"],
    },
    "/detectors/door/comparison": {
        "old": ["", "v9", "*", *TEXTS],
        "new": ["", "v9", "V1", *TEXTS],
        "confidence_level": LEVELS,
        "version": ["v1"],
    },
    "/detectors/door/history": {
        "method": ["", "wald"],
        "format": ["", "JSON", "xls"],
        "since": INSTANTS,
        "until": INSTANTS,
        "limit": ["0", "-1", "10001", "abc", ""],
        "after": ["", "garbage", "1", "1-", "1-1-1", "-1-1", "1-" + "9" * 30],
        "version": ["v9"],
        "confidence_level": ["0.9"],
    },
    "/detectors/door/plan": {
        "width": LEVELS,
        "target": LEVELS,
        "accuracy": ACCURACIES,
        "power": LEVELS,
        "more": ["", "-1", "1.0", "1e3", "nan", "1000000001", "9" * 19],
        "version": ["", "v9", *TEXTS],
        "confidence_level": LEVELS,
        "level": ["0.9"],
    },
    "/detectors/door": {"expand": ["1"]},
    "/queries/{query}": {"expand": ["1"]},
    "/queries/{query}/image": {"size": ["1"]},
    "/openapi.json": {"version": ["2"]},
    "/docs": {"url": ["https://evil.example/openapi.json"]},
}
RIGHT = {
    "method": "exact",
    "format": "'csv'",
    "labelled": "true or false",
    "include_targeted": "true or false",
    "predicted": "YES, NO",
    "since": "2026-01-31T13:45:00Z",
}


@pytest.fixture
def query(api, door):
    """A query of version v1."""
    body = {"predicted": "YES", "label": "NO", "version": "v1"}
    return api.post("/detectors/door/queries", body).json["id"]


@pytest.mark.thorough
@pytest.mark.parametrize("path", CALLS)
def test_a_wrong_parameter_is_named(api, query, subtests, path):
    for name, values in CALLS[path].items():
        for value in values:
            with subtests.test(f"{name}={value!r:.60}"):
                joint = "" if path.endswith("&") else "?"
                address = f"{path.format(query=query)}{joint}{name}={quote(value)}"
                problem = assert_problem(api.get(address), 400)
                assert [error["field"] for error in problem["errors"]] == [name]
                is_list = path.endswith("&") and name == "labelled"
                if (
                    name in RIGHT
                    and not is_list
                    and "\x00" not in value
                    and "-02-30" not in value
                ):
                    assert RIGHT[name] in problem["detail"]


def test_the_value_that_was_sent_is_shown(api, query):
    problem = assert_problem(api.get("/detectors/door/estimate?method=wald"), 400)
    assert "'wald'" in problem["errors"][0]["message"]
    problem = assert_problem(api.get("/detectors?limit=1001"), 400)
    assert "1001" in problem["errors"][0]["message"]
    problem = assert_problem(api.get("/detectors?colour=red"), 400)
    assert "limit, after, name" in problem["errors"][0]["message"]


def test_a_parameter_is_given_once(api, query):
    assert_problem(api.get("/detectors?limit=1&limit=2"), 400, field="limit")
    assert_problem(api.get("/detectors?name=a&name=a"), 400, field="name")


def test_a_window_ends_after_it_begins(api, query):
    for path in ("estimate", "history"):
        for until in ("2026-01-01T00:00:00Z", "2025-12-31T23:59:59Z"):
            address = f"/detectors/door/{path}?since=2026-01-01T00:00:00Z&until={until}"
            assert_problem(api.get(address), 400, field="until")
    # The message has what was sent, not the instant that it stands for.
    problem = assert_problem(api.get("/detectors/door/estimate?since=1d&until=7d"), 400)
    (error,) = problem["errors"]
    assert error["message"] == "'7d' is not right: it must be later than since"


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/detectors"),
        ("POST", "/detectors/door/queries"),
        ("POST", "/detectors/door/recompute"),
        ("POST", "/queries/{query}/labels"),
        ("PATCH", "/detectors/door"),
        ("DELETE", "/detectors/door"),
    ],
)
def test_calls_that_write_refuse_unknown_parameters_too(
    api, query, tables, method, path
):
    before = tables()
    wrong = api.call(method, f"{path.format(query=query)}?dry_run=true", json={})
    assert_problem(wrong, 400, field="dry_run")
    assert tables() == before
