# ruff: noqa: RUF001 - the dash between two bounds is an en dash.
"""A proved change on the pages, in metrics and on the badge."""

import re
from collections.abc import Callable
from datetime import date, datetime, timedelta

import pytest

from tests.services.test_calendar import START, rows_of
from tests.web.conftest import Shelf, Visitor

FALL = START + timedelta(days=40)


@pytest.fixture
def dropped(shelf: Shelf, recompute: Callable[[], None]) -> str:
    """A detector that dropped on a day, its labels the last day first."""
    detector_id = shelf.add_detector(target=0.9)
    rows = rows_of([(40, 0.98, 20), (10, 0.6, 20)])
    shelf.add_queries(detector_id, rows[::-1])
    recompute()
    return detector_id


def words(day: date) -> str:
    return f"{day.day} {day:%B %Y}"


def test_a_fall_stands_on_every_page(visitor: Visitor, dropped: str) -> None:
    said = f"mean of the classes dropped, about {words(FALL)}."
    short = f"{FALL.day} {FALL:%b}"
    page = visitor.get(f"/detectors/{dropped}")
    sentence = page.by_id("answer-title").text
    assert sentence.startswith(f"Since {short}")
    assert sentence.endswith("Target 90 %: missed.")
    now, before = re.findall(r"\d+\.\d–\d+\.\d %", sentence)
    assert f"Dropped on {FALL.day} {FALL:%B}" in page.text
    assert f"The change most likely began on {words(FALL)}" in page.text
    # The page of changes says the same two intervals, and draws the same days.
    history = visitor.get(f"/detectors/{dropped}/changes")
    said_there = history.by_id("answer-title").text
    assert said_there.startswith("It dropped on ")
    assert said_there.endswith(f"{now} right since; before, {before}.")
    assert "falsely with a chance of at most 2.5 %" in history.text
    for one in (page, history):
        assert any(text.text.endswith(": dropped") for text in one.find("text"))
        assert one.html.count('class="was"') > 2
    along = visitor.get(f"/detectors/{dropped}/changes?by=labels").text
    assert f"By queries asked since {words(FALL)}." in along
    listed = visitor.get("/?state=dropped")
    (badge,) = listed.find("span", class_="verdict verdict-dropped")
    assert badge.text == "↓ Dropped"
    (when,) = listed.find("span", title=f"mean of the classes, about {words(FALL)}")
    assert when.text == "See when door dropped"
    assert "Dropped 1" in listed.text
    events = visitor.get(f"/detectors/{dropped}/events").text
    assert f"the {said}" in events


def test_a_fall_that_corrections_take_back_needs_nobody(
    visitor: Visitor, shelf: Shelf, dropped: str, recompute: Callable[[], None]
) -> None:
    said = "door, version default: the mean of the classes dropped"
    assert said in visitor.get("/inbox").text
    assert visitor.get("/inbox").by_id("answer").text.endswith("one detector dropped.")
    rows = rows_of([(40, 0.98, 20), (10, 0.6, 20)])
    for row in rows[40 * 20 :]:
        row["label"] = row["predicted"]
    shelf.add_queries(dropped, rows[40 * 20 :])
    recompute()
    inbox = visitor.get("/inbox")
    assert said not in inbox.text
    assert inbox.by_id("answer").text.endswith("one detector reached the target.")
    # What was told stays.
    assert said in visitor.get(f"/detectors/{dropped}/events").text


@pytest.mark.parametrize(
    ("spans", "said"),
    [
        # The first is a rise, and then another fall.
        ([(40, 0.4, 20), (40, 0.98, 20), (40, 0.7, 20)], "one detector dropped."),
        ([(40, 0.98, 20), (40, 0.7, 20), (20, 0.4, 20)], "one detector dropped."),
        ([(40, 0.98, 20), (20, 0.4, 20), (20, 0.98, 20)], "one detector rose."),
    ],
)
def test_an_earlier_change_that_is_told_later_is_not_the_news(
    visitor: Visitor,
    shelf: Shelf,
    recompute: Callable[[], None],
    spans: list[tuple[int, float, int]],
    said: str,
) -> None:
    detector_id = shelf.add_detector()
    rows = rows_of(spans)
    first = spans[0][0] * spans[0][2]
    shelf.add_queries(detector_id, rows[first:])
    recompute()
    told = visitor.get("/inbox")
    assert told.by_id("answer").text.endswith(said)
    shelf.add_queries(detector_id, rows[:first])
    recompute()
    events = visitor.get(f"/detectors/{detector_id}/events").text
    assert events.count("accuracy.dropped") + events.count("accuracy.rose") == 2
    now = visitor.get("/inbox")
    assert now.by_id("answer").text.endswith(said)
    title = "version default: the mean of the classes "
    assert told.text.partition(title)[2][:40] == now.text.partition(title)[2][:40]


