"""The user's own model is asked about images that come without a prediction."""

import json
from collections.abc import Iterator
from datetime import timedelta

import pytest

from tests.api.conftest import Api
from tests.api.problems import assert_problem
from tests.groundlight.conftest import jpeg
from tests.telling.receiver import (
    Behaviour,
    Receiver,
    answer,
    receiving,
    reset,
    stay_silent,
    stream,
    write,
)
from tracker.jobs.loop import Loop
from tracker.jobs.predictors import Predictions
from tracker.jobs.retention import Retention
from tracker.storage.images import open_image_store
from tracker.storage.tasks import Task, take


def say(body: object, *more: str) -> Behaviour:
    """Answer with this JSON, its length among the headers unless others are given."""
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    lines = ["HTTP/1.0 200 OK", *(more or [f"Content-Length: {len(content)}"]), "", ""]
    head = "\r\n".join(lines).encode()

    def respond(handler) -> None:
        write(handler, head + content)
        handler.connection.close()

    return respond


@pytest.fixture
def model() -> Iterator[Receiver]:
    with receiving(say({"predicted": "YES", "confidence": 0.75})) as started:
        yield started


@pytest.fixture
def app(settings, database, clock, applications):
    named = settings.model_copy(update={"predictor_hosts": ("127.0.0.1",)})
    return applications.get(named, database)


@pytest.fixture
def api(app, keys):
    return Api(app, keys)


def count_tasks(database):
    with database.read() as session:
        return session.query(Task).filter_by(kind="prediction").count()


def asking(database, images, hosts, clock, **said):
    said |= {"database": database, "images": images, "clock": clock}
    return Loop(database, "w", [Predictions(allowed_hosts=hosts, **said)], clock)


@pytest.fixture
def asker(database, settings, clock):
    images = open_image_store(settings)
    return asking(database, images, ("127.0.0.1",), clock, timeout_seconds=1.0)


@pytest.fixture
def door(device, api, model):
    made = device.make()["id"]
    answered = api.patch(f"/detectors/{made}", {"predictor": model.url})
    assert answered.json["predictor"] == model.url
    return made


@pytest.mark.thorough
def test_a_predictor_gives_what_a_query_waits_for(device, api, door, model, asker):
    query = device.log(door, {"input": "frame-1"})["id"]
    assert device.get(f"/image-queries/{query}")["result"] is None
    assert asker.run() == 1
    result = device.get(f"/image-queries/{query}")["result"]
    assert (result["label"], result["confidence"]) == ("YES", 0.75)
    [asked] = model.messages
    assert asked.path == "/hook?a=1"
    assert asked.headers["x-tracker-query"] == query
    assert asked.headers["x-tracker-detector"] == door
    assert asked.headers["content-type"] == "image/jpeg"
    assert asked.body == device.call("GET", f"/image-queries/{query}/image").data
    assert api.get(f"/queries/{query}").json["input"] == "frame-1"
    assert asker.run() == 0
    assert len(model.messages) == 1


@pytest.mark.thorough
def test_an_answer_may_end_with_its_connection(device, api, door, model, asker):
    model.behaviour = say(b'{"predicted": "NO", "version": "v7"}', "X-A: b")
    query = device.log(door)["id"]
    assert asker.run() == 1
    found = api.get(f"/queries/{query}").json
    assert (found["predicted"], found["version"]) == ("NO", "v7")


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("behaviour", "said"),
    [
        (answer(500), "500"),
        (say({"predicted": "MAYBE"}), "MAYBE"),
        (say({"predicted": "YES", "confidence": 2}), "at most 1"),
        (say({"label": "YES"}), "label"),
        (say({"confidence": 0.5}), "predicted"),
        (say(b"[]"), "JSON object"),
        (say(b"<html>"), "<html>"),
        (say(b"{}" + b" " * 70_000), "65,536 bytes"),
        (say(b"{}", "Content-Length: 99"), "IncompleteRead"),
        (stream, "65,536 bytes"),
        (reset, "without an answer"),
        (stay_silent, "no answer within 1 seconds"),
    ],
)
def test_what_is_no_prediction_is_noted_and_asked_for_again_later(
    device, api, door, model, asker, clock, database, behaviour, said
):
    model.behaviour = behaviour
    query = device.log(door)["id"]
    assert asker.run() == 0
    with database.read() as session:
        from tracker.services.labelling.predictions import find_any

        assert said in find_any(session, query).problem
    assert asker.run() == 0
    assert len(model.messages) == 1
    clock.at += timedelta(seconds=11)
    model.behaviour = say({"predicted": "YES"})
    assert asker.run() == 1
    assert api.get(f"/queries/{query}").json["predicted"] == "YES"


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.2/",
        "https://example.com/predict",
        "http://localhost:80/",
        "ftp://127.0.0.1/",
        "http://a@127.0.0.1/",
        "http://127.0.0.1/#a",
        "",
    ],
)
def test_images_go_to_no_host_that_was_not_named(api, device, url):
    made = device.make()["id"]
    answered = api.patch(f"/detectors/{made}", {"predictor": url})
    assert_problem(answered, 422, field="predictor")
    assert api.get(f"/detectors/{made}").json["predictor"] is None


