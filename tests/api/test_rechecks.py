"""Labels that are given a second time: blind, unscored, and what they tell."""

import itertools
from collections import Counter

import pytest

from tests.api.conftest import Api
from tests.api.problems import assert_problem
from tracker.stats import label_error_bound, noise_aware

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
    wrong = sum(key in keys for key in ("q2", "q4", "q8"))
    assert (errors["drawn"], errors["counted"], errors["different"]) == (40, 40, wrong)
    assert errors["trusted"] is True
    assert "none" in errors["assumption"]
    assert errors["error_high"] == pytest.approx(label_error_bound(wrong, 40, 0.05))
    table = Counter(
        ("YES" if int(k[1:]) % 2 or k in {"q2", "q4", "q8"} else "NO", truth(k))
        for k in keys
    )
    names = ("YES", "NO")
    expected = noise_aware(
        [one["correct"] for one in after["classes"]],
        [one["labelled"] for one in after["classes"]],
        [[table[a, b] for b in names] for a in names],
        0.95,
    )
    assert errors["balanced"]["low"] == pytest.approx(float(expected.balanced.low))
    assert [one["low"] for one in errors["classes"]] == pytest.approx(
        expected.classes.low.tolist()
    )
    assert [one["high"] for one in errors["classes"]] == pytest.approx(
        expected.classes.high.tolist()
    )


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
    problem = assert_problem(api.post(path, {"label": "YES"}, role="editor"), 409)
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
def test_without_trust_errors_must_be_independent(api, labelled):
    draw(api, 40)
    answer_all(api, role="labeler")
    errors = api.get(DRAWS).json["label_errors"]
    assert errors["trusted"] is False
    assert "independently" in errors["assumption"]
    other = errors["balanced"]["low"]
    with_trust = {"label": "YES", "trusted": True}
    query = api.walk("/detectors/door/queries")[0]["id"]
    answer = api.post(f"/queries/{query}/recheck", with_trust, role="labeler")
    assert_problem(answer, 403)
    assert other < 0.5


@pytest.mark.thorough
def test_one_untrusted_answer_among_trusted_ones_is_treated_as_missing(api, labelled):
    draw(api, 40)
    found = api.get(NEXT, role="labeler").json
    body = {"label": truth(found["key"])}
    path = f"/queries/{found['id']}/recheck"
    assert api.post(path, body, role="labeler").status_code == 201
    alone = api.get(DRAWS).json["label_errors"]
    assert (alone["trusted"], alone["untrusted_left_out"]) == (False, 0)
    keys = answer_all(api)
    errors = api.get(DRAWS).json["label_errors"]
    assert (errors["trusted"], errors["untrusted_left_out"]) == (True, 1)
    assert (errors["drawn"], errors["answered"]) == (40, 40)
    assert errors["unanswered"] == errors["counted"] - len(keys[: errors["counted"]])
    wrong = errors["different"] + errors["unanswered"]
    assert errors["error_high"] == pytest.approx(
        label_error_bound(wrong, errors["counted"], 0.05)
    )
    # Who skips what is hard would choose how many count.
    assert "wrong as often as the others" in errors["assumption"]
    assert "independently" not in errors["assumption"]


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
def test_what_has_no_answer_counts_as_different(api, labelled):
    draw(api, 30)
    for _ in range(2):
        found = api.get(NEXT, role="editor").json
        api.get(f"{NEXT}&skip={found['id']}", role="editor")
    answered = 0
    while answered < 27:
        found = api.get(NEXT, role="editor").json
        body = {"label": truth(found["key"])}
        assert (
            api.post(f"/queries/{found['id']}/recheck", body, role="editor").status_code
            == 201
        )
        answered += 1
    errors = api.get(DRAWS).json["label_errors"]
    assert errors["answered"] == 27
    high = label_error_bound(
        errors["different"] + errors["unanswered"], errors["counted"], 0.05
    )
    assert errors["error_high"] == pytest.approx(high)
    # More that were drawn make no bound worse before they are answered.
    assert draw(api, 20)["label_errors"]["error_high"] <= errors["error_high"]


@pytest.mark.thorough
def test_a_draw_is_uniform_and_goes_on_where_it_ended(api, labelled):
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
    # Neither label nor prediction has anything to do with who comes first.
    assert 3 <= sum(truth(key) == "YES" for key in first) <= 17


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
