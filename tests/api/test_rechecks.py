"""Labels that are given a second time: blind, unscored, and what they tell."""

import itertools

import pytest

from tests.api.conftest import Api
from tests.api.problems import assert_problem

NEXT = "/detectors/door/next?queue=recheck"
DRAWS = "/detectors/door/rechecks"


@pytest.fixture
def labelled(api: Api, door) -> list[str]:
    """Sixty labelled queries by ann, of which three are wrong: the even ones are NO."""
    rows = [
        {
            "key": f"q{i}",
            "predicted": "NO" if i % 4 == 0 else "YES",
            "label": "YES" if i % 2 or i in {2, 4, 8} else "NO",
            "sampling": "random",
            "version": "v1",
        }
        for i in range(60)
    ]
    made = api.post("/detectors/door/import", {"items": rows})
    assert made.status_code == 200, made.text
    return [row["key"] for row in rows]


def truth(key: str) -> str:
    return "YES" if int(key[1:]) % 2 else "NO"


def draw(api: Api, count: int) -> dict:
    answer = api.post(DRAWS, {"count": count})
    assert answer.status_code == 201, answer.text
    return answer.json


def answer_all(api: Api, *, role: str = "editor") -> list[str]:
    keys = []
    while (found := api.get(NEXT, role=role)).status_code == 200:
        query = found.json
        assert query["recheck"] is True
        assert "predicted" not in query
        assert "label" not in query
        body = {"label": truth(query["key"])}
        given = api.post(f"/queries/{query['id']}/recheck", body, role=role)
        assert given.status_code == 201, given.text
        keys.append(query["key"])
    return keys


@pytest.mark.slow
def test_second_labels_bound_the_errors_and_change_nothing_scored(api, labelled):
    before = api.get("/detectors/door/estimate?version=v1").json
    assert before["label_errors"] is None
    found = draw(api, 40)
    assert (found["drawn"], found["answered"], found["waiting"]) == (40, 0, 40)
    assert found["label_errors"] is None
    keys = answer_all(api)
    assert len(keys) == len(set(keys)) == 40

    after = api.get("/detectors/door/estimate?version=v1").json
    errors = after.pop("label_errors")
    for name in ("computed_at", "label_errors"):
        before.pop(name, None)
        after.pop(name, None)
    assert after == before
    different = sum(key in keys for key in ("q2", "q4", "q8"))
    assert (errors["queries"], errors["drawn"], errors["counted"]) == (60, 40, 40)
    assert (errors["different"], errors["trusted"]) == (different, True)
    assert "none" in errors["assumption"]
    assert different / 60 <= errors["error_high"] < 0.25
    # By the truth 43 are right: all YES, and 13 of those NO that are 0 modulo 4.
    yes, no = (one["truth"] for one in errors["classes"])
    assert 0.7 < yes["low"] <= 1 == yes["high"]
    assert 0.3 < no["low"] <= 0.5 <= no["high"] < 0.7
    for name, truth_is in (("overall", 0.75), ("balanced", 0.75)):
        assert errors[name]["low"] <= truth_is <= errors[name]["high"], name
    assert errors["process"]["low"] < errors["overall"]["low"]
    # The rest leaves nothing to chance.
    draw(api, 20)
    answer_all(api)
    errors = api.get(DRAWS).json["label_errors"]
    assert errors["error_high"] == pytest.approx(0.05, abs=1e-5)
    for bound in ("low", "high"):
        assert errors["overall"][bound] == pytest.approx(0.75, abs=1e-5)
        assert errors["balanced"][bound] == pytest.approx(0.75, abs=1e-5)


@pytest.mark.slow
def test_a_difference_is_disputed_and_settling_it_leaves_the_bounds(api, labelled):
    draw(api, 60)
    answer_all(api)
    disputed = api.walk("/detectors/door/queries?agreement=disputed")
    assert {one["key"] for one in disputed} == {"q2", "q4", "q8"}
    assert all(one["label"] == "YES" for one in disputed)
    before = api.get(DRAWS).json["label_errors"]
    settled = {"label": "NO", "settles": True}
    for one in disputed:
        assert api.post(f"/queries/{one['id']}/labels", settled).status_code == 201
    # The drawn are corrected, others would not be: what was drawn counts as it was.
    assert api.get(DRAWS).json["label_errors"] == before
    assert api.get("/detectors/door/estimate").json["corrections"] == 3


