"""Questions that are asked several times."""

from itertools import combinations
from statistics import fmean

import pytest

from tests.web.conftest import Visitor

PATH = "/detectors/door/import?extra=metadata"
# By question, whether each answer was right; None has no label.
ANSWERS = {"a": [1, 1, 1], "b": [1, 0, 1], "c": [0, 0, 0], "d": [1, 0], "e": [1, None]}


@pytest.fixture
def asked(api, door):
    lines = ["id,epoch,pred,label", "alone,1,YES,NO"]
    for question, answers in ANSWERS.items():
        for epoch, is_right in enumerate(answers):
            predicted = "NO" if is_right == 0 else "YES"
            label = "" if is_right is None else "YES"
            lines.append(f"{question},{epoch},{predicted},{label}")
    sent = api.send_file(PATH, "\n".join(lines), "text/csv", role="editor")
    assert sent.status_code == 200, sent.text


def test_pass_at_k_is_the_chance_among_all_choices_of_k(api, asked) -> None:
    found = api.get("/detectors/door/repeats").json
    assert (found["questions"], found["version"]) == (5, "default")
    differing = found["differing"]
    assert (differing["correct"], differing["labelled"]) == (2, 5)
    assert 0 < differing["low"] < 0.4 < differing["high"] < 1
    assert [one["k"] for one in found["items"]] == [1, 2, 3]
    labelled = [[x for x in one if x is not None] for one in ANSWERS.values()]
    for item in found["items"]:
        k = item["k"]
        some = [list(combinations(one, k)) for one in labelled if len(one) >= k]
        assert item["questions"] == len(some)
        passes = [fmean(map(any, choices)) for choices in some]
        assert item["pass_at_k"] == pytest.approx(fmean(passes))
        passes = [fmean(map(all, choices)) for choices in some]
        assert item["pass_hat_k"] == pytest.approx(fmean(passes))


def test_repeats_are_those_of_a_version(api, asked) -> None:
    rows = '{"predicted": "YES", "group": "a", "version": "v2", "label": "YES"}\n'
    api.send_file(PATH, rows * 2, "application/x-ndjson", role="editor")
    found = api.get("/detectors/door/repeats?version=v2").json
    assert (found["questions"], found["differing"]["correct"]) == (1, 0)
    assert found["items"][-1]["pass_hat_k"] == 1
    assert api.get("/detectors/door/repeats?version=*").json["questions"] == 6
    assert api.get("/detectors/door/repeats?version=v3").status_code == 400


def test_the_page_shows_them(app, asked) -> None:
    page = Visitor(app).get("/detectors/door/repeats")
    assert "was asked 5 questions more than once" in page.text
    assert "Its answers to 40.0 % of them differ (2 of 5;" in page.text
    # Of pairs of answers.
    assert "275.0 %33.3 %4" in page.text


def test_a_detector_without_groups_has_none(app, api, door) -> None:
    found = api.get("/detectors/door/repeats").json
    assert (found["questions"], found["items"]) == (0, [])
    assert (
        "No question was asked more than once"
        in Visitor(app).get("/detectors/door/repeats").text
    )
