"""Schedules by API: an audit of each week, made by the worker and closed by it."""

import threading
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
import sqlalchemy as sa

from tests.api.problems import assert_problem
from tests.conftest import by
from tracker.jobs.audits import Audits
from tracker.jobs.loop import Loop, Watch
from tracker.services.labelling.auditing import audits
from tracker.services.labelling.auditing.audit_lifecycle import (
    get_schedule,
    plan_freezing,
    stop_schedule,
)
from tracker.storage.base import count_rows, find_by_id
from tracker.storage.labelling.audits import Audit, AuditItem
from tracker.storage.tasks import (
    AUDITS,
    HOLD_SECONDS,
    Task,
    enqueue,
    find_task,
    take,
)

DAY = timedelta(days=1)
# Saturday, 31 January 2026; the first week begins on Monday, 2 February in Berlin.
MONDAY = datetime(2026, 2, 1, 23, 0, tzinfo=UTC)
WEEKLY = {
    "name": "Weekly",
    "every": "week",
    "time_zone": "Europe/Berlin",
    "aim": "overall",
    "half_width": 0.1,
    "target": 0.9,
    "labelers": ["ann", "bob"],
}


class KilledError(BaseException):
    """Ends a worker as SIGKILL does: nothing of its transaction is left."""


class Worker:
    """Does once what a worker does each minute."""

    def __init__(self, database, clock):
        self.database, self.clock = database, clock

    def __call__(self):
        handler = Audits(database=self.database, clock=self.clock)
        loop = Loop(self.database, "w", [handler], self.clock)
        loop.enqueue("audits")
        return loop.run()

    def kill(self, monkeypatch, *, step="complete_audit", pieces=0):
        """Take the task, and end before a step, or some pieces later, is committed."""
        left, do = pieces, getattr(audits, step)

        def die(*given):
            nonlocal left
            do(*given)
            left -= 1
            if left < 0:
                raise KilledError

        with self.database.write() as session:
            enqueue(session, AUDITS, due_at=self.clock())
            tasks = take(session, AUDITS, "killed", at=self.clock())
        with monkeypatch.context() as patched:
            patched.setattr(audits, step, die)
            handler = Audits(database=self.database, clock=self.clock)
            with pytest.raises(KilledError):
                handler.work(tasks, Watch(threading.Event()))
        # Until its hold ends nobody else does the task.
        self()
        self.clock.at += timedelta(seconds=HOLD_SECONDS)


@pytest.fixture
def worker(database, clock):
    return Worker(database, clock)


def truth_of(key, wrong_every):
    number = int(key.rpartition("-")[2])
    said = "NO" if number % 4 == 0 else "YES"
    other = "NO" if said == "YES" else "YES"
    return other if number % wrong_every == 0 else said


def send(api, week, count, *, asked=None, first=0):
    """Log queries of one week, in the middle of it unless said otherwise."""
    at = asked or MONDAY + week * 7 * DAY + 3 * DAY
    rows = "".join(
        f'{{"key":"{week}-{n}","predicted":"{"NO" if n % 4 == 0 else "YES"}",'
        f'"confidence":{0.6 if n % 9 == 0 else 0.9},"version":"v1",'
        f'"asked_at":"{(at + timedelta(seconds=n)).isoformat()}"}}\n'
        for n in range(first, first + count)
    )
    sent = api.send_file("/detectors/door/import", rows, "application/x-ndjson")
    assert sent.status_code == 200, sent.text


def answer(api, audit, wrong_every, *, most=10_000):
    """Answer what an audit draws, until it draws nothing or so many are answered."""
    given = 0
    while given < most:
        path = f"/audits/{audit['id']}/next?count={min(20, most - given)}"
        items = api.get(path, role="labeler").json["items"]
        if not items:
            break
        for one in items:
            body = {"label": truth_of(one["key"], wrong_every)}
            api.post(f"/queries/{one['id']}/labels", body, role="labeler")
        given += len(items)
    return given


def weekly(api):
    return api.walk("/detectors/door/audits?every=week")


