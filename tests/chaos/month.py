"""A user's month, played through the product: its clock, its traffic and its people."""

import http.client
import math
import random
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

from playwright.sync_api import Browser, Page
from playwright.sync_api import Error as BrowserError
from sqlalchemy import text

from tests.chaos.service import WEB, Service
from tests.conftest import IS_LONG, by
from tests.links import sign_in_by
from tests.processes import wait_until
from tracker.services.people.accounts import create_account
from tracker.services.people.keys import create_key
from tracker.services.people.sign_ins import create_link
from tracker.storage.database import Database
from tracker.storage.people import find_account

BERLIN, DAY = ZoneInfo("Europe/Berlin"), timedelta(days=1)
WEEKS, DROPS, EXCHANGED = 4, 1, 2
QUERIES, LATE, BATCHES = (10_000, 150, 7) if IS_LONG else (400, 20, 2)
HALF_WIDTH, TARGET = (0.05 if IS_LONG else 0.15), 0.9
CLASSES, OTHER = ["YES", "NO"], {"YES": "NO", "NO": "YES"}
KEYS = {"YES": "1", "NO": "2", "UNCLEAR": "u"}
SCHEDULE = {
    "name": "Every Monday",
    "every": "week",
    "time_zone": "Europe/Berlin",
    "aim": "overall",
    "half_width": HALF_WIDTH,
    "target": TARGET,
    "labelers": ["ann", "bob", "cyd"],
}


def first_monday() -> datetime:
    """Return when a month begins in whose last week the clocks go forward."""
    last = date(datetime.now(UTC).year + 1, 3, 31)
    change = last - timedelta(days=(last.weekday() + 1) % 7)
    return datetime.combine(change - timedelta(days=27), datetime.min.time(), BERLIN)


@dataclass(frozen=True)
class Sent:
    """A query as the program knows it that sent it, and what people will say."""

    key: str
    week: int
    asked_at: datetime
    predicted: str
    confidence: float
    truth: str
    verdicts: dict[str, str]

    @property
    def row(self) -> dict[str, Any]:
        return {
            "key": self.key,
            "predicted": self.predicted,
            "confidence": self.confidence,
            "asked_at": self.asked_at.isoformat(),
            "version": "v1",
        }

    @property
    def stratum(self) -> tuple[Any, ...]:
        return self.predicted, self.confidence, *sorted(self.verdicts.items())


def make_week(week: int, monday: datetime, count: int, first: int = 0) -> list[Sent]:
    """Return queries of a week, in the order in which they were asked."""
    rng = random.Random(f"{week} {first}")
    begin, end = (
        (monday + timedelta(days=7 * n)).astimezone(UTC) for n in (week, week + 1)
    )
    found = []
    for number in range(first, first + count):
        truth = "YES" if rng.random() < 0.85 else "NO"
        confidence = rng.choices([0.62, 0.9, 0.98], [1, 3, 6])[0]
        wrong = {0.62: 0.25, 0.9: 0.05, 0.98: 0.01}[confidence]
        wrong += 0.35 if week == DROPS else 0.0
        part = (number - first + 0.5) / count
        # In the middle of the third week a better judge takes its place.
        is_new = week > EXCHANGED or (week == EXCHANGED and part > 0.5)
        judge, share = ("llm-2", 0.93) if is_new else ("llm-1", 0.85)
        said = truth if rng.random() < share else OTHER[truth]
        predicted = OTHER[truth] if rng.random() < wrong else truth
        if rng.random() < 0.01:
            truth = "UNCLEAR"
        asked = begin + part * (end - begin)
        verdicts = {judge: said}
        at = f"{week}-{number}", week, asked
        found.append(Sent(*at, predicted, confidence, truth, verdicts))
    return found


