"""Audits by API: begun, labelled from, corrected and closed."""

from datetime import timedelta

import pytest

from tests.api.problems import assert_problem

QUERIES = 60


def truth_of(key):
    number = int(key.removeprefix("q"))
    said = "NO" if number % 4 == 0 else "YES"
    other = "NO" if said == "YES" else "YES"
    return other if number % 9 == 0 else said


@pytest.fixture
def pool(api, door):
    """Sixty queries of one version, surer where they are right."""
    rows = "".join(
        f'{{"key":"q{n}","predicted":"{"NO" if n % 4 == 0 else "YES"}",'
        f'"confidence":{0.6 if n % 9 == 0 else 0.9 + (n % 5) / 60},"version":"v1",'
        f'"metadata":{{"camera":"{"north" if n % 2 else "south"}","line":{n % 3}}}}}\n'
        for n in range(QUERIES)
    )
    sent = api.send_file("/detectors/door/import", rows, "application/x-ndjson")
    assert sent.status_code == 200, sent.text
    return door


def begin(api, **more):
    body = {"name": "November", "seed": "s", "half_width": 0.05, **more}
    made = api.post("/detectors/door/audits", body, role="editor")
    assert made.status_code == 201, made.text
    return made.json


def label(api, audit, count, *, role="labeler"):
    """Label so many draws rightly, and return their keys."""
    keys = []
    while len(keys) < count:
        wanted = min(100, count - len(keys))
        path = f"/audits/{audit['id']}/next?count={wanted}"
        items = api.get(path, role=role).json["items"]
        if not items:
            break
        for one in items:
            body = {"label": truth_of(one["key"])}
            given = api.post(f"/queries/{one['id']}/labels", body, role=role)
            assert given.status_code == 201
            assert given.json["sampling"] == "targeted"
            keys.append(one["key"])
    return keys


def estimate(api, audit):
    return api.get(f"/audits/{audit['id']}/estimate", role="viewer").json


def test_an_audit_is_begun_looked_at_and_listed(api, pool):
    audit = begin(api, aim="NO")
    assert audit["id"] == "aud_1"
    assert audit["queries"] == QUERIES
    assert 0 < audit["labels_expected"] <= QUERIES
    assert (audit["version"], audit["aim"], audit["key"]) == ("v1", "NO", None)
    assert api.get(f"/audits/{audit['id']}", role="viewer").json == audit
    assert api.get("/detectors/door/audits").json == {"items": [audit], "next": None}
    again = {"name": "November", "half_width": 0.1}
    assert_problem(api.post("/detectors/door/audits", again), 409)


@pytest.mark.thorough
def test_labels_of_an_audit_close_in_and_stay_out_of_the_estimate(api, pool):
    audit = begin(api)
    before = estimate(api, audit)
    assert (before["method"], before["labels"]) == ("active", 0)
    assert before["balanced"] == {"accuracy": None, "low": 0, "high": 1}
    keys = label(api, audit, 40)
    assert len(set(keys)) == 40
    after = estimate(api, audit)
    assert (after["draws"], after["open_draws"], after["labels_used"]) == (40, 0, 40)
    assert after["labels"] == 40
    assert sum(sum(row.values()) for row in after["confusion"].values()) == 40
    balanced = after["balanced"]
    assert 0 < balanced["low"] <= balanced["accuracy"] <= balanced["high"] <= 1
    assert after["half_width"] == (balanced["high"] - balanced["low"]) / 2
    usual = api.get("/detectors/door/estimate").json
    assert (usual["labels"], usual["targeted_left_out"]) == (0, 40)


def test_lists_of_an_audit_have_no_page_after_this_one(api, pool):
    audit = begin(api)
    for path in ("next", "history"):
        answer = api.get(f"/audits/{audit['id']}/{path}").json
        assert answer["items"]
        assert answer["next"] is None


def test_the_estimate_says_when_the_newest_label_of_the_set_arrived(api, pool, clock):
    def said():
        return estimate(api, audit)["last_label_at"]

    def arrived(query):
        return api.get(f"/queries/{query['id']}/labels").json["items"][0]["created_at"]

    audit = begin(api)
    assert said() is None
    first, last = api.get(f"/audits/{audit['id']}/next?count=2").json["items"]
    for query in (last, first):
        clock.at += timedelta(hours=1)
        api.post(f"/queries/{query['id']}/labels", {"label": "YES"})
        assert said() == arrived(query)
    # One that was there before the next audit began counts for that one, too.
    audit = begin(api, name="December")
    assert said() == arrived(first)


