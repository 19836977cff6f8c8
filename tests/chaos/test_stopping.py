"""SIGTERM while requests are under way: each gets its answer."""

import signal
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import psutil
from sqlalchemy import text

from tests.chaos.load import make_row
from tests.chaos.service import WEB, Service
from tests.chaos.verdict import command
from tests.processes import SECONDS, wait_until
from tracker.storage.database import open_database

REQUESTS = 20


def test_twenty_requests_in_flight_get_twenty_answers(
    durable_url: str, tmp_path: Path
) -> None:
    database = open_database(durable_url)
    with Service(durable_url, tmp_path, workers=0) as service:
        service.ask("POST", "/detectors", {"name": "door", "question": "Closed?"})
        web = service.running[WEB].popen
        with ThreadPoolExecutor(REQUESTS) as pool:
            with database.write() as session:
                # Nobody else can write as long as this lasts.
                session.connection()
                if not database.is_sqlite:
                    lock = "LOCK TABLE pending_batches IN ACCESS EXCLUSIVE MODE"
                    session.execute(text(lock))
                asked = [
                    pool.submit(
                        service.ask, "POST", "/detectors/door/queries", make_row(number)
                    )
                    for number in range(REQUESTS)
                ]
                wait_until(lambda: connections(web.pid, service.port) == REQUESTS)
                time.sleep(0.5)
                web.send_signal(signal.SIGTERM)
                time.sleep(0.5)
                assert not any(one.done() for one in asked)
            statuses = [one.result().status for one in asked]
        status = web.wait(SECONDS)

    database.close()
    assert statuses == [201] * REQUESTS
    assert status == 0
    exported = command(service, "export", "door", "--what", "labels").stdout
    assert exported.count("true") == REQUESTS


def connections(pid: int, port: int) -> int:
    """How many connections a web server's processes have accepted."""
    return sum(
        found.status == psutil.CONN_ESTABLISHED and found.laddr.port == port
        for child in psutil.Process(pid).children(recursive=True)
        for found in child.net_connections("tcp")
    )