def schedule_of(api):
    [found] = api.get("/detectors/door/audit-schedules").json["items"]
    assert api.get(f"/audit-schedules/{found['id']}").json == found
    return found


def fill_week(api, clock):
    """Log the ten queries of a first week, whose set is due then."""
    clock.at = MONDAY + 7 * DAY
    send(api, 0, 10)
    clock.at += DAY


def begin(api, **more):
    made = api.post("/detectors/door/audits", {**WEEKLY, **more}, role="editor")
    assert made.status_code == 201, made.text
    return made.json


def test_three_weeks_are_audited_by_themselves_whatever_is_killed(  # noqa: PLR0915 - of one story.
    api, door, clock, worker, monkeypatch
):
    schedule = begin(api)
    assert schedule["id"] == "sch_1"
    assert schedule["next_since"] == "2026-02-01T23:00:00Z"
    assert schedule["next_frozen_at"] == "2026-02-09T23:00:00Z"
    # Of the days before the first Monday, of its first and of its last second.
    send(api, 0, 50, asked=MONDAY - DAY, first=900)
    send(api, 0, 1, asked=MONDAY - timedelta(seconds=300), first=300)
    send(api, 0, 1, asked=MONDAY - timedelta(seconds=301), first=299)
    clock.at = MONDAY + 7 * DAY
    send(api, 0, 200)
    clock.at = MONDAY + 8 * DAY - timedelta(seconds=1)
    worker()
    assert weekly(api) == []
    # The worker is killed after it wrote the set, before it committed.
    clock.at = MONDAY + 8 * DAY
    worker.kill(monkeypatch)
    assert weekly(api) == []
    worker()
    worker()
    [first] = weekly(api)
    assert first["name"] == "Weekly, 2026-02-02"
    assert (first["since"], first["until"]) == (
        "2026-02-01T23:00:00Z",
        "2026-02-08T23:00:00Z",
    )
    # The one asked at the first instant is in, the one a second before is not.
    assert first["queries"] == 201
    assert (first["schedule"], first["every"], first["late"]) == ("sch_1", "week", 0)
    assert (first["result"], first["target"], first["half_width"]) == (None, 0.9, 0.1)
    # People answer; within a minute of the last answer it is closed.
    given = answer(api, first, 20, most=150)
    worker()
    [first] = weekly(api)
    assert first["result"]["is_reached"]
    assert first["result"]["half_width"] <= 0.1
    assert (first["result"]["labels"], first["result"]["below_target"]) == (
        given,
        False,
    )
    assert api.get(f"/audits/{first['id']}/next").status_code == 409

    # The second week is bad, and its end is not waited for.
    clock.at = MONDAY + 14 * DAY
    send(api, 1, 200)
    clock.at = MONDAY + 15 * DAY
    worker.kill(monkeypatch)
    worker()
    second = weekly(api)[0]
    assert (second["name"], second["queries"]) == ("Weekly, 2026-02-09", 200)
    answer(api, second, 2, most=60)

    # The third one ends the audit of the second. What arrives after that is late.
    clock.at = MONDAY + 21 * DAY
    send(api, 2, 200)
    clock.at = MONDAY + 22 * DAY
    send(api, 2, 30, first=200)
    worker.kill(monkeypatch)
    worker()
    third, second, again = weekly(api)
    assert again == first
    assert (third["queries"], third["late"], third["with_late"]) == (200, 30, None)
    result = second["result"]
    assert (result["labels"], result["is_reached"]) == (60, False)
    assert result["overall"]["high"] < 0.9
    assert result["below_target"] is True
    assert schedule_of(api)["below_target"] == [second["id"]]
    events = api.get("/detectors/door/events").json["items"]
    waits = [one["data"] for one in events if one["type"] == "audit.waiting"]
    names = [one["name"] for one in (third, second, first)]
    assert [one["audit"] for one in waits] == names
    assert waits[-1]["labelers"] == ["ann", "bob"]
    events = [one for one in events if one["type"] != "audit.waiting"]
    told = [(one["type"], one["data"]["audit"]) for one in events]
    assert told == [
        ("audit.below_target", second["name"]),
        ("audit.finished", second["name"]),
        ("audit.finished", first["name"]),
    ]
    data = events[0]["data"]
    assert (data["measure"], data["target"], data["schedule"]) == (
        "overall",
        0.9,
        "Weekly",
    )
    assert (data["low"], data["high"]) == (
        result["overall"]["low"],
        result["overall"]["high"],
    )

    # The late ones widen what is said of all: 30 more beside those that can be told.
    answer(api, third, 20, most=150)
    worker()
    third = weekly(api)[0]
    sure, overall = third["result"]["for_late"], third["result"]["overall"]
    assert sure["low"] <= overall["low"] < overall["high"] <= sure["high"]
    assert third["result"]["labels"] < sure["queries"] <= 200
    kept = sure["queries"] / (sure["queries"] + 30)
    # All weeks of a year hold together with a wider one: 1.44 times far from an end.
    year = third["result"]["all_year"]
    assert year["low"] < sure["low"] < sure["high"] <= year["high"]
    width, usual = (one["high"] - one["low"] for one in (year, overall))
    assert usual < width < 3 * usual
    # The third differs from both before it by less than so few labels tell.
    change = third["result"]["change"]
    assert (change["spans"], change["labels"]) == (2, 35)
    assert change["low"] < 0.95 - (0.95 + 0.5) / 2 < change["high"]
    # Half of the second are right where 19 of 20 were; how surely depends on the draws.
    fall = second["result"]["change"]
    assert fall["low"] < 0.5 - 0.95 < fall["high"] < 0.3
    assert first["result"]["change"] is None
    # Evidence of 53 / 0.05 by itself lists a week, once the year is over.
    assert second["result"]["log_evidence_below"] > 7
    assert schedule_of(api)["years"] == []
    clock.at = datetime(2027, 1, 14, tzinfo=UTC)
    worker()
    [year] = schedule_of(api)["years"]
    assert year == {"year": 2026, "spans": 3, "below_target": [second["id"]]}
    assert third["with_late"]["low"] == pytest.approx(kept * sure["low"])
    assert third["with_late"]["high"] == pytest.approx(1 - kept * (1 - sure["high"]))