def test_all_versions_together_are_a_set(api, pool):
    audit = begin(api, version="*")
    assert (audit["version"], audit["queries"]) == (None, QUERIES)
    assert estimate(api, audit)["version"] == "*"


@pytest.mark.thorough
def test_all_labels_leave_nothing_open(api, pool):
    audit = begin(api, half_width=0.01)
    assert len(label(api, audit, 100)) == QUERIES
    assert api.get(f"/audits/{audit['id']}/next").json["items"] == []
    found = estimate(api, audit)
    right = {"YES": [], "NO": []}
    for number in range(QUERIES):
        truth = truth_of(f"q{number}")
        said = "NO" if number % 4 == 0 else "YES"
        right[truth].append(said == truth)
    for one in found["classes"]:
        outcomes = right[one["class"]]
        assert (one["correct"], one["labelled"]) == (sum(outcomes), len(outcomes))
        share = sum(outcomes) / len(outcomes)
        assert one["low"] <= share <= one["high"]
        assert one["high"] - one["low"] < 2e-5
    assert found["is_reached"]
    assert found["labels_left"] == 0


@pytest.mark.thorough
def test_the_same_seed_draws_the_same_and_another_one_does_not(api, pool):
    first = begin(api)
    drawn = [
        [one["id"] for one in api.get(f"/audits/{a['id']}/next?count=20").json["items"]]
        for a in (first, begin(api, name="b"), begin(api, name="c", seed="other"))
    ]
    assert drawn[0] == drawn[1] != drawn[2]
    # What is open comes again to the same labeler, and to nobody else.
    path = f"/audits/{first['id']}/next?count=20"
    assert [one["id"] for one in api.get(path).json["items"]] == drawn[0]
    others = api.get(path, role="editor").json["items"]
    assert [one["draw"] for one in others] == list(range(20, 40))


@pytest.mark.thorough
def test_an_open_draw_goes_to_others_in_time_and_holds_up_the_evidence(
    api, pool, clock
):
    audit = begin(api)
    path = f"/audits/{audit['id']}/next"
    first = api.get(path, role="labeler").json["items"][0]
    label(api, audit, 5, role="editor")
    found = estimate(api, audit)
    assert (found["labels"], found["labels_used"], found["open_draws"]) == (5, 0, 1)
    clock.at += timedelta(minutes=31)
    taken = api.get(path, role="editor").json["items"][0]
    assert taken["id"] == first["id"]
    api.post(f"/queries/{taken['id']}/labels", {"label": "UNCLEAR"})
    found = estimate(api, audit)
    assert (found["labels_used"], found["unclear"]) == (6, 1)


@pytest.mark.thorough
def test_who_answers_the_hard_ones_last_or_never_bends_nothing(api, pool):
    audits = begin(api), begin(api, name="b")
    items = api.get(f"/audits/{audits[0]['id']}/next?count=20").json["items"]
    said = {f"q{n}": "NO" if n % 4 == 0 else "YES" for n in range(QUERIES)}
    hard = [one for one in items if truth_of(one["key"]) != said[one["key"]]]
    assert hard
    for one in items:
        if one not in hard:
            body = {"label": truth_of(one["key"])}
            api.post(f"/queries/{one['id']}/labels", body)
    # As long as they are open, nothing behind the first of them is evidence.
    assert estimate(api, audits[0])["labels_used"] == hard[0]["draw"]
    for one in reversed(hard):
        body = {"label": truth_of(one["key"])}
        api.post(f"/queries/{one['id']}/labels", body)
    late = estimate(api, audits[0])
    # The same draws of the other audit have their labels as they are drawn.
    api.get(f"/audits/{audits[1]['id']}/next")
    in_order = estimate(api, audits[1])
    assert late["labels_used"] == in_order["labels_used"] == 20
    for name in ("classes", "balanced", "overall", "confusion"):
        assert late[name] == in_order[name]


