"""Lists of queries: found by key and right or wrong, sorted, counted."""

from itertools import pairwise, product

import pytest

from tests.api.problems import assert_problem
from tests.conftest import START
from tests.databases import noted_statements
from tracker.services.detectors import get_detector
from tracker.services.estimates.query_lists import (
    QueryFilter,
    build_filter,
    find_and_count,
)
from tracker.storage.queries.finding import SORTS, count_queries

PATH = "/detectors/door/queries"
ROWS = [
    {"key": "b1", "predicted": "YES", "label": "YES", "confidence": 0.5},
    {"key": "b2", "predicted": "YES", "label": "NO", "confidence": 0.5},
    {"key": "a*", "predicted": "NO", "label": "YES"},
    {"key": "b", "predicted": "NO", "confidence": 0.9, "metadata": {"camera": "x"}},
    {"key": "c\ud7ff", "predicted": "NO", "label": "UNCLEAR", "confidence": 0.0},
    {"predicted": "NO", "asked_at": "2026-01-01T00:00:00Z"},
    {"predicted": "NO", "asked_at": "2026-01-01T00:00:00Z", "confidence": 0.5},
]


@pytest.fixture
def logged(api, door):
    """The queries as they were answered."""
    answers = [api.post(PATH, row) for row in ROWS]
    assert {answer.status_code for answer in answers} == {201}
    return [answer.json for answer in answers]


def find(api, **asked):
    page = api.get(PATH, query_string=asked).json
    assert page["total"] == len(page["items"])
    return {one["key"] for one in page["items"]}


def test_filters_narrow_the_list_and_its_total(api, logged):
    assert find(api, wrong="true") == {"b2", "a*"}
    assert find(api, wrong="false") == {"b1"}
    assert find(api, key="b") == {"b"}
    assert find(api, key="b*") == {"b", "b1", "b2"}
    assert find(api, key="c\ud7ff*") == {"c\ud7ff"}
    assert find(api, key="a*") == {"a*"}
    assert find(api, key="%") == set()
    assert find(api, key="*") == {row["key"] for row in ROWS if "key" in row}
    assert find(api, where="metadata.camera:x") == {"b"}
    assert find(api, where=["confidence:0.5", "predicted:YES"], wrong="true") == {"b2"}
    assert find(api, until="10d") == {None}


def test_each_sort_goes_through_all_pages(api, logged):
    for sort, (name, is_down) in SORTS.items():
        rows = api.walk(f"{PATH}?sort={sort}&limit=2")
        assert sorted(one["id"] for one in rows) == sorted(one["id"] for one in logged)
        values = [one[name] for one in rows]
        known = [value for value in values if value is not None]
        assert values[len(known) :] == [None] * (len(rows) - len(known))
        if name == "id":
            known = [int(value.removeprefix("iq_")) for value in known]
        for first, second in pairwise(known):
            assert first >= second if is_down else first <= second, sort


def test_the_total_is_that_of_all_pages(api, logged):
    page = api.get(f"{PATH}?limit=2&where=predicted:NO&where=confidence:0..1").json
    assert page["total"] == 3
    rest = api.get(page["next"]).json
    assert rest["total"] == 3
    assert len(rest["items"]) == 1


def test_what_is_wrong(api, logged):
    assert_problem(api.get(f"{PATH}?sort=random"), 400, field="sort")
    assert_problem(api.get(f"{PATH}?wrong=maybe"), 400, field="wrong")
    assert_problem(api.get(f"{PATH}?after=iq_5"), 400, field="after")
    assert_problem(api.get(f"{PATH}?where=label:NO"), 400, field="where")