@pytest.mark.parametrize(
    ("step", "pieces"),
    [("add_audit", 0), ("add_items", 0), ("add_items", 2), ("complete_audit", 0)],
)
def test_a_set_is_frozen_in_pieces_and_seen_whole_or_not_at_all(
    api, door, clock, worker, monkeypatch, database, step, pieces
):
    monkeypatch.setattr(audits, "PIECE", 3)
    monkeypatch.setattr("tracker.jobs.audits.PIECE", 3)
    begin(api, half_width=None, labels=4)
    fill_week(api, clock)
    worker.kill(monkeypatch, step=step, pieces=pieces)
    with database.read() as session:
        left = [count_rows(session, one) for one in (Audit, AuditItem)]
    assert left == [step != "add_audit", {"complete_audit": 10}.get(step, 3 * pieces)]
    # Nobody sees, draws from or waits for what is there.
    assert weekly(api) == api.walk("/detectors/door/audits") == []
    assert schedule_of(api)["audits"] == 0
    for path in ("", "/next", "/estimate", "/record", "/savings"):
        assert_problem(api.get(f"/audits/aud_1{path}"), 404)
    assert api.get("/detectors/door/assignments", role="editor").json["items"] == []
    # A label is given in the meantime.
    [query] = api.get("/detectors/door/queries?key=0-5").json["items"]
    api.post(f"/queries/{query['id']}/labels", {"label": "NO"}, role="labeler")
    worker()
    [audit] = weekly(api)
    assert audit["queries"] == 10
    with database.read() as session:
        left = [count_rows(session, one) for one in (Audit, AuditItem)]
    assert left == [1, 10]
    estimate = api.get(f"/audits/{audit['id']}/estimate").json
    assert (estimate["labels"], estimate["labels_used"]) == (1, 0)
    assert answer(api, audit, 100) == 4