@pytest.mark.thorough
def test_labels_from_elsewhere_count_from_the_next_round_on(api, pool):
    known = [f'{{"key":"q{n}","label":"{truth_of(f"q{n}")}"}}\n' for n in range(30)]
    api.send_file("/detectors/door/import", "".join(known[:10]), "application/x-ndjson")
    audit = begin(api, half_width=0.01)
    assert estimate(api, audit)["labels"] == 10
    label(api, audit, 3)
    api.send_file("/detectors/door/import", "".join(known[10:]), "application/x-ndjson")
    label(api, audit, 100)
    found = estimate(api, audit)
    assert found["labels"] == QUERIES
    assert found["balanced"]["high"] - found["balanced"]["low"] < 4e-5


@pytest.mark.thorough
def test_a_correction_gives_what_the_right_label_would_have_given(api, pool):
    audits = begin(api), begin(api, name="b")
    label(api, audits[0], 20)
    right = estimate(api, audits[0])
    wrong = api.get("/detectors/door/queries?labelled=true").json["items"][0]
    turned = "NO" if wrong["label"] == "YES" else "YES"
    path = f"/queries/{wrong['id']}/labels"
    assert api.post(path, {"label": turned}).status_code == 201
    assert estimate(api, audits[0])["confusion"] != right["confusion"]
    assert api.post(path, {"label": wrong["label"]}).status_code == 201
    same = estimate(api, audits[0])
    for name in ("classes", "balanced", "overall", "confusion"):
        assert same[name] == right[name]


@pytest.mark.thorough
def test_the_history_narrows_round_by_round(api, pool):
    audit = begin(api)
    label(api, audit, 58)
    items = api.get(f"/audits/{audit['id']}/history", role="viewer").json["items"]
    assert [one["labels"] for one in items] == [0, 24, 48, 58]
    widths = [one["balanced"]["high"] - one["balanced"]["low"] for one in items]
    assert widths == sorted(widths, reverse=True)
    now = estimate(api, audit)
    assert items[-1]["balanced"] == now["balanced"]
    assert items[-1]["classes"] == now["classes"]


def test_a_target_is_decided(api, pool):
    audit = begin(api, half_width=None, target=0.5)
    assert estimate(api, audit)["decision"]["verdict"] == "undecided"
    label(api, audit, QUERIES)
    decision = estimate(api, audit)["decision"]
    assert (decision["verdict"], decision["method"]) == ("met", "active")


def test_a_closed_audit_draws_nothing_and_tells_its_key(api, pool):
    audit = begin(api)
    item = api.get(f"/audits/{audit['id']}/next").json["items"][0]
    assert_problem(api.post(f"/audits/{audit['id']}/close", {}, role="labeler"), 403)
    closed = api.post(f"/audits/{audit['id']}/close", {}, role="editor").json
    assert closed["closed_at"] is not None
    assert len(closed["key"]) == 64
    assert api.post(f"/audits/{audit['id']}/close", {}).json == closed
    assert_problem(api.get(f"/audits/{audit['id']}/next"), 409)
    api.post(f"/queries/{item['id']}/labels", {"label": truth_of(item["key"])})
    assert estimate(api, audit)["labels_used"] == 1


def test_a_paused_audit_draws_nothing_until_it_is_resumed(api, pool):
    audit = begin(api)
    path = f"/audits/{audit['id']}"
    item = api.get(f"{path}/next").json["items"][0]
    assert_problem(api.post(f"{path}/pause", {}, role="labeler"), 403)
    paused = api.post(f"{path}/pause", {}, role="editor").json
    assert paused["paused_at"] is not None
    assert api.post(f"{path}/pause", {}).json == paused
    problem = assert_problem(api.get(f"{path}/next"), 409)
    assert "is paused" in problem["detail"]
    # What was handed out before still counts.
    api.post(f"/queries/{item['id']}/labels", {"label": truth_of(item["key"])})
    assert estimate(api, audit)["labels_used"] == 1
    assert api.post(f"{path}/resume", {}).json["paused_at"] is None
    assert api.get(f"{path}/next").json["items"][0]["draw"] == 1
    api.post(f"{path}/close", {})
    for action in ("pause", "resume"):
        assert_problem(api.post(f"{path}/{action}", {}), 409)


