"""What is logged arrives once, in order, and is refused with the server's words."""

import base64
import json
import time
from pathlib import Path

import pytest
from tracker_client import Tracker, UnreachableError

from client.tests.service import Service

PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6"
    "kgAAAABJRU5ErkJggg=="
)


def door(tracker: Tracker, service: Service, **more):
    return tracker.detector(
        service.new_name(),
        question="Is the door closed?",
        classes=["YES", "NO"],
        **more,
    )


def refused(tracker: Tracker) -> list[dict]:
    if not tracker.dead_letters.exists():
        return []
    return [json.loads(line) for line in tracker.dead_letters.read_text().splitlines()]


def test_the_example_works_as_it_is_pasted(tracker, service) -> None:
    one = door(tracker, service)
    one.log("YES", confidence=0.97, key="frame-1", image=PNG, metadata={"camera": "n"})
    one.label("frame-1", "NO")
    assert tracker.flush(timeout=10)

    [query] = service.queries(one.name).values()
    assert (query["predicted"], query["label"]) == ("YES", "NO")
    assert query["confidence"] == 0.97
    assert query["metadata"] == {"camera": "n"}
    assert query["image"]
    assert refused(tracker) == []
    assert (tracker.sent, tracker.refused) == (2, 0)
    assert "NO        0/1" in str(one.estimate())


def test_keys_are_made_up_and_can_be_labelled(tracker, service) -> None:
    one = door(tracker, service, version="v7")
    keys = [one.log("YES") for _ in range(3)]
    one.label(keys[1], "YES")
    assert tracker.flush(timeout=10)

    found = service.queries(one.name)
    assert set(found) == set(keys)
    assert [found[key]["label"] for key in keys] == [None, "YES", None]
    assert {query["version"] for query in found.values()} == {"v7"}


def test_corrections_of_one_key_arrive_in_order_and_each_once(tracker, service) -> None:
    one = door(tracker, service)
    one.log("YES", key="k")
    given = ["YES", "NO", "YES", "UNCLEAR", "NO"]
    for label in given:
        one.label("k", label)
    assert tracker.flush(timeout=20)

    assert service.labels(one.name, "k") == given


def test_the_same_key_logged_again_is_the_same_query(tracker, service) -> None:
    one = door(tracker, service)
    for image in (None, PNG):
        for _ in range(2):
            one.log("YES", key=f"k{image is None}", image=image)
            assert tracker.flush(timeout=10)

    assert len(service.queries(one.name)) == 2
    assert refused(tracker) == []


def test_what_is_refused_lies_beside_with_the_words_of_the_server(
    tracker, service
) -> None:
    one = door(tracker, service)
    one.log("YES", key="good")
    one.log("MAYBE", key="bad")
    one.label("unknown", "YES")
    one.log("NO", key="nan", confidence=float("nan"))
    one.log("NO", key="half \ud800")
    one.log("NO", key="good")
    one.log("YES", key="no picture", image=b"GIF89a")
    one.log("YES", key="good too")
    assert not tracker.flush(timeout=20)

    assert set(service.queries(one.name)) == {"good", "good too"}
    found = {row["key"]: row for row in refused(tracker)}
    assert set(found) == {
        "bad",
        "unknown",
        "nan",
        "half \ud800",
        "good",
        "no picture",
    }
    assert "must be one of YES, NO" in found["bad"]["errors"][0]["message"]
    assert "is not known" in found["unknown"]["errors"][0]["message"]
    assert found["good"]["row"]["predicted"] == "NO"
    assert base64.b64decode(found["no picture"]["image"]) == b"GIF89a"
    assert (tracker.sent, tracker.refused) == (2, 6)


def test_a_refused_row_is_taken_by_no_later_flush(tracker, service, tmp_path) -> None:
    one = door(tracker, service)
    one.log("MAYBE", key="bad")
    assert not tracker.flush(timeout=20)
    assert not tracker.flush(timeout=20)

    one.log("YES", key="good")
    assert not tracker.flush(timeout=20)
    assert set(service.queries(one.name)) == {"good"}
    # The next program on this spool is told of its own rows.
    with Tracker(service.url, service.key, spool=tmp_path / "spool") as following:
        following.detector(one.name).log("NO", key="next")
        tracker.close()
        assert following.flush(timeout=20)
    assert set(service.queries(one.name)) == {"good", "next"}


