"""The page of a schedule of audits: begun by a form, a bar for each week, stopped."""

import csv
import io
import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest
from flask import Flask

from tests.conftest import Clock, by
from tests.web.conftest import Shelf, Visitor
from tracker.jobs.audits import Audits
from tracker.jobs.loop import Loop
from tracker.services.detectors import get_detector
from tracker.services.labelling.auditing.audit_draws import draw_next
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.storage.base import change_rows
from tracker.storage.database import Database
from tracker.storage.labelling.audits import list_open_scheduled
from tracker.storage.people import find_account
from tracker.storage.telling import DELIVERED, Delivery, Notice

DAY = timedelta(days=1)
MONDAY = datetime(2026, 2, 2, tzinfo=UTC)
CLASSES = ["ewe", "ram"]


@dataclass
class Months:
    """Lets weeks go by."""

    shelf: Shelf
    clock: Clock
    database: Database
    sheep: str

    def send(self, week: int, count: int, first: int = 0) -> None:
        asked = (MONDAY + (7 * week + 1) * DAY).isoformat()
        rows = [
            {"key": f"{week}-{n}", "predicted": CLASSES[n % 2], "asked_at": asked}
            for n in range(first, first + count)
        ]
        self.shelf.add_queries(self.sheep, rows)

    def freeze(self, week: int) -> None:
        self.clock.at = MONDAY + (7 * week + 6) * DAY
        self.send(week, 200)
        self.clock.at = MONDAY + (7 * week + 8) * DAY
        self.work()

    def aim_at(self, target: float) -> None:
        with self.database.write() as session:
            detector = get_detector(session, self.sheep)
            detector.measure, detector.target = "overall", target

    def work(self) -> None:
        handler = Audits(database=self.database, clock=self.clock)
        loop = Loop(self.database, "w", [handler], self.clock)
        loop.enqueue("audits")
        loop.run()

    def answer(self, count: int, wrong_every: int) -> None:
        """Answer so many draws of the open audit."""
        with self.database.write() as session:
            audit = list_open_scheduled(session)[0]
            for draw in draw_next(session, audit, by("ann", self.clock()), count=count):
                number = int(draw.key.partition("-")[2])
                is_wrong = number % wrong_every == 0
                label = CLASSES[(number + is_wrong) % 2]
                new = NewLabel(label=label)
                add_label(session, draw.query_id, new, by("ann", self.clock()))
        self.work()


@pytest.fixture
def months(shelf: Shelf, clock: Clock, database: Database) -> Months:
    sheep = shelf.add_detector(classes=CLASSES, question="Which one?")
    return Months(shelf, clock, database, sheep)