def test_what_another_version_did_better_or_worse(api, door):
    for name, label, was, is_now in (
        ("both", "YES", "YES", "YES"),
        ("gained", "YES", "NO", "YES"),
        ("lost", "NO", "NO", "YES"),
        ("neither", "NO", "YES", "YES"),
        ("unclear", "UNCLEAR", "NO", "YES"),
        ("none", None, "NO", "YES"),
    ):
        for version, said in (("v1", was), ("v2", is_now)):
            row = {"key": f"{name} {version}", "input": name, "version": version}
            made = api.post(PATH, {**row, "predicted": said, "label": label})
            assert made.status_code == 201
    against = {"version": "v2", "versus": "v1"}
    assert find(api, **against) == {"gained v2", "lost v2"}
    assert find(api, **against, wrong="false") == {"gained v2"}
    assert find(api, **against, wrong="true") == {"lost v2"}
    assert find(api, **against, wrong="true", label="YES") == set()
    assert find(api, versus="v1", version="v1") == set()
    assert_problem(api.get(f"{PATH}?versus=v9"), 400, field="versus")
    assert_problem(api.get(f"{PATH}?versus=*"), 400, field="versus")


def test_a_repeat_is_listed_though_it_is_in_no_count(api, door):
    for key, said in (("first", "YES"), ("repeat", "NO")):
        row = {"key": key, "input": "frame", "predicted": said}
        assert api.post(PATH, {**row, "label": "YES"}).status_code == 201
    assert find(api, wrong="true") == {"repeat"}
    assert find(api, labelled="true") == {"first", "repeat"}
    assert find(api, label="YES", predicted="NO") == {"repeat"}


@pytest.mark.parametrize("has_repeats", [False, True])
def test_the_total_is_what_counting_gives(api, door, database, recompute, has_repeats):
    samplings, labels = ("random", "targeted", "unstated"), ("YES", "NO", "UNCLEAR")
    ids = []
    assert api.patch("/detectors/door", {"slices": ["camera"]}).status_code == 200
    for predicted, label, sampling, version in product(
        ("YES", "NO"), labels, samplings, "ab"
    ):
        row = {"predicted": predicted, "label": label, "sampling": sampling}
        row |= {"version": version, "input": "same" if has_repeats else None}
        row["asked_at"] = f"2025-12-0{1 + len(ids) % 4}T12:00:00Z"
        row["metadata"] = {"camera": "north" if len(ids) % 3 else "south"}
        ids.append(api.post(PATH, row).json["id"])
    assert api.post(PATH, {"predicted": "NO", "version": "a"}).status_code == 201
    recompute()
    # What is corrected now waits for the job; what is erased stays in the counts.
    for corrected in ids[::5]:
        answer = api.post(f"/queries/{corrected}/labels", {"label": "NO"})
        assert answer.status_code == 201
    for erased in ids[::7]:
        assert api.delete(f"/queries/{erased}").status_code == 204
    spans = ("asked_at:2025-12-02..2025-12-03",), ("asked_at:2025-12-02T12:00:00Z..",)
    cuts = ("metadata.camera:south",), ("predicted:YES", "version:a")
    choices = {
        "since": (None, START.replace(2025, 12, 2, 12)),
        "where": ((), *spans, *cuts),
        "labelled": (None, True, False),
        "label": (None, *labels),
        "predicted": (None, "NO"),
        "is_wrong": (None, True, False),
        "is_counted": (None, True, False),
        "version": (None, "*", "b"),
    }
    place = {"after": None, "limit": 100, "at": START}
    with database.read() as session:
        detector = get_detector(session, "door")
        # Some of the combinations, in which every two choices meet.
        for values in list(product(*choices.values()))[::61]:
            wanted = QueryFilter(**dict(zip(choices, values, strict=True)))
            counted = count_queries(
                session, build_filter(session, detector, wanted, at=START)
            )
            for sort, most in (("newest", None), ("key", 3)):
                found, total = find_and_count(
                    session, detector, wanted, sort=sort, at_most=most, **place
                )
                assert len(found) == counted, wanted
                assert total == min(counted, most or counted), wanted


def test_a_page_takes_as_many_statements_as_a_query(api, door, database):
    api.post("/detectors/door/import", {"items": [{"predicted": "YES"}] * 30})
    counts = []
    for limit in (1, 30):
        with noted_statements(database) as statements:
            page = api.get(PATH, query_string={"limit": limit}).json
        assert len(page["items"]) == limit
        counts.append(len(statements))
    assert counts[0] == counts[1] <= 12