def test_what_is_erased_is_offered_to_nobody_and_has_no_clear_answer(
    api, door, clock, worker
):
    begin(api, half_width=None, labels=10)
    clock.at = MONDAY + 7 * DAY
    send(api, 0, 10)
    for number in range(3):
        [query] = api.get(f"/detectors/door/queries?key=0-{number}").json["items"]
        assert api.delete(f"/queries/{query['id']}").status_code < 300
    clock.at += DAY
    worker()
    [audit] = weekly(api)
    assert answer(api, audit, 100) == 7
    estimate = api.get(f"/audits/{audit['id']}/estimate").json
    assert (estimate["labels"], estimate["unclear"]) == (7, 3)
    draws = api.get(f"/audits/{audit['id']}/record").json["draws"]
    gone = [one["key"] for one in draws if one["label"] == "UNCLEAR"]
    assert (len(draws), sorted(gone)) == (10, ["0-0", "0-1", "0-2"])
    worker()
    [audit] = weekly(api)
    assert audit["closed_at"] is not None


def test_a_worker_keeps_its_task_while_it_writes_a_set(
    api, door, clock, worker, monkeypatch, database
):
    begin(api)
    fill_week(api, clock)
    held, add_items = [], audits.add_items

    def renew_task(session, *given):
        add_items(session, *given)
        # As the thread that renews does, which passes over what is locked.
        task = sa.select(Task.id).where(Task.kind == AUDITS)
        with database.read() if database.is_sqlite else database.write() as other:
            held.append(other.scalars(task.with_for_update(skip_locked=True)).all())

    monkeypatch.setattr(audits, "add_items", renew_task)
    worker()
    assert [len(one) for one in held] == [1]
    assert len(weekly(api)) == 1


def test_what_is_left_of_a_set_is_deleted_by_the_ids_of_its_queries(
    api, door, clock, worker, monkeypatch, database
):
    begin(api)
    fill_week(api, clock)
    worker.kill(monkeypatch)
    ran = []
    sa.event.listen(
        database.engine, "before_cursor_execute", lambda *given: ran.append(given[2])
    )
    worker()
    # Without statistics PostgreSQL would run a subquery once for each of them.
    [first, *_] = [one for one in ran if one.startswith("DELETE FROM audit_items")]
    assert "SELECT" not in first
    assert len(weekly(api)) == 1


def test_a_schedule_that_is_stopped_while_it_freezes_makes_no_audit(
    api, door, clock, worker, monkeypatch, database
):
    begin(api)
    fill_week(api, clock)
    add_items = audits.add_items

    def stop(session, *given):
        add_items(session, *given)
        stop_schedule(session, get_schedule(session, "sch_1"), by("ann", clock.at))

    monkeypatch.setattr(audits, "add_items", stop)
    worker()
    assert schedule_of(api)["stopped_at"] is not None
    assert weekly(api) == []
    worker()
    with database.read() as session:
        assert count_rows(session, Audit) == count_rows(session, AuditItem) == 0


def test_spans_without_queries_are_passed_over_and_said(api, door, clock, worker):
    begin(api, every="day", time_zone="UTC")
    assert schedule_of(api)["next_since"] == "2026-02-01T00:00:00Z"
    send(api, 0, 1, asked=datetime(2026, 2, 3, tzinfo=UTC))
    # A worker that was away makes what it has missed, a transaction each.
    clock.at = datetime(2026, 2, 6, 12, tzinfo=UTC)
    worker()
    [only] = api.walk("/detectors/door/audits?every=day")
    assert (only["name"], only["queries"]) == ("Weekly, 2026-02-03", 1)
    assert weekly(api) == []
    schedule = schedule_of(api)
    assert schedule["next_since"] == "2026-02-05T00:00:00Z"
    assert [one["since"] for one in schedule["skipped"]] == [
        "2026-02-01T00:00:00Z",
        "2026-02-02T00:00:00Z",
        "2026-02-04T00:00:00Z",
    ]
    because = "no query is in this set; an audit needs at least one"
    assert {one["because"] for one in schedule["skipped"]} == {because}


