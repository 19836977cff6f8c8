"""The record of an audit: its intervals are recounted from exports alone."""

from fractions import Fraction

import pytest

from tests.api.conftest import Api
from tests.chaos.audited_again import certain_bounds, check_interval, read_exported
from tracker.words import NO_ANSWER

QUERIES = 300
SURE = (0.6, 0.9, 0.99)


def said_of(n: int) -> str | None:
    return None if n % 50 == 3 else ("YES", "NO")[n % 4 == 0]


def truth_of(n: int) -> str:
    if n % 37 == 5:
        return "UNCLEAR"
    is_wrong = n % (4, 12, 40)[n % 3] == 0
    said = said_of(n) or "NO"
    return ({"YES": "NO", "NO": "YES"}[said]) if is_wrong else said


def row_of(n: int) -> dict[str, object]:
    judged = ("YES", "NO")[n % 5 == 0]
    known = {"label": truth_of(n)} if n < 9 else {}
    row = {"key": f"q{n}", "predicted": said_of(n), "confidence": SURE[n % 3]}
    return row | {"judge:llm": judged} | known


def label_next(api: Api, audit: str, count: int) -> None:
    for one in api.get(f"/audits/{audit}/next?count={count}").json["items"]:
        body = {"label": truth_of(int(one["key"][1:]))}
        assert api.post(f"/queries/{one['id']}/labels", body).status_code == 201


@pytest.fixture
def audit(api: Api, door) -> str:
    rows = {"items": [row_of(n) for n in range(QUERIES)]}
    assert api.post("/detectors/door/import", rows).status_code == 200
    asked = {"name": "all", "aim": "overall", "half_width": 0.03, "seed": "1"}
    begun = api.post("/detectors/door/audits", asked)
    assert begun.status_code == 201, begun.text
    return str(begun.json["id"])


def test_an_outsider_recounts_intervals_and_chances_from_the_record_alone(
    api: Api, audit: str
) -> None:
    for _ in range(10):
        label_next(api, audit, 12)
        # Labels from elsewhere are known from the next round on.
        other = api.get("/detectors/door/next").json
        body = {"label": truth_of(int(other["key"][1:]))}
        assert api.post(f"/queries/{other['id']}/labels", body).status_code == 201
    first = api.get(f"/audits/{audit}/record").json["draws"][3]
    fixed = {"label": {"YES": "NO"}.get(first["label"], "YES")}
    assert api.post(f"/queries/{first['query']}/labels", fixed).status_code == 201
    open_ones = api.get(f"/audits/{audit}/next?count=3").json["items"]
    # The last one is answered behind two that are open.
    body = {"label": truth_of(int(open_ones[2]["key"][1:]))}
    assert api.post(f"/queries/{open_ones[2]['id']}/labels", body).status_code == 201

    record = api.get(f"/audits/{audit}/record").json
    found = api.get(f"/audits/{audit}/estimate").json
    assert len(record["rounds"]) >= 4
    assert NO_ANSWER in {one["predicted"] for one in record["strata"]}
    assert sum(one["queries"] for one in record["strata"]) == QUERIES
    again = read_exported(record)
    assert len(again.draws) == found["labels_used"] >= 120
    assert any(known for known in again.known)
    level, scores = record["confidence_level"], [found["overall"], *found["classes"]]
    for of, score in zip((None, *record["classes"]), scores, strict=True):
        one = read_exported(record, of)
        bounds = score["low"], score["high"]
        assert 0 < bounds[0] < bounds[1] < 1
        check_interval(one, bounds, certain_bounds(one), level)
    check_chances(record)


def check_chances(record: dict) -> None:
    """Check that each draw had the chance that the rounds and the set give it."""
    drawn = [0] * len(record["strata"])
    for one in record["draws"]:
        frozen = record["rounds"][one["round"]]
        left = [
            stratum["queries"] - sum(known) - taken
            for stratum, known, taken in zip(
                record["strata"], frozen["known"], drawn, strict=True
            )
        ]
        total = sum(n * w for n, w in zip(left, frozen["weights"], strict=True))
        weight = frozen["weights"][one["stratum"]]
        assert (one["stratum_weight"], one["weight_left"]) == (weight, total)
        assert one["chance"] == float(Fraction(weight, total))
        drawn[one["stratum"]] += 1


def test_the_record_of_what_is_no_audit_is_not_there(api: Api, door) -> None:
    assert api.get("/audits/aud_9/record").status_code == 404
