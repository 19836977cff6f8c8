"""Bounds that hold however unclear and disputed queries would have come out."""

import itertools
import json
from typing import Any

import pytest

from tests.api.conftest import Api
from tests.conftest import WHOLE
from tracker.rounding import percents
from tracker.stats import balanced_anytime, class_intervals
from tracker.storage.estimates import counts as storage


def send(api: Api, rows: list[dict[str, Any]]) -> None:
    content = "\n".join(json.dumps(row) for row in rows).encode()
    answer = api.send_file("/detectors/door/import", content, "application/x-ndjson")
    assert answer.status_code == 200, answer.text


def look(api: Api) -> Any:
    return api.get("/detectors/door/estimate").json["unclear_bounds"]


@pytest.mark.usefixtures("door")
def test_what_an_estimate_rests_on_says_so(api):
    rows = [{"predicted": "YES", "label": "YES"}, {"predicted": "NO", "label": "NO"}]
    send(api, rows * 40)
    send(api, [{"predicted": "YES", "label": "UNCLEAR"}] * 20)
    found = api.get("/detectors/door/estimate").json
    low, high = percents(
        found["unclear_bounds"]["low"], found["unclear_bounds"]["high"]
    )
    assert found["basis"].endswith(
        " 20 answers are unclear or disputed: had all been right or wrong, the "
        f"balanced accuracy would lie between {low} and {high} %."
    )


@pytest.mark.usefixtures("door")
def test_queries_that_will_get_their_label_are_bounded_until_they_have_it(
    api, monkeypatch
):
    both = [
        {"predicted": "YES", "label": "YES"},
        {"predicted": "NO", "label": "YES"},
        {"predicted": "NO", "label": "NO"},
    ]
    send(api, both * 30)
    send(api, [{"predicted": "YES"}] * 20 + [{"predicted": "NO"}] * 10)
    # Labels of which nobody said that every query gets one have no such bounds.
    for sampling in (None, "random"):
        api.patch("/detectors/door", {"label_sampling": sampling})
        assert look(api) is None
    api.patch("/detectors/door", {"label_sampling": "all", "measure": "recall:YES"})
    found = look(api)
    assert (found["answers"], found["unlabelled"]) == (0, 30)
    # Those predicted as NO may be of the class and wrong, the others right.
    (low, _), (_, high) = (
        class_intervals("anytime", right, labelled, WHOLE)
        for right, labelled in ((30, 70), (50, 80))
    )
    assert (found["low"], found["high"]) == pytest.approx((float(low), float(high)))
    said = api.get("/detectors/door/estimate").json["basis"]
    low, high = percents(found["low"], found["high"])
    assert said.endswith(
        " 30 queries have no label yet: had all been right or wrong, the accuracy of "
        f"YES would lie between {low} and {high} %."
    )
    monkeypatch.setattr(storage, "MOST_UNLABELLED", 29)
    assert look(api) is None


@pytest.mark.usefixtures("door")
def test_few_unclear_answers_have_no_bounds(api):
    send(api, [{"predicted": "YES", "label": "YES"}] * 95)
    assert look(api) is None
    send(api, [{"predicted": "YES", "label": "UNCLEAR"}] * 5)
    assert look(api) is None
    send(api, [{"predicted": "YES", "label": "UNCLEAR"}])
    found = look(api)
    assert (found["measure"], found["answers"]) == ("balanced", 6)


@pytest.mark.usefixtures("door")
@pytest.mark.parametrize(
    "measure", ["overall", "recall:NO", "precision:NO", "balanced"]
)
def test_every_outcome_lies_within_the_bounds(api, measure):
    api.patch("/detectors/door", {"measure": measure})
    cells = {("YES", "YES"): 8, ("YES", "NO"): 2, ("NO", "NO"): 5, ("NO", "YES"): 1}
    send(
        api,
        [
            {"predicted": predicted, "label": label}
            for (label, predicted), number in cells.items()
            for _ in range(number)
        ],
    )
    unclear = ["YES", "NO", "NO"]
    send(api, [{"predicted": one, "label": "UNCLEAR"} for one in unclear])
    found = look(api)
    assert found["measure"] == measure

    def bounds(labels: tuple[str, ...]) -> tuple[float, float]:
        counts = dict(cells)
        for label, predicted in zip(labels, unclear, strict=True):
            counts[label, predicted] = counts.get((label, predicted), 0) + 1
        of = {name: counts.get((name, name), 0) for name in ("YES", "NO")}
        labelled = {
            name: sum(n for (label, _), n in counts.items() if label == name)
            for name in of
        }
        if measure == "balanced":
            low, high = balanced_anytime([*of.values()], [*labelled.values()], WHOLE)
        elif measure == "overall":
            k, n = sum(of.values()), sum(labelled.values())
            low, high = class_intervals("anytime", k, n, WHOLE)
        elif measure == "recall:NO":
            low, high = class_intervals("anytime", of["NO"], labelled["NO"], WHOLE)
        else:
            n = sum(number for (_, said), number in counts.items() if said == "NO")
            low, high = class_intervals("anytime", of["NO"], n, WHOLE)
        return float(low), float(high)

    outcomes = [bounds(one) for one in itertools.product(["YES", "NO"], repeat=3)]
    assert found["low"] <= min(low for low, _ in outcomes)
    assert found["high"] >= max(high for _, high in outcomes)
    assert found["low"] > 0.5 * min(low for low, _ in outcomes)


@pytest.mark.usefixtures("door")
def test_disputed_queries_are_among_them(api):
    api.patch("/detectors/door", {"labels_wanted": 2})
    send(api, [{"predicted": "YES"}])
    query = api.get("/detectors/door/queries").json["items"][0]["id"]
    for labeler, label in (("ann", "YES"), ("ben", "NO")):
        said = {"label": label, "labeler": labeler, "sampling": "random"}
        assert api.post(f"/queries/{query}/labels", said).status_code == 201
    assert api.get(f"/queries/{query}").json["agreement"] == "disputed"
    assert look(api)["answers"] == 1
