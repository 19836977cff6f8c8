"""Clients that send labels until each is acknowledged, and what they remember."""

import http.client
import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sized
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from tests.chaos.service import ANSWERING, WEB, Answer, Service
from tests.processes import wait_until

# Labels are never replaced in the one, and in the other some are.
PLAIN, CORRECTED = "plain", "corrected"
CLASSES = ["YES", "NO"]
_PAUSE_SECONDS = 0.05


@dataclass(frozen=True)
class Profile:
    """How much is sent, how, and how often something is killed meanwhile."""

    labels: int
    clients: int
    kills: int
    # Rows of one request; 1 logs query and label one by one.
    batch: int


def make_row(number: int, *, is_corrected: bool = False) -> dict[str, Any]:
    """The labelled query of that number; another label once it was corrected."""
    draw = random.Random(f"{number} {is_corrected}")
    truth = draw.choice(["YES", "YES", "NO", "UNCLEAR"] if is_corrected else CLASSES)
    predicted = random.Random(number).choice(CLASSES)
    return {"key": f"k{number}", "predicted": predicted, "label": truth}


class Gate:
    """Where clients wait for the next kill once so many labels are acknowledged."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._most = float("inf")
        self._standing = 0

    def move(self, most: float) -> None:
        """Let the clients go on until *most* labels are acknowledged."""
        with self._changed:
            self._most = most
            self._changed.notify_all()

    def pass_through(self, labels: Sized) -> None:
        """Wait as long as there are too many *labels*."""
        with self._changed:
            self._stand(1)
            self._changed.wait_for(lambda: len(labels) < self._most)
            self._standing -= 1

    def leave(self) -> None:
        """Stand aside for good: all is sent."""
        with self._changed:
            self._stand(1)

    def wait_for_silence(self, clients: int) -> None:
        """Wait until each of the *clients* stands here, and no request is under way."""
        with self._changed:
            assert self._changed.wait_for(lambda: self._standing == clients, 600)

    def _stand(self, number: int) -> None:
        self._standing += number
        self._changed.notify_all()


@dataclass
class Ledger:
    """What was acknowledged, and every answer that should not have been."""

    labels: dict[tuple[str, str], dict[str, Any]] = field(default_factory=dict)
    problems: list[str] = field(default_factory=list)
    refused: int = 0
    statuses: Counter[int] = field(default_factory=Counter)
    seconds: list[float] = field(default_factory=list)
    gate: Gate = field(default_factory=Gate)

    def acknowledge(self, detector: str, rows: list[dict[str, Any]]) -> None:
        for row in rows:
            self.labels[detector, row["key"]] = row

    def describe(self) -> str:
        """What the clients saw, in one line."""
        times = sorted(self.seconds)
        at = [times[int(share * (len(times) - 1))] for share in (0.5, 0.99, 1)]
        spread = " / ".join(f"{seconds * 1000:,.0f}" for seconds in at)
        return (
            f"{len(self.labels):,} labels acknowledged, statuses "
            f"{dict(self.statuses)}, median / p99 / longest {spread} ms"
        )

    def of(self, detector: str) -> list[dict[str, Any]]:
        return [row for (name, _), row in self.labels.items() if name == detector]


class Client:
    """Sends its share of the load."""

    def __init__(self, service: Service, ledger: Ledger, profile: Profile) -> None:
        self._service = service
        self._ledger = ledger
        self._profile = profile

    def send(self, path: str, body: Any) -> Answer:
        """Send until it is acknowledged; only 503 and silence are reasons to repeat."""
        while True:
            begun = time.perf_counter()
            try:
                answer = self._service.ask("POST", path, body)
            except (OSError, http.client.HTTPException):
                time.sleep(_PAUSE_SECONDS)
                continue
            self._ledger.seconds.append(time.perf_counter() - begun)
            self._ledger.statuses[answer.status] += 1
            if answer.is_acknowledgement:
                return answer
            if answer.status != 503 or "retry-after" not in answer.headers:
                said = f"{answer.status} {answer.content[:300]!r} {answer.headers}"
                self._ledger.problems.append(f"{path} was answered by {said}")
                self._ledger.refused += 1
                return answer
            time.sleep(_PAUSE_SECONDS)

    def work(self, first: int) -> None:
        """Send every so many-th request from the *first* on."""
        step = self._profile.batch * self._profile.clients
        for start in range(first * self._profile.batch, self._profile.labels, step):
            self._ledger.gate.pass_through(self._ledger.labels)
            numbers = range(start, start + self._profile.batch)
            if self._profile.batch == 1:
                self._send_one(start, is_repeated=start // step % 100 == 7)
            elif start // self._profile.batch % 5 == 3:
                self._send_and_correct(numbers)
            else:
                self._send_batch(numbers, repeated=start - step)
        self._ledger.gate.leave()

    def _send_one(self, number: int, *, is_repeated: bool) -> None:
        row = make_row(number)
        path = f"/detectors/{PLAIN}/queries"
        if self.send(path, row).is_acknowledgement:
            self._ledger.acknowledge(PLAIN, [row])
        if is_repeated and (again := self.send(path, row)).status != 200:
            self._ledger.problems.append(
                f"lost: {row['key']} sent again was new: {again.content[:300]!r}"
            )

    def _send_batch(self, numbers: range, *, repeated: int) -> None:
        """One row in a hundred was sent before."""
        rows = [make_row(number) for number in numbers]
        again = [make_row(repeated)] if (PLAIN, f"k{repeated}") in self._known() else []
        self._import(PLAIN, [*rows, *again])

    def _known(self) -> dict[tuple[str, str], dict[str, Any]]:
        return self._ledger.labels

    def _send_and_correct(self, numbers: range) -> None:
        self._import(CORRECTED, [make_row(number) for number in numbers])
        corrected = [make_row(number, is_corrected=True) for number in numbers]
        self._import(CORRECTED, corrected)
        report = self.send(f"/detectors/{CORRECTED}/import", {"items": corrected}).json
        if report.get("unchanged") != len(corrected):
            self._ledger.problems.append(f"lost: a repeated file said {report}")

    def _import(self, detector: str, rows: list[dict[str, Any]]) -> None:
        answer = self.send(f"/detectors/{detector}/import", {"items": rows})
        if answer.is_acknowledgement:
            self._ledger.acknowledge(detector, rows)


def run(
    service: Service,
    ledger: Ledger,
    profile: Profile,
    *,
    kill: Callable[[], None] | None = None,
    after_kill: Callable[[], None] = lambda: None,
    is_silent: bool = False,
) -> None:
    """Send the whole load while one process after the other is killed.

    With *is_silent* only once all that was sent is acknowledged, and nothing is under
    way; else in the middle of it.
    """
    for name in (PLAIN, CORRECTED):
        new = {"name": name, "question": "Closed?", "label_sampling": "random"}
        made = service.ask("POST", "/detectors", new)
        assert made.is_acknowledgement, made
    client = Client(service, ledger, profile)
    with ThreadPoolExecutor(profile.clients) as pool:
        ledger.gate.move(0.0 if profile.kills else float("inf"))
        senders = [pool.submit(client.work, n) for n in range(profile.clients)]
        try:
            for victim in _moments(service, ledger, profile, is_silent=is_silent):
                if kill is None:
                    service.kill(victim)
                else:
                    kill()
                after_kill()
        finally:
            ledger.gate.move(float("inf"))
        for sender in senders:
            sender.result()


def _moments(
    service: Service, ledger: Ledger, profile: Profile, *, is_silent: bool
) -> Iterator[str]:
    """Give each process that is to be killed, at the moment when it is."""
    share = profile.labels / (profile.kills + 1)
    victims = _victims(service)
    for number in range(profile.kills):
        victim = next(victims)
        # Not one that is still on its way up: that would prove little.
        service.wait_for(victim)
        ledger.gate.move(share * (number + 1.5))
        wait_until(partial(_has_answered, ledger, share * (number + 1)), 600)
        if is_silent:
            ledger.gate.wait_for_silence(profile.clients)
        else:
            ledger.gate.move(share * (number + 1.9))
        yield victim


def _has_answered(ledger: Ledger, number: float) -> bool:
    # What was refused is not sent again, so it would be waited for in vain.
    return len(ledger.labels) + ledger.refused >= number


def _victims(service: Service) -> Iterator[str]:
    draw = random.Random(1)
    while True:
        yield from (WEB, draw.choice(service.workers), ANSWERING)


def at_once(number: int, work: Callable[[int], Any]) -> list[Any]:
    """What *work* gives for 0, 1, …, each in a thread of its own, begun together."""
    barrier = threading.Barrier(number)

    def run_one(place: int) -> Any:
        barrier.wait()
        return work(place)

    with ThreadPoolExecutor(number) as pool:
        return list(pool.map(run_one, range(number)))