def test_a_clock_that_was_ahead_loses_no_span_and_makes_none_twice(
    api, door, clock, worker
):
    begin(api, every="day", time_zone="UTC")
    send(api, 0, 10, asked=datetime(2026, 2, 1, 9, tzinfo=UTC))
    clock.at = datetime(2026, 2, 3, tzinfo=UTC)
    worker()
    clock.at = datetime(2026, 3, 1, tzinfo=UTC)
    worker()
    assert schedule_of(api)["next_since"] == "2026-02-28T00:00:00Z"
    clock.at = datetime(2026, 2, 3, 1, tzinfo=UTC)
    worker()
    schedule = schedule_of(api)
    assert (schedule["next_since"], schedule["skipped"]) == ("2026-02-02T00:00:00Z", [])
    send(api, 1, 10, asked=datetime(2026, 2, 2, 9, tzinfo=UTC))
    clock.at = datetime(2026, 2, 4, tzinfo=UTC)
    worker()
    names = [one["name"] for one in api.walk("/detectors/door/audits?every=day")]
    assert names == ["Weekly, 2026-02-02", "Weekly, 2026-02-01"]


def test_a_schedule_that_fails_keeps_no_other_from_its_audits(
    api, door, clock, worker, monkeypatch
):
    begin(api)
    begin(api, name="Other")
    fill_week(api, clock)

    def fail(session, key, at):
        if key[1] == 1:
            raise ValueError("broken")
        return plan_freezing(session, key, at)

    monkeypatch.setattr("tracker.jobs.audits.plan_freezing", fail)
    worker()
    assert [one["name"] for one in weekly(api)] == ["Other, 2026-02-02"]
    with worker.database.read() as session:
        assert find_task(session, AUDITS, "").error == "ValueError: broken"


def test_weeks_with_a_change_of_the_hour_begin_at_midnight(api, door, clock, worker):
    clock.at = datetime(2026, 3, 20, tzinfo=UTC)
    begin(api)
    until = datetime(2026, 3, 22, 23, tzinfo=UTC) + timedelta(hours=167)
    clock.at = until + timedelta(hours=1)
    send(api, 0, 1, asked=until - timedelta(seconds=1))
    send(api, 1, 1, asked=until)
    clock.at = until + DAY
    worker()
    [audit] = weekly(api)
    assert (audit["name"], audit["queries"]) == ("Weekly, 2026-03-23", 1)
    assert audit["until"] == "2026-03-29T22:00:00Z"
    assert schedule_of(api)["next_frozen_at"] == "2026-04-06T22:00:00Z"


MONTHS = {
    # Months of 28, 31 and 30 days; in March the clocks go forward.
    "Europe/Berlin": [
        "2026-01-31T23:00:00Z",
        "2026-02-28T23:00:00Z",
        "2026-03-31T22:00:00Z",
        "2026-04-30T22:00:00Z",
    ],
    # In a leap year, begun a second before.
    "UTC": ["2028-02-01T00:00:00Z", "2028-03-01T00:00:00Z"],
    # The first midnight of 1 November, of two; then a year's end.
    "America/Havana": [
        "2026-11-01T04:00:00Z",
        "2026-12-01T05:00:00Z",
        "2027-01-01T05:00:00Z",
        "2027-02-01T05:00:00Z",
    ],
}


@pytest.mark.parametrize("zone", MONTHS)
def test_months_begin_at_midnight_however_long_they_are(api, door, clock, worker, zone):
    first, *ends = map(datetime.fromisoformat, MONTHS[zone])
    second, since = timedelta(seconds=1), first
    clock.at = first - (second if zone == "UTC" else 16 * DAY)
    begin(api, every="month", time_zone=zone, half_width=None, labels=2)
    assert schedule_of(api)["next_since"] == MONTHS[zone][0]
    send(api, 0, 1, asked=since - second)
    for number, until in enumerate(ends):
        clock.at = until
        for place, at in enumerate((since, until - second), 2 * number + 1):
            send(api, 0, 1, asked=at - place * second, first=place)
        clock.at = until + DAY - second
        worker()
        assert len(api.walk("/detectors/door/audits?every=month")) == number
        clock.at += second
        worker()
        audit = api.walk("/detectors/door/audits?every=month")[0]
        span = MONTHS[zone][number : number + 2]
        assert [audit["since"], audit["until"]] == span
        assert (audit["queries"], audit["every"]) == (2, "month")
        assert answer(api, audit, 100) == 2
        since = until
    names = [one["name"] for one in api.walk("/detectors/door/audits?every=month")]
    days = [at.astimezone(ZoneInfo(zone)).date() for at in (first, *ends)]
    assert names == [f"Weekly, {day}" for day in days[-2::-1]]
    assert {day.day for day in days} == {1}
    # A year is summed up once its last month is frozen.
    years = [(one["year"], one["spans"]) for one in schedule_of(api)["years"]]
    assert years == ([(2026, 2)] if zone == "America/Havana" else [])


