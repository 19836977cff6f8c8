"""Frames and classifiers in, frames, tables and charts out."""

import json
from datetime import date, datetime

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest
from tracker_client.server import ServerError, path_of

from client.tests.test_logging import door, refused

mpl.use("Agg")


@pytest.fixture
def one(tracker, service):
    return door(tracker, service, target=0.5)


def test_a_frame_is_logged_once_however_often(tracker, service, one) -> None:
    frame = pd.DataFrame(
        {
            "guess": ["YES", "NO", "NO", "NO"],
            "score": np.array([1.0000001, 0.5, np.nan, 0.5], dtype="float32"),
            "truth": ["YES", None, "YES", np.nan],
            "camera": ["north", "south", None, "south"],
        }
    )
    for _ in range(2):
        assert (
            one.log_frame(
                frame,
                predicted="guess",
                confidence="score",
                label="truth",
                metadata=["camera"],
            )
            == 4
        )
        assert tracker.flush(timeout=10)

    found = list(service.queries(one.name).values())
    assert sorted(
        (q["predicted"], q["label"] or "", q["confidence"])
        for q in found
        if q["confidence"]
    ) == [
        ("NO", "", 0.5),
        ("NO", "", 0.5),
        ("YES", "YES", 1.0),
    ]
    assert [q["metadata"] for q in found if q["confidence"] is None] == [{}]
    assert refused(tracker) == []


def test_a_frame_without_keys_goes_by_the_rule_of_files(service, one) -> None:
    frame = [{"predicted": "YES", "label": "YES"}, {"predicted": "NO", "label": "NO"}]
    one.log_frame(frame)
    frame.append({"predicted": "NO", "label": "YES"})
    one.log_frame(frame)
    assert len(service.queries(one.name)) == 3

    frame[1]["label"] = "YES"
    with pytest.raises(ServerError, match="--same-rows"):
        one.log_frame(frame)
    one.log_frame(frame, same_rows=True)
    labels = [query["label"] for query in service.queries(one.name).values()]
    assert labels == ["YES"] * 3
    one.log_frame(frame, new_rows=True)
    assert len(service.queries(one.name)) == 6


def test_a_row_that_is_wrong_in_a_frame_without_keys_is_an_error(service, one) -> None:
    with pytest.raises(ServerError, match="1 of 2 rows are wrong"):
        one.log_frame([{"predicted": "YES"}, {"predicted": "MAYBE"}])
    assert service.queries(one.name) == {}


def test_a_frame_with_the_names_of_the_fields_needs_no_more(
    tracker, service, one
) -> None:
    rows = [{"key": "a", "predicted": "YES", "metadata": {"n": 1}, "label": "NO"}]
    one.log_frame(rows)
    one.log_frame(pd.DataFrame({"key": ["a"], "label": ["YES"]}))
    assert tracker.flush(timeout=10)

    assert service.labels(one.name, "a") == ["NO", "YES"]
    assert service.queries(one.name)["a"]["metadata"] == {"n": 1}


def test_judges_are_logged_beside_the_labels(tracker, service, one, tmp_path) -> None:
    one.log_frame([{"key": "a", "predicted": "YES", "judge:llm": "NO"}])
    frame = pd.DataFrame({"key": ["a"], "rules": ["YES"]})
    one.log_frame(frame, **{"judge:rules": "rules"})
    assert tracker.flush(timeout=10)
    path = tmp_path / "verdicts.csv"
    path.write_text("key,judge:llm\na,YES\n")
    assert one.log_file(path)["verdicts_added"] == 1

    assert refused(tracker) == []
    query = service.queries(one.name)["a"]
    found = service.server.get(f"/queries/{query['id']}/judgements").json["items"]
    assert {said["judge"]: said["verdict"] for said in found} == {
        "llm": "YES",
        "rules": "YES",
    }
    assert query["label"] is None


_AT = "2026-01-02T03:04:05.123456"


@pytest.mark.parametrize(
    ("at", "said"),
    [
        (pd.Timestamp(f"{_AT}789"), ["UTC", "down"]),
        (pd.Timestamp(f"{_AT}789", tz="Asia/Tokyo"), ["down"]),
        (f"{_AT}789", ["UTC", "down"]),
        (f"{_AT}789Z", ["down"]),
        (np.datetime64(f"{_AT}789"), ["UTC", "down"]),
        (datetime.fromisoformat(_AT), ["UTC"]),
        (date(2026, 1, 2), ["UTC"]),
    ],
)
def test_times_of_a_frame_are_read_as_those_of_a_file(
    tracker, service, one, at, said
) -> None:
    rows = [{"key": "a", "predicted": "YES", "asked_at": at}]
    with pytest.warns(UserWarning, match="UTC|nano") as warned:
        one.log_frame(rows if isinstance(at, np.datetime64) else pd.DataFrame(rows))
    assert [str(one.message).split()[-1] for one in warned] == said
    assert tracker.flush(timeout=10)
    assert refused(tracker) == []
    found = pd.Timestamp(service.queries(one.name)["a"]["asked_at"])
    expected = pd.Timestamp(at).floor("us")
    if expected.tzinfo is None:
        expected = expected.tz_localize("UTC")
    assert found == expected