class Month:
    """The service, its clock, and all who use it."""

    def __init__(self, service: Service, database: Database, ahead: Path) -> None:
        self.service, self.database, self._ahead = service, database, ahead
        self.kills: Counter[str] = Counter()
        self.sent: dict[str, Sent] = {}
        self.keys: dict[str, str] = {}
        self.labels: Counter[str] = Counter()
        with database.write() as session:
            given = by("owner", self.now)
            self.cyd = create_key(session, "cyd", "labeler", given)
            for name in ("ann", "bob"):
                create_account(session, name, "labeler", given, has_all_detectors=True)

    @property
    def now(self) -> datetime:
        ahead = timedelta(seconds=float(self._ahead.read_text()))
        return datetime.now(UTC) + ahead

    def move_to(self, at: datetime) -> None:
        seconds = (at - datetime.now(UTC)).total_seconds()
        following = self._ahead.with_suffix(".new")
        following.write_text(str(seconds))
        following.replace(self._ahead)

    def ask(self, method: str, path: str, body: Any = None, *, key: str = "") -> Any:
        """Ask until an answer comes; what is sent again changes nothing."""
        while True:
            try:
                answer = self.service.ask(method, path, body, key=key)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
                continue
            if answer.status != 503:
                assert answer.is_acknowledgement, (path, answer.content)
                return answer.json
            time.sleep(0.1)

    def walk(self, path: str) -> Iterator[Any]:
        while path:
            page = self.ask("GET", path)
            yield from page["items"]
            path = (page["next"] or "").partition("/api/v1")[2]

    def kill(self, name: str) -> None:
        self.kills["web" if name == WEB else "worker"] += 1
        self.service.kill(name)

    def while_it_is_killed(self, do: Callable[[], Any], *, is_killed: bool) -> None:
        """Do something by a program that goes on while the server is killed."""
        errors: list[BaseException] = []

        def work() -> None:
            try:
                do()
            except BaseException as error:  # noqa: BLE001 - said below.
                errors.append(error)

        program = threading.Thread(target=work)
        program.start()
        if is_killed:
            time.sleep(0.2)
            self.kill(WEB)
        program.join()
        assert errors == []

    def log(self, queries: list[Sent], *, is_killed: bool) -> None:
        """Send queries, then the verdicts of the judges as columns of their own."""
        self.sent |= {one.key: one for one in queries}
        verdicts = [
            {"key": one.key} | {f"judge:{n}": v for n, v in one.verdicts.items()}
            for one in queries
        ]
        for rows in ([one.row for one in queries], *_by_columns(verdicts)):
            send = partial(self.ask, "POST", "/detectors/door/import", {"items": rows})
            self.while_it_is_killed(send, is_killed=is_killed)

    def set_of(self, week: int) -> list[Sent]:
        """Return the queries of a week that had arrived when its set was frozen."""
        return [
            one
            for one in self.sent.values()
            if one.week == week and int(one.key.partition("-")[2]) < QUERIES
        ]

    def audits(self) -> list[Any]:
        return [*self.walk("/detectors/door/audits?every=week")]

    def learn_keys(self) -> None:
        for one in self.walk("/detectors/door/queries?limit=500"):
            self.keys[one["id"]] = one["key"]


def _by_columns(rows: list[dict[str, str]]) -> Iterator[list[dict[str, str]]]:
    """Yield rows with the same columns together."""
    found = defaultdict(list)
    for row in rows:
        found[tuple(row)].append(row)
    yield from found.values()


@dataclass
class Person:
    """Somebody who labels in a browser what an audit asks for."""

    month: Month
    page: Page
    address: str
    is_done: bool = False
    answers: int = field(default=0)

    def answer(self, *, and_kill: bool = False) -> None:
        """Answer one query, whatever becomes of the server; do nothing once done."""
        if self.is_done:
            return
        query = self._see()
        if query is None:
            self.is_done = True
            return
        truth = self.month.sent[self.month.keys[query]].truth
        self.page.keyboard.press(KEYS[truth])
        if and_kill:
            self.month.kill(WEB)
        try:
            self.page.wait_for_function(_IS_OTHER, arg=query, timeout=4_000)
        except BrowserError:
            self._open()
        self.answers += 1

    def _see(self) -> str | None:
        field = self.page.locator("input[name=query]")
        if not field.count():
            self._open()
        return field.input_value() if field.count() else None

    def _open(self) -> None:
        def opens() -> bool:
            try:
                answer = self.page.goto(self.address)
            except BrowserError:
                return False
            return answer is not None and answer.ok

        wait_until(opens)


