"""A program that uses the unmodified Groundlight SDK: every call that it has.

Run by the Python of an environment with the SDK, it talks to the server that the
SDK's own environment variables name; its arguments are the same address and key.
"""

import io
import json
import sys
import urllib.request

from groundlight import ApiException, ExperimentalApi, Label, NotFoundError
from PIL import Image

ENDPOINT, KEY = sys.argv[1:]
RED = Image.new("RGB", (64, 64), "red")


def complete(query: str, **said: object) -> None:
    """Give a prediction by Tracker's own API, as the user's model does."""
    request = urllib.request.Request(
        f"{ENDPOINT}/api/v1/queries/{query}",
        data=json.dumps(said).encode(),
        method="PATCH",
        headers={
            "Authorization": f"Bearer {KEY}",
            "Content-Type": "application/json",
        },
    )
    urllib.request.urlopen(request).close()


def refused(status: int, call: object, *args: object, **more: object) -> str:
    try:
        call(*args, **more)
    except ApiException as error:
        answer = error
    else:
        raise AssertionError(f"{call} was not refused")
    assert answer.status == status, answer
    return str(answer.body)


def people(gl: ExperimentalApi) -> None:
    assert gl.whoami() == "admin-key"
    if hasattr(gl, "me"):
        assert gl.me().is_superuser is False
    usage = gl.get_month_to_date_usage()
    assert (usage.iqs, usage.iqs_limit) == (0, None)


def detectors(gl: ExperimentalApi) -> None:
    door = gl.get_or_create_detector("door", "Is it closed?", confidence_threshold=0.9)
    again = gl.get_or_create_detector("door", "Is it closed?", confidence_threshold=0.9)
    assert again.id == door.id == gl.get_detector_by_name("door").id
    assert gl.get_detector(door.id).query == "Is it closed?"
    body = refused(400, gl.create_detector, "door", "Is it closed?")
    assert "unique_undeleted_name_per_set" in body
    gate = gl.create_binary_detector(
        "gate & co", "Open?", group_name="yard", metadata={"site": "HQ"}
    )
    assert (gate.group_name, gate.metadata) == ("yard", {"site": "HQ"})
    light = gl.create_multiclass_detector(
        "light", "Which?", class_names=["Red", "Yellow", "Green"]
    )
    assert light.mode_configuration == {"class_names": ["Red", "Yellow", "Green"]}
    page = gl.list_detectors(page=2, page_size=2)
    assert (page.count, [one.name for one in page.results]) == (3, ["light"])
    gl.update_detector_confidence_threshold(gate, 0.75)
    gl.update_detector_status(gate, False)
    gl.update_detector_escalation_type(gate, "NO_HUMAN_LABELING")
    gl.update_detector_name(gate, "gate")
    changed = gl.get_detector(gate.id)
    assert changed.confidence_threshold == 0.75
    assert (changed.name, changed.status.value) == ("gate", "OFF")
    assert changed.escalation_type == "NO_HUMAN_LABELING"
    assert "archives" in refused(400, gl.reset_detector, gate)
    gl.delete_detector(gate)
    for call, name in ((gl.get_detector, gate.id), (gl.delete_detector, gate.id)):
        try:
            call(name)
        except NotFoundError:
            continue
        raise AssertionError(f"{call} found what is deleted")
    assert gl.create_detector_group("docks").name == "docks"
    names = [group.name for group in gl.list_detector_groups()]
    assert names == ["default", "yard", "docks"]
    no_boxes = refused(
        400, gl.create_bounding_box_detector, "boxes", "Where?", "car", max_num_bboxes=3
    )
    assert "classifiers" in no_boxes
    assert "classifiers" in refused(
        400, gl.create_text_recognition_detector, "text", "What does it say?"
    )


