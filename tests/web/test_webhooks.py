"""The pages of webhooks and of events."""

import html
from collections.abc import Callable

from tests.web.conftest import Shelf, Visitor
from tests.web.test_pages import HOSTILE, HOSTILE_NAME

TYPED = {
    "url": "https://example.org/hook",
    "format": "slack",
    "events": "labels.stalled",
}


def test_a_webhook_is_added_shown_tried_and_deleted(
    visitor: Visitor, shelf: Shelf
) -> None:
    shelf.add_detector()
    assert "Nobody is told yet" in visitor.get("/alerts").text
    made = visitor.post("/alerts", TYPED)
    assert made.status == 200
    assert made.by_id("new-secret").text.startswith("whsec_")
    assert "whsec_" not in visitor.get("/alerts").html
    page = visitor.get("/alerts/whk_1")
    assert "https://example.org/hook" in page.text
    assert "whsec_" not in page.html
    assert visitor.post("/alerts/whk_1/test").status == 303
    assert "webhook.test" in visitor.get("/alerts/whk_1").text
    visitor.post("/alerts/whk_1/enabled", {"enabled": "no"})
    assert "by web" in visitor.get("/alerts/whk_1").text
    visitor.post("/alerts/whk_1/enabled", {"enabled": "yes"})
    replaced = visitor.post("/alerts/whk_1/secret")
    assert replaced.by_id("new-secret").text != made.by_id("new-secret").text
    assert visitor.post("/alerts/whk_1/delete").status == 303
    assert visitor.get("/alerts/whk_1").status == 404


def test_what_is_wrong_is_said_at_its_field(visitor: Visitor, shelf: Shelf) -> None:
    bad = visitor.post("/alerts", {**TYPED, "url": "http://10.0.0.1/"})
    assert bad.status == 422
    assert "this address is private" in bad.by_id("url-error").text
    none = visitor.post("/alerts", {"url": TYPED["url"], "format": "slack"})
    assert none.status == 422
    assert none.by_id("events-error").text


def test_events_are_shown_and_hostile_text_is_only_ever_shown(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector(name=HOSTILE_NAME)
    assert "None yet" in visitor.get(f"/detectors/{detector_id}/events").text
    row = {"predicted": "YES", "label": "YES", "version": HOSTILE}
    shelf.add_queries(detector_id, [row])
    recompute()
    page = visitor.get(f"/detectors/{detector_id}/events")
    assert "was seen for the first time" in page.text
    assert "<script>alert" not in page.html
    assert HOSTILE in html.unescape(page.html)


def test_the_hours_without_a_label_are_set_and_cleared(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector()
    path = f"/detectors/{detector_id}/setup"
    form = {
        "name": "door",
        "question": "?",
        "confidence_level": "95",
        "target": "",
        "queue_rate": "100",
        "labels_wanted": "1",
    }
    for typed in ("48", ""):
        sent = visitor.post(path, {**form, "stalled_after_hours": typed})
        assert sent.status == 303
        field = visitor.get(path).by_id("stalled_after_hours")
        assert field.attributes["value"] == typed
    assert visitor.post(path, {**form, "stalled_after_hours": "x"}).status == 422