@pytest.mark.thorough
def test_an_audit_is_extended_by_a_narrower_aim_alone(api, pool):
    audit = begin(api, half_width=0.2)
    path = f"/audits/{audit['id']}"
    label(api, audit, 40)
    before = estimate(api, audit)
    assert before["is_reached"]
    assert_problem(api.patch(path, {"half_width": 0.1}, role="labeler"), 403)
    for wrong in (0.2, 0.3, 0, 0.5, None):
        assert_problem(api.patch(path, {"half_width": wrong}), 422, field="half_width")
    extended = api.patch(path, {"half_width": 0.02}, role="editor").json
    assert extended["half_width"] == 0.02
    assert audit["labels_expected"] < extended["labels_expected"] <= QUERIES
    [one] = extended["extensions"]
    assert (one["half_width_before"], one["half_width"], one["labels"]) == (
        0.2,
        0.02,
        40,
    )
    after = estimate(api, audit)
    assert not after["is_reached"]
    assert after["labels_left"] > 0
    assert (after["balanced"], after["classes"]) == (
        before["balanced"],
        before["classes"],
    )
    api.post(f"{path}/close", {})
    assert_problem(api.patch(path, {"half_width": 0.01}), 409)
    other = begin(api, name="b", half_width=None, target=0.9)
    refused = api.patch(f"/audits/{other['id']}", {"half_width": 0.01})
    assert_problem(refused, 422, field="half_width")


@pytest.mark.thorough
def test_what_a_closed_audit_said_stays_and_is_told_once(api, pool, tables):
    audit = begin(api)
    path = f"/audits/{audit['id']}"
    label(api, audit, 30)
    late = api.get(f"{path}/next").json["items"][0]
    said = estimate(api, audit)
    result = api.post(f"{path}/close", {}).json["result"]
    for name in ("classes", "balanced", "overall", "half_width", "is_reached"):
        assert result[name] == said[name]
    assert (result["draws"], result["open_draws"], result["labels_used"]) == (31, 1, 30)
    api.post(f"/queries/{late['id']}/labels", {"label": truth_of(late["key"])})
    api.post(f"{path}/close", {})
    assert estimate(api, audit)["labels_used"] == 31
    assert api.get(path).json["result"] == result
    told = [one for one in tables()["events"] if "audit.finished" in one]
    assert len(told) == 1
    event = api.get("/detectors/door/events").json["items"][0]
    assert event["type"] == "audit.finished"
    assert event["data"]["queries"] == api.get(path).json["queries"]
    assert (event["data"]["population"], event["data"]["unit"]) == ("set", "query")


def test_a_precision_is_of_the_queries_predicted_so(api, pool):
    audit = begin(api, aim="precision:NO", half_width=0.01)
    assert (audit["aim"], audit["where"]) == ("precision:NO", ["predicted:NO"])
    assert audit["queries"] == 15
    assert len(label(api, audit, 100)) == 15
    found = estimate(api, audit)
    # Of every fourth query each ninth is labelled otherwise.
    wrong = sum(n % 9 == 0 for n in range(0, QUERIES, 4))
    right = (15 - wrong) / 15
    assert found["overall"]["low"] <= right <= found["overall"]["high"]
    assert found["half_width"] < 1e-5
    assert found["is_reached"] is True
    # A class alone is its accuracy, which has the name recall as well.
    assert begin(api, name="recall", aim="recall:NO")["aim"] == "NO"


def test_no_answer_is_wrong_whatever_its_label_is(api, pool):
    rows = "".join(
        f'{{"key":"none-{n}","predicted":"NO_ANSWER","version":"v1"}}\n'
        for n in range(6)
    )
    sent = api.send_file("/detectors/door/import", rows, "application/x-ndjson")
    assert sent.status_code == 200, sent.text
    audit = begin(api, aim="overall", half_width=0.01)
    assert audit["queries"] == QUERIES + 6
    path = f"/audits/{audit['id']}/next?count=100"
    while items := api.get(path, role="labeler").json["items"]:
        for one in items:
            said = "YES" if "none" in one["key"] else truth_of(one["key"])
            body = {"label": said}
            api.post(f"/queries/{one['id']}/labels", body, role="labeler")
    found = estimate(api, audit)
    right = sum(n % 9 != 0 for n in range(QUERIES)) / (QUERIES + 6)
    assert found["overall"]["low"] <= right <= found["overall"]["high"]
    assert found["overall"]["high"] - found["overall"]["low"] < 1e-4
    assert found["confusion"]["YES"]["NO_ANSWER"] == 6