def queries(gl: ExperimentalApi) -> None:
    door = gl.get_detector_by_name("door")
    said = {"prediction": "YES", "confidence": 0.97, "model_version": "v3"}
    first = gl.submit_image_query(door, RED, wait=0, metadata=said)
    assert (first.result.label, first.result.confidence) == (Label.YES, 0.97)
    assert first.metadata == said
    gl.submit_image_query(door.id, RED, wait=5, metadata=said, human_review="NEVER")
    sure = gl.ask_confident(door, RED, wait=5, metadata=said)
    assert "ALGORITHM" in str(gl.get_image_query(sure.id).result.source)
    assert gl.ask_ml(door, RED, wait=5, metadata=said).result.label == Label.YES
    wrong = gl.submit_image_query(
        door, RED, wait=0, metadata={"label": "no", "confidence": 0.6, "version": "v3"}
    )
    assert wrong.result.label == Label.NO
    refused(400, gl.submit_image_query, door, RED, wait=0, metadata={"label": "?"})
    refused(400, gl.submit_image_query, door, b"no image", wait=0, metadata=said)
    refused(404, gl.submit_image_query, "det_404", b"", wait=0, metadata=said)
    picture = gl.get_image(first.id)
    content = picture if isinstance(picture, bytes) else picture.read()
    assert Image.open(io.BytesIO(content)).size == RED.size
    page = gl.list_image_queries(page=1, page_size=2, detector_id=door.id)
    assert page.count == 5
    assert page.results[0].id == wrong.id
    assert gl.list_image_queries(page=3, page_size=2).count == 5
    labels(gl, first.id, wrong.id)


def labels(gl: ExperimentalApi, first: str, wrong: str) -> None:
    gl.add_label(first, Label.YES)
    gl.add_label(wrong, "no")
    gl.add_label(wrong, "YES")
    assert gl.get_image_query(wrong).result.label == Label.YES
    assert gl.wait_for_confident_result(wrong, 0.99, timeout_sec=5).result
    gl.add_label(first, Label.UNCLEAR)
    assert gl.get_image_query(first).result.label == Label.UNCLEAR
    gl.add_label(first, Label.YES)
    assert "MAYBE" in refused(400, gl.add_label, first, "MAYBE")
    refused(404, gl.add_label, "iq_404", "YES")


def waiting(gl: ExperimentalApi) -> None:
    door = gl.get_detector_by_name("door")
    query = gl.ask_async(door, RED, human_review="ALWAYS", metadata={"k": "v"})
    assert query.result is None
    assert gl.wait_for_ml_result(query, timeout_sec=0.3).result is None
    complete(query.id, predicted="NO", confidence=0.95, version="v3")
    answered = gl.wait_for_confident_result(query, 0.9, timeout_sec=5)
    assert (answered.result.label, answered.metadata) == (Label.NO, {"k": "v"})
    early = gl.submit_image_query(door, RED, wait=0)
    gl.add_label(early, "NO")
    assert gl.get_image_query(early.id).result.label == Label.NO
    complete(early.id, predicted="NO", version="v3")
    assert gl.get_image_query(early.id).result.label == Label.NO


def figures(gl: ExperimentalApi) -> None:
    door = gl.get_detector_by_name("door")
    summary = gl.get_detector_metrics(door)["summary"]
    assert summary["total_iqs"] == 7
    assert summary["num_ground_truth"] == 3
    assert summary["class_counts"]["source_ml"] == {"YES": 3, "NO": 1}
    found = gl.get_detector_evaluation(door)["evaluation_results"]
    assert found["confusion_dict"] == {"YES": {"YES": 1, "NO": 1}, "NO": {"NO": 1}}
    assert found["kfold_pooled__balanced_accuracy"] == 0.75
    interval = found["x_confidence_intervals"]["balanced_accuracy"]
    assert 0 < interval["lower"] < 0.75 < interval["upper"] <= 1
    assert found["x_estimate"]["balanced"]["low"] == interval["lower"]
    light = gl.get_detector_by_name("light")
    assert gl.get_detector_evaluation(light)["evaluation_results"] is None


def other_kinds(gl: ExperimentalApi) -> None:
    light = gl.get_detector_by_name("light")
    seen = gl.submit_image_query(light, RED, wait=0, metadata={"prediction": "Red"})
    assert (seen.result.label, seen.result.confidence) == ("Red", None)
    gl.add_label(seen, "Green")
    assert gl.get_image_query(seen.id).result.label == "Green"
    cars = gl.create_counting_detector("cars", "How many?", "car", max_count=3)
    assert cars.mode_configuration == {"class_name": "car", "max_count": 3}
    some = gl.submit_image_query(cars, RED, wait=0, metadata={"prediction": 2})
    assert (some.result.count, some.result.greater_than_max) == (2, False)
    gl.add_label(some, 7)
    more = gl.get_image_query(some.id).result
    assert (more.count, more.greater_than_max) == (3, True)
    gl.add_label(some, Label.UNCLEAR)
    assert gl.get_image_query(some.id).result.count is None


if __name__ == "__main__":
    api = ExperimentalApi()
    for part in (people, detectors, queries, waiting, figures, other_kinds):
        part(api)
    sys.stdout.write("all is well\n")