@pytest.mark.thorough
def test_a_host_that_is_named_no_more_is_not_asked(
    device, door, model, database, settings, clock
):
    device.log(door)
    images = open_image_store(settings)
    assert asking(database, images, ("127.0.0.2",), clock).run() == 0
    assert asking(database, images, (), clock).run() == 0
    assert model.messages == []


@pytest.mark.thorough
def test_two_workers_ask_once_and_one_that_died_is_followed_by_another(
    device, door, model, database, clock, asker
):
    device.log(door)
    with database.write() as session:
        lane = door.removeprefix("det_")
        assert take(session, "prediction", "dead", at=clock(), lane=lane)
    assert asker.run() == 0
    clock.at += timedelta(seconds=6)
    assert asker.run() == 1
    assert len(model.messages) == 1


@pytest.mark.thorough
def test_another_predictor_is_asked_at_once(device, api, door, model, asker):
    model.behaviour = answer(500)
    query = device.log(door)["id"]
    asker.run()
    with receiving(say({"predicted": "NO"})) as other:
        api.patch(f"/detectors/{door}", {"predictor": other.url})
        assert asker.run() == 1
    assert api.get(f"/queries/{query}").json["predicted"] == "NO"
    api.patch(f"/detectors/{door}", {"predictor": None})
    device.log(door)
    assert asker.run() == 0
    # What came without one is asked about once there is one.
    model.behaviour = say({"predicted": "NO"})
    api.patch(f"/detectors/{door}", {"predictor": model.url})
    assert asker.run() == 1


def test_a_query_that_was_completed_or_deleted_has_no_task(
    device, api, door, model, database, clock
):
    model.behaviour = answer(500)
    query = device.log(door)["id"]
    device.log(door)
    assert count_tasks(database) == 2
    api.patch(f"/queries/{query}", {"predicted": "NO"})
    assert count_tasks(database) == 1
    clock.at += timedelta(days=8)
    Retention(database=database, days=7, clock=clock).run()
    assert count_tasks(database) == 0


@pytest.mark.slow
def test_a_bad_image_holds_up_no_other(device, door, model, asker):
    first = say({"predicted": "MAYBE"})
    later = say({"predicted": "YES"})
    bad = jpeg("blue")
    queries = [device.log(door, image=bad)["id"] for _ in range(6)]
    queries += [device.log(door)["id"] for _ in range(6)]
    # Images are encoded again when they come in.
    stored = device.call("GET", f"/image-queries/{queries[0]}/image").data

    def behave(handler) -> None:
        is_bad = handler.message.body == stored
        (first if is_bad else later)(handler)

    model.behaviour = behave
    asker.run()
    asker.run()
    answered = [device.get(f"/image-queries/{one}")["result"] for one in queries]
    assert None not in answered[6:]


@pytest.mark.thorough
def test_those_that_wait_are_listed_and_marked(device, api, door):
    waiting = device.log(door, {"k": "v"})["id"]
    known = device.log(door, {"prediction": "YES"})["id"]
    page = api.get(f"/detectors/{door}/queries").json
    assert [(one["id"], one["waiting"]) for one in page["items"]] == [
        (known, False),
        (waiting, True),
    ]
    assert page["total"] == 2
    [item] = api.get(f"/detectors/{door}/queries?waiting=true").json["items"]
    assert (item["id"], item["predicted"], item["metadata"]) == (
        waiting,
        None,
        {"k": "v"},
    )
    assert item == api.get(f"/queries/{waiting}").json
    assert api.get(f"/queries/{waiting}/image").status_code == 200
    for rest in ("waiting=false", "predicted=YES", "sort=asked_at"):
        [item] = api.get(f"/detectors/{door}/queries?{rest}").json["items"]
        assert item["id"] == known
    answered = api.get(f"/detectors/{door}/queries?waiting=true&label=YES")
    assert_problem(answered, 400, field="waiting")


@pytest.mark.thorough
def test_a_list_with_those_that_wait_is_read_page_by_page(device, api, door):
    made = [
        device.log(door, {"prediction": "YES"} if number % 3 else None)["id"]
        for number in range(7)
    ]
    found = []
    path = f"/detectors/{door}/queries?limit=2"
    while path:
        page = api.get(path).json
        assert page["total"] == 7
        found += [one["id"] for one in page["items"]]
        path = page["next"] and page["next"].partition("/api/v1")[2]
    assert found == made[::-1]


@pytest.mark.thorough
def test_retention_takes_those_that_wait_and_have_no_label(
    device, door, database, clock
):
    plain, labelled = device.log(door)["id"], device.log(door)["id"]
    device.label(labelled, "YES")
    clock.at += timedelta(days=8)
    device.log(door)
    assert Retention(database=database, days=7, clock=clock).run() == 1
    device.get(f"/image-queries/{plain}", 404)
    assert device.get(f"/image-queries/{labelled}")["result"]["label"] == "YES"
    assert Retention(database=database, days=7, clock=clock).run() == 0