def test_of_a_group_the_first_query_stands_in_the_set(api, pool):
    rows = "".join(
        f'{{"key":"g{n}","predicted":"YES","group":"event-{n % 5}","version":"v1"}}\n'
        for n in range(20)
    )
    sent = api.send_file("/detectors/door/import", rows, "application/x-ndjson")
    assert sent.status_code == 200, sent.text
    audit = begin(api)
    assert audit["queries"] == QUERIES + 5
    path = f"/audits/{audit['id']}/next?count=100"
    keys = {one["key"] for one in api.get(path, role="labeler").json["items"]}
    assert {key for key in keys if key[0] == "g"} <= {f"g{n}" for n in range(5)}


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("where", "queries"),
    [
        (["metadata.camera:north"], 30),
        (["metadata.camera:north", "metadata.line:1"], 10),
        (["metadata.line:1.0"], 20),
        (["asked_at:1d.."], 60),
        (["predicted:NO"], 15),
        (["confidence:0.5..0.7"], 7),
        ("version:v1", 60),
    ],
)
def test_a_set_is_cut_out(api, pool, where, queries):
    assert begin(api, where=where)["queries"] == queries


def test_a_set_is_of_the_version_and_the_time_that_are_asked_for(api, pool, clock):
    row = {"predicted": "YES", "version": "v2", "label": "YES"}
    assert api.post("/detectors/door/queries", row).status_code == 201
    api.patch("/detectors/door", {"production_version": "v2"})
    # The version that is shown by default.
    assert begin(api, where=None)["version"] == "v2"
    asked = {"where": ["version:v1"], "since": "7d", "until": None}
    found = begin(api, name="v1", **asked)
    assert (found["version"], found["queries"]) == ("v1", QUERIES)
    week = (clock() - timedelta(days=7)).strftime("%Y-%m-%dT%H:%M")
    assert found["since"].startswith(week)
    clock.at += timedelta(days=1)
    for since, until, field in (("1h", None, "version"), ("1d", "2d", "until")):
        body = {"name": "x", "half_width": 0.1, "since": since, "until": until}
        problem = api.post("/detectors/door/audits", body)
        assert_problem(problem, 422, field=field)


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("change", "field"),
    [
        ({"since": "soon"}, "since"),
        ({"since": "999999w"}, "since"),
        ({"until": "999999w"}, "until"),
        ({"where": ["camera:north"]}, "where"),
        ({"where": ["confidence:high"]}, "where"),
        ({"where": ["predicted:MAYBE"]}, "where"),
        ({"where": ["version:v9"]}, "where"),
        ({"where": ["asked_at:soon"]}, "where"),
        ({"where": ["metadata.camera:west"]}, "version"),
        ({"version": "v9"}, "version"),
        ({"aim": "MAYBE"}, "aim"),
        ({"aim": "precision:MAYBE"}, "aim"),
        ({"half_width": 0.7}, "half_width"),
        ({"half_width": 0.1, "target": 0.9}, "body"),
        ({"name": ""}, "name"),
        ({"more": 1}, "more"),
    ],
)
def test_what_is_no_audit_is_refused(api, pool, tables, change, field):
    before = tables()
    body = {"name": "November", **change}
    problem = assert_problem(api.post("/detectors/door/audits", body), 422)
    assert [error["field"] for error in problem["errors"]] == [field]
    assert tables() == before


@pytest.mark.thorough
@pytest.mark.parametrize("count", ["0", "101", "x"])
def test_a_wrong_count_is_named(api, pool, count):
    audit = begin(api)
    wrong = api.get(f"/audits/{audit['id']}/next?count={count}")
    assert_problem(wrong, 400, field="count")


def test_what_does_not_exist_is_not_found(api, pool):
    for path in ("", "/next", "/estimate", "/history"):
        assert_problem(api.get(f"/audits/aud_404{path}"), 404)
    assert_problem(api.post("/audits/aud_404/close", {}), 404)
    assert_problem(api.post("/detectors/gate/audits", {"name": "a"}), 404)
