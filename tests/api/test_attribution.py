"""Whether the system, the judge or the mix moved, from the outside."""

import random
import secrets

import pytest

from tests.api.conftest import Api
from tests.api.problems import assert_problem

PATH = "/detectors/door/attribution"
WEEKS = {
    "since": "2026-01-05T00:00:00Z",
    "until": "2026-01-12T00:00:00Z",
    "now_since": "2026-01-12T00:00:00Z",
    "now_until": "2026-01-19T00:00:00Z",
}
ASKED = WEEKS | {
    "old_version": "v1",
    "new_version": "v2",
    "old_judge": "llm-1",
    "new_judge": "llm-2",
    "anchors": 300,
}


@pytest.fixture(autouse=True)
def _draws(monkeypatch):
    """Draw the same anchors in each run: some draws show a move by chance."""
    draws = random.Random(7)
    monkeypatch.setattr(secrets, "SystemRandom", lambda: draws)


def send(api: Api, rows: list[dict], *, judge: str = "", by=None, at: int = 0) -> None:
    made = api.post("/detectors/door/import", {"items": rows})
    assert made.status_code == 200, made.text
    if by is not None:
        tell(api, {row["key"]: by(row["input"]) for row in rows}, judge, at=at)


def tell(api: Api, verdicts: dict[str, str], judge: str, *, at: int = 0) -> None:
    """Send what a judge says of the queries of these keys."""
    records = [
        {
            "timeUnixNano": str((1_768_000_000 + at) * 10**9),
            "eventName": "gen_ai.evaluation.result",
            "attributes": [
                {"key": name, "value": {"stringValue": value}}
                for name, value in (
                    ("gen_ai.evaluation.name", "door"),
                    ("gen_ai.evaluation.score.label", verdict),
                    ("gen_ai.response.id", key),
                    ("tracker.judge", judge),
                )
            ],
        }
        for key, verdict in verdicts.items()
    ]
    body = {"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}
    answer = api.post("/otlp/v1/logs", body, role="editor")
    assert (answer.status_code, answer.json) == (200, {}), answer.text


def rows_of(version: str, day: int, inputs: list[str], said) -> list[dict]:
    return [
        {
            "key": f"{version}-{name}",
            "input": name,
            "version": version,
            "predicted": said(name),
            "asked_at": f"2026-01-{day:02}T12:00:00Z",
        }
        for name in inputs
    ]


def truth(name: str) -> str:
    return "YES" if int(name[1:]) % 2 else "NO"


def other(label: str) -> str:
    return "NO" if label == "YES" else "YES"


def wrong_in(share: int):
    """Answer wrongly on each input of that number modulo 20."""
    return lambda name: (
        other(truth(name)) if int(name[1:]) % 20 < share else truth(name)
    )


def strict(name: str) -> str:
    """Call as many right answers wrong as the versions give wrong ones."""
    return other(truth(name)) if int(name[1:]) % 20 in {4, 5} else truth(name)


@pytest.fixture
def weeks(api: Api, door) -> list[str]:
    """A week then and a week now, of which the old judge knows the truth."""
    then = [f"a{n}" for n in range(200)]
    send(api, rows_of("v1", 6, then, wrong_in(2)), judge="llm-1", by=truth)
    return then


def run(api: Api, then: list[str], said, judge, mix) -> dict:
    """Let another week pass, begin, put the anchors to everything, and ask."""
    now = [f"b{n}" for n in mix]
    send(api, rows_of("v2", 13, now, said), judge="llm-2", by=judge)
    begun = api.post(PATH, ASKED)
    assert begun.status_code == 201, begun.text
    assert begun.json["judge"]["missing"] == 300
    assert (begun.json["judge"]["low"], begun.json["judge"]["high"]) == (-1, 1)
    anchors = api.get(f"{PATH}/anchors").json["items"]
    assert sum(one["times"] for one in anchors) == 300
    assert all(one["needs"] == ["judge then", "rerun"] for one in anchors)
    names = [one["input"] for one in anchors]
    send(api, rows_of("v2", 20, names, said), judge="llm-2", by=judge)
    tell(api, {f"v1-{name}": judge(name) for name in names}, "llm-2")
    for one in api.get(f"{PATH}/anchors").json["items"]:
        if one["needs"]:
            assert one["needs"] == ["label"]
            body = {"label": truth(one["input"]), "sampling": "targeted"}
            given = api.post(f"/queries/{one['query']}/labels", body)
            assert given.status_code == 201
    assert not any(one["needs"] for one in api.get(f"{PATH}/anchors").json["items"])
    return api.get(PATH).json


EVEN = range(200)
# More of the inputs that both versions get wrong.
HARD = [20 * (n // 2) + n % 2 for n in range(80)] + list(range(2, 20)) * 6


@pytest.mark.slow
@pytest.mark.parametrize("moved", ["system", "judge", "mix"])
def test_what_moved_is_named_and_nothing_else(api, weeks, moved):
    said = wrong_in(6 if moved == "system" else 2)
    judge = strict if moved == "judge" else truth
    mix = sorted(set(HARD)) if moved == "mix" else EVEN
    found = run(api, weeks, said, judge, mix)
    assert found["then"] == {"right": 180, "judged": 200, "rate": 0.9}
    change = found["now"]["rate"] - found["then"]["rate"]
    parts = [found[name] for name in ("judge", "system", "mix")]
    assert change == pytest.approx(sum(one["difference"] for one in parts))
    assert all(one["low"] <= one["difference"] <= one["high"] for one in parts)
    shown = [name for name in ("judge", "system", "mix") if found[name]["is_shown"]]
    assert shown == [moved]
    assert found[moved]["says"] == f"the {moved} moved"
    assert found[moved]["difference"] < -0.05
    if moved == "system":
        assert found["truth"]["is_shown"]
        assert found["truth"]["difference"] == found["system"]["difference"]


def test_what_people_have_not_confirmed_is_not_the_systems(api, weeks):
    # The judge likes the new outputs less, and nobody has labelled them.
    now = [f"b{n}" for n in EVEN]

    send(api, rows_of("v2", 13, now, wrong_in(6)), judge="llm-2", by=truth)
    api.post(PATH, ASKED)
    names = [one["input"] for one in api.get(f"{PATH}/anchors").json["items"]]
    send(api, rows_of("v2", 20, names, wrong_in(6)), judge="llm-2", by=truth)
    tell(api, {f"v1-{name}": truth(name) for name in names}, "llm-2")
    found = api.get(PATH).json
    assert found["system"]["difference"] < -0.1
    assert found["truth"]["missing"] > 0
    assert found["truth"]["difference"] is None
    assert not found["system"]["is_shown"]
    assert "people have not confirmed it" in found["system"]["says"]


def test_each_investigation_counts_and_draws_anew(api, weeks):
    now = [f"b{n}" for n in EVEN]
    send(api, rows_of("v2", 13, now, wrong_in(2)), judge="llm-2", by=truth)
    first, second = (api.post(PATH, ASKED).json for _ in range(2))
    assert (first["number"], second["number"]) == (1, 2)
    assert first["level"] == pytest.approx(1 - 0.05 / 8)
    assert second["level"] == pytest.approx(1 - 0.05 / 24)
    drawn = [
        [(one["query"], one["times"]) for one in found.json["items"]]
        for found in (api.get(f"{PATH}/anchors?number={n}") for n in (1, 2))
    ]
    assert drawn[0] != drawn[1]
    assert api.get(f"{PATH}?number=1").json["number"] == 1
    assert api.get(PATH).json["number"] == 2
    assert_problem(api.get(f"{PATH}?number=3"), 404)


def test_a_verdict_that_changes_later_leaves_the_week_as_it_was(api, weeks):
    now = [f"b{n}" for n in EVEN]
    send(api, rows_of("v2", 13, now, wrong_in(2)), judge="llm-2", by=truth)
    api.post(PATH, ASKED)
    before = api.get(PATH).json
    changed = {f"v1-{name}": wrong_in(9)(name) for name in weeks}
    tell(api, changed, "llm-1", at=60)
    assert api.get(PATH).json == before


def test_what_cannot_be_asked_is_refused(api, weeks):
    assert_problem(api.get(PATH), 404)
    problem = assert_problem(api.post(PATH, ASKED), 400, field="version")
    assert "no version" in problem["errors"][0]["message"]
    send(api, rows_of("v2", 13, ["b1"], wrong_in(2)))
    problem = assert_problem(api.post(PATH, ASKED), 409)
    assert "in the week now" in problem["detail"]
    backwards = ASKED | {"until": ASKED["since"]}
    assert_problem(api.post(PATH, backwards), 422, field="until")
    assert_problem(api.post(PATH, ASKED | {"anchors": 0}), 422, field="anchors")
    assert_problem(api.post(PATH, ASKED, role="labeler"), 403)


def test_the_same_request_begins_one_investigation(api, weeks, tables):
    now = [f"b{n}" for n in EVEN]
    send(api, rows_of("v2", 13, now, truth), judge="llm-2", by=truth)
    headers = {"Idempotency-Key": "key-1"}
    first = api.post(PATH, ASKED, headers=headers)
    assert first.status_code == 201, first.text
    before = tables()
    again = api.post(PATH, ASKED, headers=headers)
    assert (again.status_code, again.data) == (201, first.data)
    assert tables() == before
    other_one = api.post(PATH, ASKED | {"anchors": 200}, headers=headers)
    assert_problem(other_one, 422, field="Idempotency-Key")