def test_more_mistakes_than_an_answer_names_lose_no_row(tracker, service) -> None:
    one = door(tracker, service)
    keys = [
        one.log("?", confidence=7, sampling="?", key=f"bad {number}")
        if number % 3
        else one.log("YES", key=f"good {number}")
        for number in range(1_500)
    ]
    assert not tracker.flush(timeout=30)

    good = {key for key in keys if key.startswith("good")}
    assert set(service.queries(one.name)) == good
    assert {row["key"] for row in refused(tracker)} == set(keys) - good
    assert tracker.refused == 1_000


def test_a_confidence_a_rounding_above_one_is_one(tracker, service) -> None:
    numpy = pytest.importorskip("numpy")
    one = door(tracker, service)
    one.log(numpy.str_("YES"), key="a", confidence=numpy.float32(1.0000001))
    one.log("NO", key="b", confidence=-1e-9)
    one.log("NO", key="c", confidence=1.001)
    assert not tracker.flush(timeout=10)

    found = service.queries(one.name)
    assert (found["a"]["confidence"], found["b"]["confidence"]) == (1, 0)
    assert [row["key"] for row in refused(tracker)] == ["c"]


def test_metadata_that_json_lacks_goes_as_text(tracker, service) -> None:
    numpy = pytest.importorskip("numpy")
    one = door(tracker, service)
    given = {"a": numpy.int64(3), "b": float("nan"), "c": Path("x"), 4: [numpy.ones(2)]}
    one.log("YES", key="k", metadata=given)
    assert tracker.flush(timeout=10)

    expected = {"a": 3, "b": "nan", "c": "x", "4": [[1, 1]]}
    assert service.queries(one.name)["k"]["metadata"] == expected


def test_rows_for_no_detector_are_refused_and_hold_nobody_up(tracker, service) -> None:
    one = door(tracker, service)
    tracker.detector("nowhere / at all").log("YES", key="lost")
    one.log("YES", key="found")
    assert not tracker.flush(timeout=10)

    assert set(service.queries(one.name)) == {"found"}
    assert [row["status"] for row in refused(tracker)] == [404]


def test_instants_are_those_of_the_call(tracker, service) -> None:
    one = door(tracker, service)
    one.log("YES", key="k")
    one.log("YES", key="given", asked_at="2026-01-02T03:04:05Z")
    with pytest.raises(ValueError, match="no time zone"):
        one.log("YES", asked_at=__import__("datetime").datetime(2026, 1, 1))
    before = time.time()
    assert tracker.flush(timeout=10)

    found = service.queries(one.name)
    assert found["given"]["asked_at"] == "2026-01-02T03:04:05Z"
    assert (
        found["k"]["asked_at"]
        < __import__("datetime")
        .datetime.fromtimestamp(before, __import__("datetime").timezone.utc)
        .isoformat()
    )


def test_a_flush_without_a_server_says_so_and_loses_nothing(service, tmp_path) -> None:
    spool = tmp_path / "spool"
    name = service.new_name()
    with Tracker(
        "http://127.0.0.1:9", service.key, spool=spool, exit_seconds=0
    ) as absent:
        one = absent.detector(name, question="?", classes=["YES", "NO"])
        key = one.log("YES")
        assert not absent.flush(timeout=0.2)
        # Without a key it cannot be sent again later, and so it does not wait.
        with pytest.raises(UnreachableError):
            one.log_frame([{"predicted": "YES"}])
    with Tracker(service.url, service.key, spool=spool) as back:
        assert back.flush(timeout=10)

    assert set(service.queries(name)) == {key}


def test_queries_are_logged_with_their_group(tracker, service) -> None:
    one = door(tracker, service, group_by="metadata.session", reference=0.9)
    one.log("YES", key="a", group="event-1")
    one.log("YES", key="b", metadata={"session": "s"})
    one.log_frame([{"key": "c", "predicted": "NO", "event": 7}], group="event")
    assert tracker.flush(timeout=10)
    assert refused(tracker) == []
    found = service.queries(one.name)
    assert {key: found[key]["group"] for key in "abc"} == {
        "a": "event-1",
        "b": "s",
        "c": "7",
    }
