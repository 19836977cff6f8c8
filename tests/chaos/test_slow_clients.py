"""Clients that send or read slowly hold up nobody else."""

import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from tests.chaos.load import make_row
from tests.chaos.service import Service
from tests.conftest import IS_LONG
from tests.processes import wait_until

PROBES = 10
# A machine that does other work answers late; without a bound of its own, a web
# server that hangs does not answer at all.
MOST_SECONDS = 1.0 if IS_LONG else 20.0

HALF_BODY = (
    "POST {path} HTTP/1.1\r\nHost: localhost\r\n{headers}"
    "Content-Type: {media}\r\nContent-Length: 5000\r\n\r\nhalf a"
)
HALF_HEADER = "GET /healthz HTTP/1.1\r\nHost: localhost\r\nX-Slow: "


def half_bodies(service: Service, number: int = 200) -> list[str]:
    """Bodies to sign in, without a key, and with one."""
    key = f"Authorization: {service.headers['Authorization']}\r\n"
    form, json = "application/x-www-form-urlencoded", "application/json"
    queries = "/api/v1/detectors/door/queries"
    kinds = [
        HALF_BODY.format(path="/sign-in", headers="", media=form),
        HALF_BODY.format(path=queries, headers="", media=json),
        HALF_BODY.format(path=queries, headers=key, media=json),
        HALF_BODY.format(path=f"{queries[:-7]}import", headers=key, media="text/csv"),
    ]
    return [kinds[turn % len(kinds)] for turn in range(number)]


@contextmanager
def open_sockets(service: Service, beginnings: list[str]) -> Iterator[None]:
    """Send the beginning of each request, and no more for as long as this lasts."""
    with ExitStack() as stack:
        for beginning in beginnings:
            one = socket.create_connection(("127.0.0.1", service.port), timeout=60)
            stack.enter_context(one)
            one.sendall(beginning.encode())
        # All of them have reached a thread, if they get one at all.
        time.sleep(1)
        yield


def slowest_answer(service: Service, source: str = "127.0.0.1") -> float:
    """Ask for the health and log labels; return the seconds of the slowest answer."""
    waits = []
    for number in range(PROBES):
        begun = time.monotonic()
        assert service.ask("GET", "/healthz", source=source).status == 200
        waits.append(time.monotonic() - begun)
        begun = time.monotonic()
        path, row = "/detectors/door/queries", make_row(number)
        assert service.ask("POST", path, row, source=source).status == 201
        waits.append(time.monotonic() - begun)
    return max(waits)


def test_slow_clients_hold_up_nobody(
    durable_url: str, tmp_path: Path, record_figure: Callable[[str], None]
) -> None:
    with Service(durable_url, tmp_path, workers=0) as service:
        service.ask("POST", "/detectors", {"name": "door", "question": "Closed?"})
        beginnings = [HALF_HEADER] * 100 + half_bodies(service)
        with open_sockets(service, beginnings):
            slowest = slowest_answer(service)
        assert service.mistakes() == []
    record_figure(f"{len(beginnings)} slow clients: slowest answer {slowest:.3f} s")
    assert slowest < MOST_SECONDS


@pytest.mark.skipif(
    sys.platform != "linux", reason="only Linux has more loopback addresses than one"
)
def test_one_address_leaves_room_for_the_others(
    durable_url: str, tmp_path: Path, record_figure: Callable[[str], None]
) -> None:
    few = {"TRACKER_WEB_CONNECTIONS": "64", "TRACKER_WEB_PROCESSES": "1"}
    with Service(durable_url, tmp_path, workers=0, **few) as service:
        service.ask("POST", "/detectors", {"name": "door", "question": "Closed?"})
        # Several times what may be open.
        beginnings = [HALF_HEADER] * 200 + half_bodies(service, 200)
        with open_sockets(service, beginnings):
            slowest = slowest_answer(service, "127.0.0.2")
            # Neither is the address itself shut out for longer than it holds them.
            assert service.ask("GET", "/healthz").status == 200
            assert service.ask("GET", "/detectors").status == 429
        wait_until(lambda: service.ask("GET", "/detectors").status == 200, MOST_SECONDS)
        assert service.mistakes() == []
    record_figure(
        f"{len(beginnings)} slow clients at one address: slowest answer to another "
        f"{slowest:.3f} s"
    )
    assert slowest < MOST_SECONDS


def unread_downloads(
    service: Service, number: int, detector: str = "door"
) -> Iterator[socket.socket]:
    """Ask for every label as a file, and read nothing of it."""
    for _ in range(number):
        one = socket.socket()
        # What the kernel would take off the server's hands is no slow client.
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        one.settimeout(60)
        try:
            one.connect(("127.0.0.1", service.port))
            one.sendall(
                f"GET /api/v1/detectors/{detector}/labels?format=csv HTTP/1.1\r\n"
                "Host: localhost\r\n"
                f"Authorization: {service.headers['Authorization']}\r\n\r\n".encode()
            )
        except OSError:
            one.close()
            raise
        yield one


def test_downloads_that_nobody_reads_hold_up_nobody(
    durable_url: str, tmp_path: Path, record_figure: Callable[[str], None]
) -> None:
    with Service(durable_url, tmp_path, workers=0) as service, ExitStack() as stack:
        service.ask("POST", "/detectors", {"name": "door", "question": "Closed?"})
        rows = [make_row(number) for number in range(20_000)]
        path = "/detectors/door/import?on_error=reject"
        assert service.ask("POST", path, {"items": rows}).status == 200
        opened = [stack.enter_context(one) for one in unread_downloads(service, 50)]
        time.sleep(1)
        waits = []
        for number in range(20_000, 20_000 + PROBES):
            begun = time.monotonic()
            assert service.ask("GET", "/healthz").status == 200
            label = service.ask("POST", "/detectors/door/queries", make_row(number))
            assert label.status == 201
            waits.append(time.monotonic() - begun)
        begun_answers = [one.recv(12).split()[-1] for one in opened]
        assert begun_answers.count(b"200") >= 2
        assert set(begun_answers) <= {b"200", b"429"}
        assert service.mistakes() == []
    record_figure(f"50 unread downloads: slowest pair of answers {max(waits):.3f} s")
    assert max(waits) < 2 * MOST_SECONDS