def test_a_budget_ends_an_audit_and_what_it_taught_is_carried_over(
    api, door, clock, worker, database
):
    begin(api, half_width=None, labels=40)
    for week in range(2):
        clock.at = MONDAY + (week + 1) * 7 * DAY
        send(api, week, 200)
        clock.at += DAY
        worker()
        audit = weekly(api)[0]
        assert (audit["labels"], audit["labels_expected"]) == (40, 40)
        assert answer(api, audit, 9) == 40
        estimate = api.get(f"/audits/{audit['id']}/estimate").json
        assert (estimate["is_reached"], estimate["labels_left"]) == (True, 0)
        worker()
        assert weekly(api)[0]["result"]["labels"] == 40
        narrower = api.patch(f"/audits/{audit['id']}", {"half_width": 0.01})
        assert narrower.status_code == 409
    with database.read() as session:
        first, second = (find_by_id(session, Audit, number) for number in (1, 2))
    assert first.carried is None
    # Half of what the first one was told, at the strata that both have.
    assert sum(map(sum, second.carried)) == 20
    # What was carried is no evidence.
    assert weekly(api)[1]["result"]["labels_used"] == 40


def test_of_the_balanced_accuracy_the_bounds_of_a_year_say_what_is_below(
    api, door, clock, worker
):
    begin(api, aim="balanced", target=0.7, half_width=None, labels=120)
    for week, wrong_every in enumerate((20, 2, 20)):
        clock.at = MONDAY + (week + 1) * 7 * DAY
        send(api, week, 200)
        clock.at += DAY
        worker()
        answer(api, weekly(api)[0], wrong_every)
        worker()
    results = [one["result"] for one in weekly(api)[::-1]]
    assert [one["below_target"] for one in results] == [False, True, False]
    assert [one["all_year"]["high"] < 0.7 for one in results] == [False, True, False]
    assert [one["log_evidence_below"] for one in results] == [None] * 3
    assert results[1]["change"]["high"] < 0.7


@pytest.mark.parametrize("is_exchanged", [False, True])
def test_a_judge_that_is_exchanged_begins_with_nothing_carried(
    api, door, clock, worker, database, is_exchanged
):
    begin(api, half_width=None, labels=20)
    judges = ["llm-1", "llm-2" if is_exchanged else "llm-1"]
    for week, judge in enumerate(judges):
        clock.at = MONDAY + (week + 1) * 7 * DAY
        send(api, week, 60)
        rows = [{"key": f"{week}-{n}", f"judge:{judge}": "YES"} for n in range(60)]
        sent = api.post("/detectors/door/import", {"items": rows})
        assert sent.json["verdicts_added"] == 60
        clock.at += DAY
        worker()
        audit = weekly(api)[0]
        assert audit["uses"] == ["confidence", f"judge:{judge}"]
        assert answer(api, audit, 9) == 20
    # A verdict of a week that is frozen waits for no audit of it.
    late = [{"key": "1-0", "judge:llm-3": "NO"}]
    api.post("/detectors/door/import", {"items": late})
    assert weekly(api)[0]["uses"] == ["confidence", f"judge:{judges[1]}"]
    with database.read() as session:
        carried = find_by_id(session, Audit, 2).carried
    assert carried is None if is_exchanged else sum(map(sum, carried)) == 10