def test_nobody_is_given_their_own_label_again(api, labelled):
    draw(api, 10)
    assert api.get(NEXT, role="admin").status_code == 204
    found = api.get(NEXT, role="labeler").json
    path = f"/queries/{found['id']}/recheck"
    problem = assert_problem(api.post(path, {"label": "YES"}, role="admin"), 409)
    assert "another person" in problem["detail"]
    assert api.post(path, {"label": "YES"}, role="labeler").status_code == 201
    # A slip can be changed, and by nobody else.
    assert api.post(path, {"label": "NO"}, role="labeler").json["label"] == "NO"
    body = {"label": "YES", "trusted": False}
    problem = assert_problem(api.post(path, body, role="editor"), 409)
    assert "given already" in problem["detail"]
    assert api.get(path).json["label"] == "NO"
    undrawn = next(
        one
        for one in api.walk("/detectors/door/queries")
        if api.get(f"/queries/{one['id']}/recheck").status_code == 404
        and api.post(
            f"/queries/{one['id']}/recheck", {"label": "YES"}, role="viewer"
        ).status_code
        == 403
    )
    assert undrawn


def test_after_minutes_an_answer_stays(api, labelled, clock):
    draw(api, 1)
    query = api.get(NEXT, role="labeler").json["id"]
    path = f"/queries/{query}/recheck"
    assert api.post(path, {"label": "NO"}, role="labeler").status_code == 201
    clock.at += clock.at.resolution * 301_000_000
    assert_problem(api.post(path, {"label": "YES"}, role="labeler"), 409)


@pytest.mark.thorough
def test_without_trust_errors_must_be_independent_and_the_truth_is_unknown(
    api, labelled
):
    draw(api, 40)
    answer_all(api, role="labeler")
    errors = api.get(DRAWS).json["label_errors"]
    assert (errors["trusted"], errors["counted"]) == (False, 40)
    assert "independently" in errors["assumption"]
    for name in ("overall", "balanced", "process"):
        assert errors[name] is None
    assert errors["classes"][0]["truth"] is None
    with_trust = {"label": "YES", "trusted": True}
    query = api.walk("/detectors/door/queries")[0]["id"]
    answer = api.post(f"/queries/{query}/recheck", with_trust, role="labeler")
    assert_problem(answer, 403)


def test_an_answer_counts_once_somebody_trusted_gives_it(api, labelled):
    draw(api, 10)
    path = f"/queries/{api.get(NEXT, role='labeler').json['id']}/recheck"
    assert api.post(path, {"label": "YES"}, role="labeler").status_code == 201
    errors = api.get(DRAWS).json["label_errors"]
    assert (errors["trusted"], errors["counted"]) == (False, 1)
    # It waits for an editor, with those that nobody has answered.
    assert len(answer_all(api)) == 10
    assert api.get(path).json["trusted"] is True
    errors = api.get(DRAWS).json["label_errors"]
    assert (errors["trusted"], errors["answered"], errors["counted"]) == (True, 10, 10)
    assert errors["overall"] is not None


def test_an_expert_can_be_named_and_trusted(api, labelled):
    draw(api, 1)
    found = api.get(f"{NEXT}&labeler=house", role="editor").json
    path = f"/queries/{found['id']}/recheck"
    body = {"label": "UNCLEAR", "labeler": "house", "trusted": True, "note": "dark"}
    given = api.post(path, body, role="editor").json
    assert (given["labeler"], given["trusted"], given["note"]) == (
        "house",
        True,
        "dark",
    )
    errors = api.get(DRAWS).json["label_errors"]
    assert (errors["different"], errors["trusted"]) == (1, True)