def test_a_schedule_is_begun_by_a_form_drawn_week_by_week_and_stopped(  # noqa: PLR0915 - of one story.
    app: Flask, months: Months, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = "tracker.services.labelling.auditing.audits._draw_key"
    monkeypatch.setattr(key, lambda _: "ab" * 32)
    visitor = Visitor(app)
    path = f"/detectors/{months.sheep}/audits"
    fields = {"name": "Every Monday", "aim": "overall", "points": "10"}
    months.shelf.add_queries(months.sheep, [{"predicted": "ewe"}] * 30)
    plan = visitor.send(path, {**fields, "every": "week", "plan": "1"})
    assert "30 queries. About" in plan.text
    assert '<option value="week" selected>' in plan.text
    # A target comes from the detector.
    months.aim_at(0.85)
    begun = visitor.send(path, {**fields, "every": "week"})
    assert begun.status_code == 303, begun.text
    assert begun.location == "/audit-schedules/sch_1"
    page = visitor.get("/audit-schedules/sch_1").text
    assert "The first week is not over yet." in page
    assert "the next set is frozen on 10 February 2026" in page
    assert "Every Monday" in visitor.get(path).text

    # Weeks later somebody has to sign in again.
    months.freeze(0)
    months.answer(120, 40)
    page = Visitor(app).get("/audit-schedules/sch_1").text
    assert "In the week of 2 February 2026 it was right" in page
    assert "Target met" in page
    assert "1 of 1 week met the target of 85 %." in page
    # The button has as many as the page that it leads to.
    see = "See the 3 mistakes of that week"
    shown = Visitor(app).get("/audit-schedules/sch_1")
    (link,) = [one for one in shown.find("a") if see in one.text]
    wrong = Visitor(app).get(link.attributes["href"])
    assert "3 mistakes among 120 labelled queries from 2 Feb to 8 Feb." in wrong.text

    months.freeze(1)
    months.answer(50, 2)
    months.freeze(2)
    months.send(2, 30, first=200)
    months.answer(20, 40)
    shown = Visitor(app).get("/audit-schedules/sch_1")
    page = shown.text
    assert "of the time, so far." in page
    assert "Proved to be below 85 %: 9 February 2026." in page
    assert "1 of 3 weeks met the target" in page
    assert "9 February 2026 against the week before: the share of right" in page
    assert "so no change is shown" not in page
    assert shown.find("a", href=f"/detectors/{months.sheep}/label?audit=aud_3")
    # Two in the chart, and a row for each of three in the table.
    assert len(shown.find("rect", class_="band")) == 2 + 3
    assert len(shown.find("rect", class_="hollow")) == 1
    assert "ended before its goal" in page
    months.answer(120, 40)
    page = Visitor(app).get("/audit-schedules/sch_1").text
    assert "labels a week" in page
    assert "30 queries came late; with them" in page
    audit = Visitor(app).get("/audits/aud_3")
    assert audit.find("a", href="/audit-schedules/sch_1")
    assert "from 16 February 2026, before 23 February 2026 (UTC)" in audit.text

    assert "2026, over its" not in page
    assert Visitor(app).send("/audit-schedules/sch_1/stop").status_code == 303
    page = Visitor(app).get("/audit-schedules/sch_1").text
    assert "2026, over its 3 weeks: 9 February 2026 was below the target." in page
    assert "Of such a list on average at most 5 % is wrong." in page
    assert "stopped" in page
    assert "Stop" not in page
    months.freeze(3)
    assert Visitor(app).get("/audits/aud_4").status == 404


def test_a_week_that_is_over_decides_nothing_any_more(
    app: Flask, months: Months
) -> None:
    months.aim_at(0.85)
    fields = {"name": "W", "aim": "overall", "points": "3", "every": "week"}
    Visitor(app).send(f"/detectors/{months.sheep}/audits", fields)
    months.freeze(0)
    months.answer(30, 8)
    page = Visitor(app).get("/audit-schedules/sch_1").text
    assert "Target 85 %: not decided yet." in page
    months.freeze(1)
    shown = Visitor(app).get("/audit-schedules/sch_1")
    found = shown.find("span", class_="verdict verdict-undecided")
    badges = [one.text.strip() for one in found]
    assert badges == ["Not decided yet", "Not decided yet", "Not decided"]


def test_months_are_begun_by_the_form_and_said_by_their_days(
    app: Flask, months: Months, database: Database
) -> None:
    with database.write() as session:
        get_detector(session, months.sheep).time_zone = "Europe/Berlin"
    months.aim_at(0.85)
    fields = {"name": "Months", "aim": "overall", "points": "10", "every": "month"}
    visitor = Visitor(app)
    begun = visitor.send(f"/detectors/{months.sheep}/audits", fields)
    assert begun.location == "/audit-schedules/sch_1", begun.text
    page = visitor.get(begun.location).text
    assert "The first month is not over yet." in page
    # The fixture began it on 31 January at noon.
    assert "the next set is frozen on 2 March 2026" in page
    for week, frozen in (
        (2, datetime(2026, 3, 2, tzinfo=UTC)),
        (7, datetime(2026, 4, 2, tzinfo=UTC)),
    ):
        months.clock.at = MONDAY + (7 * week + 2) * DAY
        months.send(week, 200)
        # In Berlin the day has begun by then, in April since two hours.
        months.clock.at = frozen
        months.work()
        months.answer(120, 40 if week == 2 else 2)
    shown = Visitor(app).get("/audit-schedules/sch_1")
    page = shown.text
    assert "In the month from 1 March 2026 it was right" in page
    assert "Proved to be below 85 %: 1 March 2026." in page
    assert "1 of 2 months met the target of 85 %." in page
    assert "1 March 2026 against the month before: the share of right" in page
    assert "labels a month" in page
    assert [one.text for one in shown.find("time", datetime="2026-02-01")] == ["1 Feb"]
    assert len(shown.find("rect", class_="band")) == 2 + 2
    (link,) = [one for one in shown.find("a") if "mistakes of that month" in one.text]
    wrong = Visitor(app).get(link.attributes["href"])
    assert f"{link.text.split()[2]} mistakes among 120 labelled queries" in wrong.text
    assert "from 1 Mar to 31 Mar." in wrong.text
    audit = Visitor(app).get("/audits/aud_2").text
    assert "from 1 March 2026, before 1 April 2026 (Europe/Berlin)" in audit


def test_who_is_told_of_audits_and_what_was_told_is_shown_to_editors(
    app: Flask, months: Months, database: Database
) -> None:
    visitor = Visitor(app)
    hook = {"url": "https://hooks.slack.com/services/secret", "format": "slack"}
    hook["events"] = ["audit.finished", "audit.below_target", "verdict.changed"]
    visitor.send("/alerts", hook)
    with database.write() as session:
        found = find_account(session, "web")
        assert found is not None
        found.email, found.mail_events = "web@example.org", ["import.failed"]
    months.aim_at(0.85)
    typed = {"every": "week", "name": "Every Monday", "points": "10", "aim": "overall"}
    path = f"/detectors/{months.sheep}/audits"
    visitor.send(path, {**typed, "labelers": "web"})
    months.freeze(0)
    page = Visitor(app).get("/audit-schedules/sch_1")
    assert page.by_id("told").text == (
        "Slack: done, below target web by mail: waits Alerts"
    )
    months.answer(120, 2)
    # It ends as the next one begins.
    months.freeze(1)
    page = Visitor(app).get("/audits/aud_1")
    told = page.by_id("told").text
    # The webhook did not subscribe to the first; nothing sends in a test.
    assert re.findall(r"(waits|done|below target),", told) == [
        "waits",
        "done",
        "below target",
    ]
    assert told.count("Slack waits") == 2
    # Who is asked for labels is mailed whatever they chose.
    assert told.count("web by mail waits") == 1
    assert "secret" not in page.text
    with database.write() as session:
        for rows_of in (Delivery, Notice):
            change_rows(session, rows_of, state=DELIVERED)
    told = Visitor(app).get("/audits/aud_1").by_id("told").text
    assert told.count("Slack \u2713") == 2
    assert told.count("web by mail \u2713") == 1
    # Who may only look sees what was told and when, and no addresses.
    viewer = Visitor(app, "vera", "viewer")
    assert not viewer.get("/audit-schedules/sch_1").find("dd", id="told")
    seen = viewer.get("/audits/aud_1").by_id("told").text
    assert "below target" in seen
    assert "Slack" not in seen
    assert "by mail" not in seen


def test_who_is_asked_and_how_narrow_is_edited_for_the_audits_to_come(
    app: Flask, months: Months
) -> None:
    visitor = Visitor(app)
    typed = {"every": "week", "name": "Every Monday", "points": "5", "labelers": "ann"}
    visitor.send(f"/detectors/{months.sheep}/audits", typed)
    months.freeze(0)
    visitor = Visitor(app)
    address = "/audit-schedules/sch_1"
    form = visitor.get(address).form(address)
    assert (form["labelers"], form["points"]) == ("ann", "5")
    wrong = visitor.post(address, {"labelers": "ann", "points": "80"})
    assert wrong.status == 422
    assert wrong.by_id("points-error").text
    edited = {"labelers": "ann, mara", "points": "4"}
    assert visitor.send(address, edited).status_code == 303
    page = visitor.get(address).text
    assert "ann, mara" in page
    assert "to \N{PLUS-MINUS SIGN}4 points" in page
    # What is begun keeps its goal.
    months.freeze(1)
    visitor = Visitor(app)
    for number, points in ((1, "5"), (2, "4")):
        assert f"{points} points" in visitor.get(f"/audits/aud_{number}").text
    visitor.send(f"{address}/stop")
    assert visitor.send(address, edited).status_code == 422


def test_the_page_of_an_audit_names_days_in_the_zone_of_its_schedule(
    app: Flask, months: Months
) -> None:
    with months.database.write() as session:
        get_detector(session, months.sheep).time_zone = "Asia/Tokyo"
    visitor = Visitor(app)
    path = f"/detectors/{months.sheep}/audits"
    assert "Days are in Asia/Tokyo." in visitor.get(path).text
    visitor.send(path, {"every": "week", "name": "Every Monday", "points": "5"})
    months.freeze(0)
    visitor = Visitor(app)
    of_week = "from 2 February 2026, before 9 February 2026 (Asia/Tokyo)"
    for address in ("/audits/aud_1", "/audits/aud_1/report"):
        assert of_week in visitor.get(address).text
    once = {"name": "Once", "points": "5", "since": "2026-02-03"}
    begun = visitor.send(path, once)
    page = visitor.get(begun.headers["Location"]).text
    assert "from 3 February 2026 (Asia/Tokyo)" in page


def test_the_results_of_a_schedule_are_a_file_with_a_row_for_each_span(
    app: Flask, months: Months
) -> None:
    visitor = Visitor(app)
    typed = {"every": "week", "name": "Every Monday", "points": "5"}
    visitor.send(f"/detectors/{months.sheep}/audits", typed)
    for week in (0, 1):
        months.freeze(week)
    months.answer(200, 10)
    visitor = Visitor(app)
    path = "/audit-schedules/sch_1/results"
    assert f'href="{path}.csv"' in visitor.get("/audit-schedules/sch_1").html
    rows = list(csv.DictReader(io.StringIO(visitor.client.get(f"{path}.csv").text)))
    assert [row["audit"] for row in rows] == ["aud_2", "aud_1"]
    assert [row["since"][:10] for row in rows] == ["2026-02-09", "2026-02-02"]
    for row in rows:
        assert row["queries"] == "200"
        assert 0 <= float(row["low"]) < float(row["high"]) <= 1
    assert visitor.client.get(f"{path}.xls").status_code == 404