def test_a_group_that_spans_two_weeks_stands_once_in_each(api, door, clock, worker):
    begin(api, half_width=None, labels=20)
    for week in range(2):
        clock.at = MONDAY + (week + 1) * 7 * DAY
        at = (MONDAY + week * 7 * DAY + 3 * DAY).isoformat()
        rows = [
            {"key": f"{week}-{n}", "predicted": "YES", "asked_at": at}
            | ({"group": "event"} if n < 3 else {})
            for n in range(8)
        ]
        sent = api.post("/detectors/door/import", {"items": rows})
        assert sent.status_code == 200
        clock.at += DAY
        worker()
        audit = weekly(api)[0]
        assert (audit["queries"], audit["late"]) == (6, 0)
        items = api.get(f"/audits/{audit['id']}/next?count=20").json["items"]
        assert {one["key"] for one in items} == {
            f"{week}-{n}" for n in (0, 3, 4, 5, 6, 7)
        }
        for one in items:
            api.post(f"/queries/{one['id']}/labels", {"label": "YES"})


def test_people_are_asked_for_their_part_and_reminded_once(api, door, clock, worker):
    begin(api)
    clock.at = MONDAY + 7 * DAY
    send(api, 0, 200)
    clock.at += DAY
    worker()
    [audit] = weekly(api)
    asked = api.get("/detectors/door/assignments", role="editor").json["items"]
    parts = {one["labeler"]: one["labels"] for one in asked}
    half = -(-audit["labels_expected"] // 2)
    assert parts == {"ann": half, "bob": half}
    for day, reminders in ((0, 1), (4, 1), (5, 2), (6, 2)):
        clock.at = MONDAY + (8 + day) * DAY
        worker()
        events = api.get("/detectors/door/events").json["items"]
        told = [one["data"] for one in events if one["type"] == "audit.waiting"]
        assert len(told) == reminders, day
    assert told[0]["labelers"] == ["ann", "bob"]
    assert told[0]["labels"] > 0
    api.post(f"/audits/{audit['id']}/pause", role="editor")
    clock.at = MONDAY + 15 * DAY - timedelta(seconds=1)
    worker()
    again = api.get("/detectors/door/events").json["items"]
    assert len(again) == len(events)


def test_a_schedule_is_stopped_once_and_makes_no_more(api, door, clock, worker):
    schedule = begin(api)
    path = f"/audit-schedules/{schedule['id']}/stop"
    assert_problem(api.post(path, {}, role="labeler"), 403)
    stopped = api.post(path, {}, role="editor").json
    assert stopped["stopped_at"] is not None
    assert api.post(path, {}, role="editor").json == stopped
    clock.at = MONDAY + 9 * DAY
    send(api, 0, 10)
    worker()
    assert weekly(api) == []
    assert_problem(api.post("/audit-schedules/sch_7/stop", {}), 404)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"since": "7d"}, "since is for no audit with every"),
        ({"seed": "s"}, "seed is for no audit with every"),
        ({"every": None}, "give half_width or target, not both"),
        ({"every": None, "target": None}, "time_zone is for an audit with every"),
        ({"labels": 30}, "give half_width or labels, not both"),
        ({"time_zone": "Berlin"}, "it must be the IANA name of a time zone"),
        ({"aim": "MAYBE"}, "MAYBE"),
        ({"version": "v9"}, "v9"),
        ({"where": ["nothing:here"]}, "nothing"),
        ({"name": "x" * 181}, "up to 180 characters"),
    ],
)
def test_what_no_span_can_be_asked_is_refused_at_once(api, door, more, message):
    refused = api.post("/detectors/door/audits", {**WEEKLY, **more})
    assert refused.status_code == 422
    assert message in refused.text


def test_the_name_of_a_schedule_is_its_own(api, door):
    begin(api)
    assert_problem(api.post("/detectors/door/audits", WEEKLY), 409)
    assert begin(api, name="Other", target=None)["target"] is None
    api.patch("/detectors/door", {"measure": "overall", "target": 0.8})
    assert begin(api, name="Third", target=None)["target"] == 0.8