_IS_OTHER = """before => {
  const field = document.querySelector("input[name=query]");
  return document.querySelector("#labelling") && field?.value !== before;
}"""


def sign_in(month: Month, browser: Browser, name: str, audit: str) -> Person:
    url = f"http://127.0.0.1:{month.service.port}"
    with month.database.write() as session:
        account = find_account(session, name)
        assert account is not None
        token = create_link(session, account, by(at=month.now))
    context = browser.new_context(viewport={"width": 1280, "height": 900})
    sign_in_by(context.request, f"{url}/sign-in?token={token}")
    person = Person(
        month, context.new_page(), f"{url}/detectors/door/label?audit={audit}"
    )
    person._open()
    return person


def label(month: Month, browser: Browser, audit: str, *, is_killed: bool) -> None:
    """Let two people and a program label at once, until the goal is reached."""
    people = [sign_in(month, browser, name, audit) for name in ("ann", "bob")]
    turns, is_reached = threading.Semaphore(2), threading.Event()

    def work() -> None:
        while turns.acquire() and not is_reached.is_set():
            path = f"/audits/{audit}/next?count=1"
            for one in month.ask("GET", path, key=month.cyd)["items"]:
                body = {"label": month.sent[one["key"]].truth}
                month.ask("POST", f"/queries/{one['id']}/labels", body, key=month.cyd)

    program = threading.Thread(target=work)
    program.start()
    turn = 0
    while not month.ask("GET", f"/audits/{audit}/estimate")["is_reached"]:
        for number, person in enumerate(people):
            person.answer(and_kill=is_killed and turn == 3 and number == 1)
        turns.release(2)
        turn += 1
    is_reached.set()
    turns.release()
    program.join()
    for person in people:
        person.page.context.close()


def is_freezing(month: Month) -> bool:
    with month.database.read() as session:
        found = session.execute(_HELD).scalar()
    return bool(found)


_HELD = text("SELECT count(*) FROM tasks WHERE kind = 'audits' AND worker IS NOT NULL")


def play_week(month: Month, browser: Browser, monday: datetime, week: int) -> None:
    """Play one week: what is logged and judged, the freezing, the labels, the end."""
    worker, end = month.service.workers[0], monday + timedelta(days=7 * (week + 1))
    queries = make_week(week, monday, QUERIES)
    size = math.ceil(len(queries) / BATCHES)
    for number in range(BATCHES):
        batch = queries[number * size : (number + 1) * size]
        # The first day of a week ends just before the set of the last one is frozen.
        month.move_to(max(month.now, batch[-1].asked_at))
        month.log(batch, is_killed=number == 1 and (IS_LONG or not week))
        # Somebody labels a few by chance while the week runs.
        for _ in range(2):
            one = month.ask("GET", "/detectors/door/next", key=month.cyd)
            body = {"label": month.sent[one["key"]].truth}
            month.ask("POST", f"/queries/{one['id']}/labels", body, key=month.cyd)
    month.learn_keys()
    # The worker is killed while it freezes the set, and another one begins again.
    month.move_to((end + DAY).astimezone(UTC))
    month.kill(worker)
    made = week + 1
    if IS_LONG or week == DROPS:
        wait_until(lambda: is_freezing(month) or len(month.audits()) == made)
        month.kill(worker)
    wait_until(lambda: len(month.audits()) == made)
    audit = month.audits()[0]
    assert (audit["queries"], audit["late"]) == (QUERIES, 0)
    if week in {DROPS, 3}:
        month.log(make_week(week, monday, LATE, first=QUERIES), is_killed=False)
    label(month, browser, audit["id"], is_killed=IS_LONG or week == EXCHANGED)
    month.kill(worker)
    wait_until(lambda: month.audits()[0]["closed_at"] is not None)
