"""How people agree, and how often each of them errs."""

import pytest

from tests.api.problems import assert_problem
from tracker.stats import clopper_pearson, cohen_kappa, cohen_kappa_interval

LABELERS = "/detectors/door/labelers"
NEXT = "/detectors/door/next"


def answer_rechecks(api, truth):
    while (found := api.get(f"{NEXT}?queue=recheck&labeler=house")).status_code == 200:
        query = found.json
        body = {"label": truth(query["key"]), "labeler": "house", "trusted": True}
        assert api.post(f"/queries/{query['id']}/recheck", body).status_code == 201


@pytest.fixture
def two_people(api, door):
    """Fifty labels of a careful person, and fifty of one who errs in every fourth."""
    for role, wrong in (("editor", ()), ("admin", range(0, 50, 4))):
        rows = [
            {
                "key": f"{role}-{i}",
                "predicted": "YES",
                "label": "YES" if (i % 2 == 0) ^ (i in wrong) else "NO",
            }
            for i in range(50)
        ]
        made = api.post("/detectors/door/import", {"items": rows}, role=role)
        assert made.status_code == 200, made.text


def truth(key):
    return "NO" if int(key.rpartition("-")[2]) % 2 else "YES"


@pytest.mark.slow
def test_each_person_is_measured_by_what_trusted_people_said(api, two_people):
    empty = api.get(LABELERS).json
    assert (empty["items"], empty["pairs"]) == ([], [])
    assert api.post("/detectors/door/rechecks", {"count": 100}).status_code == 201
    answer_rechecks(api, truth)
    report = api.get(LABELERS).json
    careless, careful = report["items"]
    assert (careless["name"], careless["known"], careless["wrong"]) == (
        "admin-key",
        50,
        13,
    )
    assert (careful["name"], careful["wrong"]) == ("editor-key", 0)
    assert careless["careless"] is True
    assert careful["careless"] is False
    low, high = clopper_pearson(13, 50, 0.95)
    assert (careless["low"], careless["high"]) == (float(low), float(high))
    yes, no = careless["classes"]
    assert (yes["class"], yes["known"], yes["wrong"]) == ("YES", 25, 13)
    assert (no["class"], no["known"], no["wrong"]) == ("NO", 25, 0)
    # What they said of the same queries: each of the two beside the one who checked.
    (one, two) = report["pairs"]
    assert one["labelers"] == ["admin-key", "house"]
    table = [[12, 0, 0], [13, 25, 0], [0, 0, 0]]
    assert one["kappa"] == pytest.approx(cohen_kappa(table))
    found = cohen_kappa_interval(table, 0.95)
    assert (one["low"], one["high"]) == (float(found.low), float(found.high))
    assert one["agreed"]["correct"] == 37
    assert two["agreed"]["correct"] == 50
    assert report["agreed"]["labelled"] == 100
    assert report["disputed"] == 13


def test_untrusted_second_labels_measure_nobody(api, two_people):
    api.post("/detectors/door/rechecks", {"count": 100})
    for _ in range(5):
        query = api.get(f"{NEXT}?queue=recheck", role="labeler").json["id"]
        body = {"label": "YES"}
        answer = api.post(f"/queries/{query}/recheck", body, role="labeler")
        assert answer.status_code == 201
    report = api.get(LABELERS).json
    assert report["items"] == []


@pytest.mark.thorough
def test_people_who_label_the_same_queries_are_compared_without_who_settles(api):
    body = {"name": "door", "question": "Closed?", "labels_wanted": 2}
    assert api.post("/detectors", body).status_code == 201
    rows = [{"key": f"q{i}", "predicted": "YES"} for i in range(12)]
    for row in rows:
        assert api.post("/detectors/door/queries", row).status_code == 201
    for role in ("labeler", "editor"):
        while (found := api.get(NEXT, role=role)).status_code == 200:
            query = found.json
            is_odd = query["key"] == "q5" and role == "editor"
            given = {"label": "NO" if is_odd else "YES"}
            path = f"/queries/{query['id']}/labels"
            assert api.post(path, given, role=role).status_code == 201
    (disputed,) = api.walk("/detectors/door/queries?agreement=disputed")
    settled = {"label": "YES", "settles": True}
    assert api.post(f"/queries/{disputed['id']}/labels", settled).status_code == 201
    report = api.get(LABELERS).json
    (pair,) = report["pairs"]
    assert pair["labelers"] == ["editor-key", "labeler-key"]
    assert (pair["agreed"]["correct"], pair["agreed"]["labelled"]) == (11, 12)
    assert -1 <= pair["low"] <= pair["kappa"] <= pair["high"] <= 1


@pytest.mark.thorough
def test_an_input_of_two_versions_is_one_known_answer(api, door):
    for version in ("v1", "v2"):
        body = {"predicted": "YES", "version": version, "input": "i"}
        # The second version takes over the label of the first.
        body |= {"label": "YES"} if version == "v1" else {}
        assert api.post("/detectors/door/queries", body).status_code == 201
        drawn = api.post("/detectors/door/rechecks", {"count": 1, "version": version})
        assert drawn.status_code == 201
    query = api.get(f"{NEXT}?queue=recheck&version=v1&labeler=house").json["id"]
    body = {"label": "NO", "labeler": "house", "trusted": True}
    assert api.post(f"/queries/{query}/recheck", body).status_code == 201
    (one,) = api.get(LABELERS).json["items"]
    assert (one["known"], one["wrong"]) == (1, 1)


def test_what_is_said_of_people_is_for_editors(api, door):
    assert_problem(api.get(LABELERS, role="labeler"), 403)