def test_a_rise_says_what_was_before(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector(target=0.9)
    shelf.add_queries(detector_id, rows_of([(40, 0.6, 20), (40, 0.98, 20)]))
    recompute()
    said = visitor.get(f"/detectors/{detector_id}/changes").by_id("answer-title").text
    assert said.startswith(f"It rose on {FALL.day} {FALL:%b}")
    assert re.search(r" % right since; before, \d\d\.\d–6\d\.\d %\.$", said)


def test_a_fall_of_one_class_names_the_measure_of_each_interval(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    detector_id = shelf.add_detector(target=0.9)
    rows = rows_of([(50, 1.0, 20)])
    for row in rows[40 * 20 :]:
        if row["label"] == "NO":
            row["predicted"] = "YES"
    shelf.add_queries(detector_id, rows)
    recompute()
    history = visitor.get(f"/detectors/{detector_id}/changes")
    said = history.by_id("answer-title").text
    assert said.startswith(f"The accuracy of NO dropped on {FALL.day} {FALL:%b %Y}; ")
    assert "; the mean of the classes since is 4" in said


def test_a_fall_below_the_reference_says_what_it_is_compared_with(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    after = shelf.add_detector(name="after", reference=0.95)
    shelf.add_queries(after, rows_of([(6, 0.98, 20), (40, 0.88, 20)]))
    always = shelf.add_detector(name="always", reference=0.95)
    shelf.add_queries(always, rows_of([(40, 0.88, 20)]))
    recompute()
    page = visitor.get(f"/detectors/{after}")
    assert re.search(r"The average since .{5,11} is below the stated 95 %", page.text)
    # It is not proved that it dropped on that day, by the tag neither.
    assert "↓ Below 95 %" in page.text
    assert "Dropped on" not in page.text
    history = visitor.get(f"/detectors/{after}/changes")
    assert "compared with the 95 % that were stated, not with what was" in history.text
    assert "↓ Below 95 %" in history.text
    assert "is ever said to be below it falsely with" in history.text
    said = history.by_id("answer-title").text
    assert said.startswith("It is below the stated 95 % on average since about ")
    assert re.search(r" % right; before, .+ %\.$", said)
    page = visitor.get(f"/detectors/{always}")
    assert "↓ Below 95 %" in page.text
    assert "The average is below the stated 95 %" in page.text
    history = visitor.get(f"/detectors/{always}/changes")
    said = history.by_id("answer-title").text
    assert said.startswith("It is below the stated 95 % on average: ")
    assert "most likely began" not in history.text
    for path in ("/inbox", "/?state=dropped"):
        assert "↓ Dropped" not in visitor.get(path).text
    told = visitor.get(f"/detectors/{always}/events").text
    assert (
        "mean of the classes is below the stated 95 % on average, since about" in told
    )


def test_metrics_say_since_when(
    visitor: Visitor, dropped: str, keys: dict[str, str]
) -> None:
    text = visitor.client.get("/metrics").text
    of = 'detector="door",version="default"'
    assert f'tracker_change{{{of},state="dropped"}} 1.0' in text
    assert f'tracker_change{{{of},state="rose"}} 0.0' in text
    midnight = (FALL - date(1970, 1, 1)).days * 86_400
    assert f"tracker_accuracy_since_seconds{{{of}}} {float(midnight)}" in text
    missed = 'detector="door",verdict="missed",version="default"'
    assert f"tracker_verdict{{{missed}}} 1.0" in text
    # The interval since the change, and when it was told, long after its day.
    asked = {"Authorization": f"Bearer {keys['viewer']}"}
    answer = visitor.client.get("/api/v1/detectors/door/estimate", headers=asked)
    found = answer.get_json()
    for name, side in (("low", "lower"), ("high", "upper")):
        sample = f'tracker_decision_bound_ratio{{{of},side="{side}"}}'
        assert f"{sample} {found['decision'][name]}\n" in text
    told_at = datetime.fromisoformat(found["change"]["at"]).timestamp()
    assert told_at > midnight + 30 * 86_400
    assert f"tracker_change_told_seconds{{{of}}} {told_at}\n" in text


def test_metrics_say_no_verdict_by_a_measure_that_was_replaced(
    visitor: Visitor,
    dropped: str,
    recompute: Callable[[], None],
    keys: dict[str, str],
) -> None:
    asked = {"Authorization": f"Bearer {keys['editor']}"}
    change = {"measure": "recall:YES", "target": 0.2}
    path = f"/api/v1/detectors/{dropped}"
    assert visitor.client.patch(path, headers=asked, json=change).status_code == 200
    for name in ("tracker_verdict", "tracker_decision_bound_ratio", "tracker_change"):
        assert f"{name}{{" not in visitor.client.get("/metrics").text
    recompute()
    text = visitor.client.get("/metrics").text
    of = 'detector="door",version="default"'
    met = 'detector="door",verdict="met",version="default"'
    assert f"tracker_verdict{{{met}}} 1.0" in text
    answer = visitor.client.get(f"{path}/estimate", headers=asked).get_json()
    low = answer["decision"]["low"]
    assert f'tracker_decision_bound_ratio{{{of},side="lower"}} {low}\n' in text


def test_metrics_say_no_day_where_all_of_a_version_counts(
    visitor: Visitor, shelf: Shelf, recompute: Callable[[], None]
) -> None:
    always = shelf.add_detector(name="always", reference=0.95)
    shelf.add_queries(always, rows_of([(40, 0.88, 20)]))
    recompute()
    text = visitor.client.get("/metrics").text
    of = 'detector="always",version="default"'
    assert f'tracker_change{{{of},state="dropped"}} 1.0' in text
    assert f"tracker_change_told_seconds{{{of}}}" in text
    assert f"tracker_accuracy_since_seconds{{{of}}}" not in text