@pytest.mark.parametrize("wrong", [{"predicted": "x"}, {"color": "guess"}, {}])
def test_a_column_that_is_not_there_is_named(one, wrong) -> None:
    with pytest.raises(ValueError, match=r"'x'|'color'|predicted="):
        one.log_frame(pd.DataFrame({"guess": ["YES"]}), **wrong)


def test_a_classifier_is_logged_with_its_confidence_and_the_truth(
    tracker, service
) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    inputs = np.array([[0.0], [1.0], [2.0], [3.0], [3.0]])
    truth = np.array([0, 0, 1, 1, 1])
    fitted = linear_model.LogisticRegression().fit(inputs, truth)
    digit = tracker.detector(service.new_name(), question="?", classes=[0, 1])
    for version in ("v1", "v1", "v2"):
        assert digit.log_classifier(fitted, inputs, truth, version=version) == 5
        assert tracker.flush(timeout=10)

    found = service.queries(digit.name).values()
    assert len(found) == 10
    assert {q["label"] for q in found} == {"0", "1"}
    assert min(q["confidence"] for q in found) >= 0.5
    inputs_of = [{q["input"] for q in found if q["version"] == v} for v in ("v1", "v2")]
    assert inputs_of[0] == inputs_of[1]
    assert len(inputs_of[0]) == 4


@pytest.fixture
def labelled(tracker, service, one):
    for number in range(40):
        one.log("YES", key=f"{number}", label="YES" if number % 10 else "NO")
        one.log("NO", key=f"n{number}", label="NO")
    assert tracker.flush(timeout=20)
    service.server.ask("POST", f"{path_of(one.name)}/recompute")
    return one


def test_history_is_a_frame(labelled) -> None:
    history = labelled.history()

    assert isinstance(history, pd.DataFrame)
    assert str(history["computed_at"].dt.tz) == "UTC"
    assert set(history["scope"]) == {"YES", "NO", "balanced"}
    assert (history["low"] <= history["high"]).all()


@pytest.mark.thorough
def test_an_estimate_shows_itself(labelled) -> None:
    found = labelled.estimate()
    shown = found._repr_mimebundle_()

    assert found["labels"] == found.labels == 80
    assert "YES       36/36  100.0 %" in str(found)
    assert set(shown) == {
        "text/plain",
        "text/html",
        "image/svg+xml",
        "application/vnd.vegalite.v6+json",
    }
    assert shown["image/svg+xml"].lstrip().startswith("<svg")
    assert "v6" in shown["application/vnd.vegalite.v6+json"]["$schema"]
    assert "<td>36/36</td>" in shown["text/html"]
    json.dumps(shown)


@pytest.mark.thorough
def test_an_estimate_draws_a_bar_for_each_row(labelled) -> None:
    found = labelled.estimate()
    axes = found.plot()

    bars = [(bar.get_x(), bar.get_x() + bar.get_width()) for bar in axes.patches]
    rows = [found.balanced, *found.classes]
    assert bars == [pytest.approx((row["low"], row["high"])) for row in rows]
    assert found.plot(ax=axes) is axes
    mpl.pyplot.close("all")


def test_a_name_is_never_html(tracker, service) -> None:
    name = f"<script>alert(1) {service.new_name()}"
    one = tracker.detector(name, question="?", classes=["<b>", "NO"])
    one.log("<b>", label="<b>")
    assert tracker.flush(timeout=10)

    html = one.estimate()._repr_html_()
    assert "<script>" not in html
    assert "<td><b></td>" not in html


def test_a_verdict_is_waited_for(labelled, service, tracker) -> None:
    # Nobody has said how the labels came.
    assert labelled.estimate(method="anytime").verdict(0.5) == "undecided"
    answer = service.server.ask(
        "PATCH",
        path_of(labelled.name),
        b'{"label_sampling": "random"}',
        {"Content-Type": "application/json"},
    )
    assert answer.status == 200
    assert labelled.wait_for_verdict(timeout=1).verdict(0.5) == "met"
    other = door(tracker, service)
    assert tracker.flush(timeout=10)
    with pytest.raises(ValueError, match="no target"):
        other.wait_for_verdict()


def test_a_verdict_may_take_too_long(tracker, service) -> None:
    one = door(tracker, service, target=0.9)
    assert tracker.flush(timeout=10)
    with pytest.raises(TimeoutError):
        one.wait_for_verdict(timeout=0.3, poll_seconds=0.1)


def test_a_file_is_sent_as_it_is(one, service, tmp_path) -> None:
    path = tmp_path / "run.csv"
    path.write_text("id,guess,ground truth\n1,YES,YES\n2,NO,YES\n")
    assert one.log_file(path)["labels_added"] == 2
    assert one.log_file(str(path))["unchanged"] == 2
    assert one.log_file(path, version="v2", map=["key=id"], on_error="skip")["errors"]
    path.write_text("id,guess\n3,MAYBE\n")
    with pytest.raises(ServerError, match="1 of 1 rows are wrong"):
        one.log_file(path)
    assert len(service.queries(one.name)) == 2
