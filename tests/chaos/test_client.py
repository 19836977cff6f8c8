"""Programs log with the client while they, and what they log to, are killed."""

import os
import random
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest
from sqlalchemy import select
from tracker_client import Tracker

from tests.chaos.service import ANSWERING, WEB, Service
from tests.conftest import IS_LONG
from tests.processes import ROOT, Process, clean_environ, wait_until
from tracker.storage.database import open_database
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query

PROGRAM = ROOT / "tests" / "chaos" / "logging_program.py"

# Others may use the machine.
pytestmark = pytest.mark.timeout(7_200)


@dataclass(frozen=True)
class Profile:
    """How many programs log how much at which rate, and what happens meanwhile."""

    programs: int
    rows: int
    rate: int
    kills: int
    outage_seconds: float


PROFILE = (
    Profile(programs=4, rows=40_000, rate=100, kills=40, outage_seconds=600)
    if IS_LONG
    else Profile(programs=2, rows=800, rate=200, kills=4, outage_seconds=3)
)


class Program:
    """One program, started again where it was after each kill."""

    def __init__(self, name: str, folder: Path, environ: dict[str, str]) -> None:
        self.name, self.environ = name, environ
        self.ledger = folder / f"{name}.ledger"
        self.ledger.touch()
        self.log = folder / f"{name}.log"
        self.start()

    def start(self) -> None:
        # The row in the middle of which it was killed may be there or not.
        first = len(self.lines()) and int(self.lines()[-1][0].split("-")[1]) + 2
        words = [self.name, str(first), str(PROFILE.rows), str(PROFILE.rate)]
        command = [sys.executable, str(PROGRAM), *words, str(self.ledger)]
        self.process = Process(command, self.environ, log=self.log)

    def lines(self) -> list[list[str]]:
        whole = self.ledger.read_text().split("\n")[:-1]
        return [line.split(" ") for line in whole]

    @property
    def has_ended(self) -> bool:
        return self.process.popen.poll() is not None


def harm(draw: random.Random, service: Service, programs: list[Program]) -> None:
    """Kill a program, or kill or freeze the server."""
    what = draw.choice(["program", "program", WEB, ANSWERING, "frozen"])
    if what == "program":
        one = draw.choice(programs)
        if not one.has_ended:
            one.process.kill()
            one.start()
    elif what == "frozen":
        web = service.running[WEB].popen.pid
        os.killpg(web, signal.SIGSTOP)
        time.sleep(4)
        os.killpg(web, signal.SIGCONT)
    else:
        service.kill(what)


def stored(url: str) -> dict[str, list[str]]:
    """Every label of every key; fails where a key is stored twice."""
    database = open_database(url)
    with database.read() as session:
        keys = list(session.scalars(select(Query.key)))
        found: dict[str, list[str]] = {str(key): [] for key in keys}
        assert len(found) == len(keys)
        pairs = select(Query.key, Label.label).join(Label, Label.query_id == Query.id)
        for key, label in session.execute(pairs.order_by(Label.id)):
            found[str(key)].append(label)
    database.close()
    return found


def test_what_programs_logged_is_there_once_whatever_is_killed(
    durable_url: str, tmp_path: Path, record_figure: Callable[[str], None]
) -> None:
    draw = random.Random(7)
    spool = tmp_path / "spool"
    with Service(durable_url, tmp_path, workers=0) as service:
        url = f"http://127.0.0.1:{service.port}"
        key = service.headers["Authorization"].removeprefix("Bearer ")
        environ = clean_environ(
            TRACKER_URL=url,
            TRACKER_KEY=key,
            TRACKER_SPOOL=str(spool),
            PYTHONPATH=str(ROOT / "client"),
        )
        programs = [
            Program(f"p{number}", tmp_path, environ)
            for number in range(PROFILE.programs)
        ]
        for number in range(PROFILE.kills):
            time.sleep(draw.uniform(0.2, 1.5))
            harm(draw, service, programs)
            if number == PROFILE.kills // 2:
                service.running[WEB].kill()
                time.sleep(PROFILE.outage_seconds)
                service.start(WEB)
        wait_until(lambda: all(one.has_ended for one in programs), 3_000)
        for one in programs:
            one.process.kill()
        service.wait_for(WEB)
        with Tracker(url, key, spool=spool) as last:
            assert last.flush(timeout=600)
            refused = last.dead_letters
            assert not refused.exists(), refused.read_text()[:2000]
        found = stored(durable_url)
    lines = [line for one in programs for line in one.lines()]
    waits = sorted(float(line[2]) for line in lines)
    record_figure(
        f"{len(lines):,} keys, median {waits[len(waits) // 2] * 1e6:.0f} µs, "
        f"99th percentile {waits[int(0.99 * len(waits))] * 1e6:.0f} µs, "
        f"longest {waits[-1] * 1e3:.1f} ms"
    )

    logged = {
        key: [label for label in given.split(",") if label] for key, given, _ in lines
    }
    assert {key: found.get(key) for key in logged} == logged
    # Besides, at most the row that each kill interrupted.
    assert len(found) - len(logged) <= PROFILE.kills


def test_a_second_program_takes_over_what_the_first_left(
    durable_url: str, tmp_path: Path
) -> None:
    with Service(durable_url, tmp_path, workers=0) as service:
        url = f"http://127.0.0.1:{service.port}"
        key = service.headers["Authorization"].removeprefix("Bearer ")
        with (
            Tracker(url, key, spool=tmp_path / "spool") as first,
            Tracker(url, key, spool=tmp_path / "spool") as second,
        ):
            door = first.detector("door", question="?", classes=["YES", "NO"])
            door.log("YES", key="k")
            assert first.flush(timeout=60)
            # Now the first one sends for both.
            other = second.detector("door")
            other.label("k", "NO")
            door.label("k", "YES")
            assert second.flush(timeout=60)
            first.close()
            other.label("k", "NO")
            assert second.flush(timeout=60)
        assert stored(durable_url) == {"k": ["NO", "YES", "NO"]}