@pytest.mark.thorough
def test_a_draw_without_an_answer_ends_the_evidence(api, labelled):
    draw(api, 30)
    skipped = api.get(NEXT, role="editor").json["id"]
    api.get(f"{NEXT}&skip={skipped}", role="editor")
    for _ in range(27):
        found = api.get(NEXT, role="editor").json
        assert found["id"] != skipped
        body = {"label": truth(found["key"])}
        path = f"/queries/{found['id']}/recheck"
        assert api.post(path, body, role="editor").status_code == 201
    assert api.get(DRAWS).json["label_errors"] is None
    body = {"label": "UNCLEAR"}
    given = api.post(f"/queries/{skipped}/recheck", body, role="editor")
    assert given.status_code == 201
    errors = api.get(DRAWS).json["label_errors"]
    assert (errors["answered"], errors["counted"]) == (28, 28)


def test_a_new_set_keeps_what_is_known(api, labelled):
    draw(api, 12)
    for _ in range(10):
        found = api.get(NEXT, role="editor").json
        body = {"label": truth(found["key"])}
        path = f"/queries/{found['id']}/recheck"
        assert api.post(path, body, role="editor").status_code == 201
    before = api.get(DRAWS).json["label_errors"]
    rows = [
        {"key": f"r{n}", "predicted": "YES", "label": "YES", "version": "v1"}
        for n in range(20)
    ]
    made = api.post("/detectors/door/import", {"items": rows})
    assert made.status_code == 200
    # The set stays what it was, until another is asked for.
    assert api.get(DRAWS).json["label_errors"] == before
    body = {"count": 70, "new_set": True}
    assert api.post(DRAWS, body).json["drawn"] == 70
    assert api.get(DRAWS).json["label_errors"] is None
    while (found := api.get(NEXT, role="editor")).status_code == 200:
        key = found.json["key"]
        body = {"label": "YES" if key[0] == "r" else truth(key)}
        path = f"/queries/{found.json['id']}/recheck"
        assert api.post(path, body, role="editor").status_code == 201
    errors = api.get(DRAWS).json["label_errors"]
    assert (errors["queries"], errors["counted"]) == (80, 70)
    assert errors["error_high"] == pytest.approx(3 / 80, abs=1e-5)
    assert errors["overall"]["low"] == pytest.approx(65 / 80, abs=1e-5)
    assert_problem(api.post(DRAWS, {"count": 1}), 409)


def test_a_query_without_an_answer_is_never_right_by_the_truth(api, door):
    for number in range(20):
        # Of the last five the detector gave no answer; one first label is wrong.
        said = None if number > 14 else "YES" if number % 2 else "NO"
        body = {"key": f"q{number}", "predicted": said, "sampling": "random"}
        body |= {"label": "YES" if number % 2 or number == 16 else "NO"}
        assert api.post("/detectors/door/queries", body).status_code == 201
    assert draw(api, 20)["drawn"] == 20
    assert len(answer_all(api)) == 20
    errors = api.get(DRAWS).json["label_errors"]
    assert (errors["queries"], errors["counted"], errors["different"]) == (20, 20, 1)
    for bound in ("low", "high"):
        assert errors["overall"][bound] == pytest.approx(15 / 20, abs=1e-5)
        yes, no = (one["truth"][bound] for one in errors["classes"])
        assert yes == pytest.approx(7 / 10, abs=1e-5)
        assert no == pytest.approx(8 / 10, abs=1e-5)
    assert errors["process"]["low"] < 15 / 20 < errors["process"]["high"]


@pytest.mark.thorough
def test_a_draw_goes_on_where_it_ended(api, labelled):
    draw(api, 20)
    first = answer_all(api)
    draw(api, 20)
    second = answer_all(api)
    assert len({*first, *second}) == 40
    assert draw(api, 2_000)["drawn"] == 60
    assert (
        "no label is left"
        in assert_problem(api.post(DRAWS, {"count": 1}), 409)["detail"]
    )


