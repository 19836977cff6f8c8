# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""What is said of an event, in mail, in a chat and on the page."""

import json
from typing import Any

import pytest

from tests.conftest import START
from tracker.services.telling.deliveries import say_in_full, write_body
from tracker.words import EVENTS

NAMES = {"name": "door", "version": "v1"}
SAID = {
    "sentence": "Since 12 Mar when the truth is YES, it is right 60.1–88.5 % of the "
    "time; before, 95.1–98.5 %. Target 90 %: missed.",
    "basis": "61 labels of its own queries, chosen at random; each input counts once.",
}
CHANGE = {
    "state": "dropped",
    "measure": "recall:YES",
    "since": "2026-03-12",
    "since_from": "2026-03-09",
    "since_to": "2026-03-15",
    "before": {"accuracy": 0.97, "low": 0.9512, "high": 0.9849, "labels": 812},
    "at": "2026-03-20T12:00:00Z",
    "population": "live",
    "unit": "input",
}
FIGURES = [
    (
        "verdict.changed",
        {
            "verdict": "undecided",
            "before": "met",
            "labels": 619,
            "target": 0.9,
            "low": 0.88129,
            "high": 0.93451,
            "confidence_level": 0.95,
            "measure": "balanced",
            "since": None,
            "population": "live",
            "unit": "input",
        }
        | SAID,
        "door, version v1: undecided after 619 labels, met before. "
        f"{SAID['sentence']} It rests on {SAID['basis']}",
    ),
    (
        "accuracy.dropped",
        CHANGE | SAID,
        "door, version v1: the accuracy of YES dropped, about 12 March 2026. "
        "9 March 2026 to 15 March 2026 would fit as well. "
        f"{SAID['sentence']} It rests on {SAID['basis']}",
    ),
    (
        "accuracy.rose",
        CHANGE
        | SAID
        | {
            "state": "rose",
            "sentence": "It is right.",
            "since_from": "2026-03-12",
            "since_to": "2026-03-12",
        },
        "door, version v1: the accuracy of YES rose, about 12 March 2026. Before, it "
        f"was 95.1–98.5 % on average. It is right. It rests on {SAID['basis']}",
    ),
    (
        "accuracy.dropped",
        CHANGE
        | SAID
        | {
            "measure": "overall",
            "before": {"accuracy": None, "low": 0.0, "high": 1.0, "labels": 0},
            "reference": 0.93,
        },
        "door, version v1: the overall accuracy is below the stated 93 % on average, "
        f"since about 12 March 2026. {SAID['sentence']} It rests on {SAID['basis']}",
    ),
    (
        "slice.worse",
        {
            "by": "camera",
            "value": "north\n<b>",
            "measure": "recall:DEFECT",
            "correct": 41,
            "labelled": 60,
            "population": "live",
            "unit": "input",
        },
        "door: a slice of its queries is worse than the rest. In version v1, where "
        "camera is 'north\\n<b>', the accuracy of DEFECT is 41 of 60 labels of its own "
        "queries; each input counts once.",
    ),
    (
        "audit.finished",
        {
            "audit": "May",
            "labels": 176,
            "population": "set",
            "queries": 900,
            "unit": "query",
            "low": 0.9,
            "high": 0.99,
            "measure": "recall:YES",
        },
        "door: the audit May is finished. By 176 labels of a set of 900 queries, when "
        "the truth is YES, it is right 90.0\N{EN DASH}99.0 % of the time.",
    ),
    (
        "audit.below_target",
        {
            "audit": "Weekly, 2026-02-02",
            "labels": 176,
            "low": 0.7012,
            "high": 0.82,
            "target": 0.9,
            "measure": "overall",
        },
        "door: the audit Weekly, 2026-02-02 proves that the overall accuracy was below "
        "its target. By 176 labels, it is right 70.1\N{EN DASH}82.0 % of the time; the "
        "target is 90 %.",
    ),
    (
        "audit.waiting",
        {"audit": "Weekly, 2026-02-02", "labels": 1},
        "door: the audit Weekly, 2026-02-02 waits for about 1 label.",
    ),
    ("version.first_seen", {}, "door: version v1 was seen for the first time."),
]


@pytest.mark.parametrize(("kind", "data", "words"), FIGURES)
def test_what_is_told_has_its_counts_and_interval(
    kind: str, data: dict[str, Any], words: str
) -> None:
    assert kind in EVENTS
    assert say_in_full(kind, NAMES | data) == words


def test_chats_get_a_sentence_that_cannot_call_everybody() -> None:
    data = {"name": "<!channel> & co", "hours": 5}
    slack = write_body("slack", "labels.stalled", data, START)
    assert slack == '{"text": "&lt;!channel&gt; &amp; co: no label for 5 hours."}'


def test_a_card_shows_names_as_they_are_and_no_link_in_them() -> None:
    data = {"name": "[door](https://example.org)", "hours": 5}
    teams = json.loads(write_body("teams", "labels.stalled", data, START))
    assert teams["type"] == "message"
    (attachment,) = teams["attachments"]
    assert attachment["contentType"] == "application/vnd.microsoft.card.adaptive"
    card = attachment["content"]
    assert (card["type"], card["version"]) == ("AdaptiveCard", "1.4")
    # Only a TextBlock reads Markdown.
    text = "[door](https://example.org): no label for 5 hours."
    run = {"type": "TextRun", "text": text}
    assert card["body"] == [{"type": "RichTextBlock", "inlines": [run]}]