def test_targeted_labels_and_unlabelled_queries_are_not_drawn(api, door):
    for number, more in enumerate(
        [
            {"label": "YES", "sampling": "targeted"},
            {},
            {"label": "UNCLEAR"},
            {"label": "NO", "sampling": "random"},
        ]
    ):
        body = {"key": f"q{number}", "predicted": "YES", **more}
        assert api.post("/detectors/door/queries", body).status_code == 201
    assert draw(api, 10)["drawn"] == 2
    found = {api.get(f"{NEXT}&labeler={n}", role="editor").json["key"] for n in "ab"}
    assert found == {"q2", "q3"}


def test_the_same_input_is_answered_once_for_all_versions(api, door):
    for version, number in itertools.product(("v1", "v2"), range(5)):
        body = {
            "predicted": "YES",
            "version": version,
            "input": f"i{number}",
            "label": "YES",
        }
        assert api.post("/detectors/door/queries", body).status_code == 201
    for version in ("v1", "v2"):
        made = api.post(DRAWS, {"count": 5, "version": version})
        assert made.status_code == 201
    for _ in range(3):
        query = api.get(f"{NEXT}&version=v1", role="editor").json["id"]
        answer = api.post(f"/queries/{query}/recheck", {"label": "YES"}, role="editor")
        assert answer.status_code == 201
    for version in ("v1", "v2"):
        assert api.get(f"{DRAWS}?version={version}").json["answered"] == 3
    body = {"predicted": "NO", "version": "v3", "input": "i0"}
    assert api.post("/detectors/door/queries", body).status_code == 201
    made = api.post(DRAWS, {"count": 5, "version": "v3"}).json
    assert made["answered"] + made["waiting"] == 1


@pytest.mark.parametrize(
    ("body", "field"),
    [
        ({"count": 0}, "count"),
        ({"count": 2_001}, "count"),
        ({"count": "many"}, "count"),
        ({}, "count"),
        ({"count": 1, "version": "*"}, "version"),
        ({"count": 1, "colour": "red"}, "colour"),
    ],
)
def test_a_wrong_draw_is_refused(api, labelled, body, field):
    assert_problem(api.post(DRAWS, body), 422, field=field)


def test_a_part_of_the_labels_says_nothing_of_label_errors(api, labelled):
    draw(api, 10)
    answer_all(api)
    whole = "/detectors/door/estimate"
    assert api.get(whole).json["label_errors"] is not None
    for asked in ("version=*", "window=10", "include_targeted=true", "since=7d"):
        assert api.get(f"{whole}?{asked}").json["label_errors"] is None, asked
    assert_problem(api.get(f"{NEXT}&predicted=YES"), 400, field="predicted")


def test_erasing_takes_away_the_note(api, labelled):
    draw(api, 1)
    query = api.get(NEXT, role="editor").json["id"]
    body = {"label": "YES", "note": "Mr. Smith's door"}
    api.post(f"/queries/{query}/recheck", body, role="editor")
    assert api.delete(f"/queries/{query}").status_code == 204
    assert api.get(DRAWS).json["answered"] == 1


def test_rechecks_of_another_population_say_nothing_of_an_estimate(api, labelled):
    # They are drawn from the labels without a sampling too.
    row = {"key": "q61", "predicted": "YES", "label": "YES", "version": "v2"}
    assert api.patch("/detectors/door", {"label_sampling": None}).status_code == 200
    query = api.post("/detectors/door/queries", row).json["id"]
    assert api.post(DRAWS, {"count": 1, "version": "v2"}).status_code == 201
    path, body = f"/queries/{query}/recheck", {"label": "NO", "labeler": "ben"}
    assert api.post(path, body).status_code == 201
    path = "/detectors/door/estimate?version=v2"
    assert api.get(path).json["unclear_bounds"] is None
    for population, drawn in (("unstated", 1), ("live", None)):
        found = api.get(f"{path}&population={population}")
        assert found.status_code == 200
        errors = found.json["label_errors"]
        assert (errors and errors["drawn"]) == drawn
