"""Whatever becomes of the server or the program: nothing lost, nothing twice."""

import errno
import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time

import pytest
from tracker_client import Tracker

from client.tests.service import Service
from client.tests.test_logging import PNG, door
from client.tests.trouble import CUT, FINE, LOST, before
from tests.processes import wait_until


@pytest.fixture
def proxy(service: Service):
    with before(service.url) as made:
        yield made


@pytest.fixture
def behind(proxy, service, tmp_path):
    """A client that reaches the server through the proxy alone."""
    with Tracker(proxy.url, service.key, spool=tmp_path / "spool", timeout=2) as made:
        yield made


@pytest.mark.thorough
@pytest.mark.parametrize(
    "mode", [408, 429, 500, 502, 503, 301, 404, 401, 403, CUT, LOST]
)
def test_no_trouble_loses_or_doubles_a_row(behind, proxy, service, mode) -> None:
    proxy.modes = [mode, mode, FINE]
    one = door(behind, service)
    one.log("YES", key="a")
    one.log("NO", key="b", image=PNG)
    one.label("a", "NO")
    one.label("a", "YES")
    assert behind.flush(timeout=30)

    assert set(service.queries(one.name)) == {"a", "b"}
    assert service.labels(one.name, "a") == ["NO", "YES"]
    assert not behind.dead_letters.exists()


def test_the_answer_of_each_request_may_be_lost(behind, proxy, service) -> None:
    proxy.modes = [LOST, FINE] * 8 + [FINE]
    one = door(behind, service)
    one.log("YES", key="a")
    for label in ("NO", "YES", "NO"):
        one.label("a", label)
    assert behind.flush(timeout=60)

    assert service.labels(one.name, "a") == ["NO", "YES", "NO"]
    keys = [key for _, _, key in proxy.seen if key]
    # What was sent again was sent under the same key.
    assert len(set(keys)) < len(keys)


@pytest.mark.slow
def test_a_frozen_server_is_given_up_and_asked_again(behind, proxy, service) -> None:
    proxy.modes = [4.0, FINE]
    one = door(behind, service)
    begun = time.perf_counter()
    one.log("YES", key="a")
    assert time.perf_counter() - begun < 3
    assert behind.flush(timeout=30)

    assert set(service.queries(one.name)) == {"a"}


@pytest.mark.slow
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_is_waited_for(behind, proxy, service, status) -> None:
    one = door(behind, service)
    assert behind.flush(timeout=10)
    proxy.seen.clear()
    proxy.modes, proxy.retry_after = [status, FINE], "2"
    one.log("YES", key="a")
    assert behind.flush(timeout=20)

    (first, *_), (second, *_) = proxy.seen[:2]
    assert second - first >= 2


@pytest.mark.slow
def test_waits_grow_while_a_server_fails(behind, proxy, service) -> None:
    proxy.modes = [500]
    door(behind, service).log("YES")
    wait_until(lambda: len(proxy.seen) >= 2)
    time.sleep(2)

    assert len(proxy.seen) <= 10


LOGGING = """
import os, sys
from tracker_client import Tracker
tracker = Tracker(exit_seconds=0)
door = tracker.detector({name!r}, question="?", classes=["YES", "NO"])
for number in range({number}):
    door.log("YES", key=f"{prefix}{{number}}")
    door.label(f"{prefix}{{number}}", "NO")
{end}
"""


@pytest.mark.slow
@pytest.mark.parametrize("end", ["os.kill(os.getpid(), 9)", "os._exit(0)", ""])
def test_a_program_that_ends_after_the_append_loses_nothing(
    run_program, tracker, service, end
) -> None:
    name = service.new_name()
    code = LOGGING.format(name=name, number=1_200, prefix="k", end=end)
    done = run_program(code)
    assert done.returncode == (-signal.SIGKILL if "kill" in end else 0), done.stderr

    assert tracker.flush(timeout=30)
    found = service.queries(name)
    assert len(found) == 1_200
    assert {query["label"] for query in found.values()} == {"NO"}
    assert not tracker.dead_letters.exists()


@pytest.mark.slow
def test_programs_killed_in_the_middle_of_sending_double_nothing(
    service, proxy, tmp_path
) -> None:
    name, spool = service.new_name(), tmp_path / "spool"
    # Some answers are lost with the program that waited for them.
    proxy.modes = [FINE, LOST, FINE, 0.3] * 50
    environ = service.environ(spool) | {"TRACKER_URL": proxy.url}
    acknowledged = set()
    for turn in range(4):
        code = LOGGING.format(
            name=name, number=400, prefix=f"{turn}-", end="import time; time.sleep(60)"
        )
        code = code.replace("door.label(", "print(number); door.label(")
        process = subprocess.Popen(
            [sys.executable, "-u", "-c", code], env=environ, stdout=subprocess.PIPE
        )
        assert process.stdout is not None
        first = process.stdout.readline()
        time.sleep(0.1 + turn / 4)
        process.kill()
        said, _ = process.communicate()
        acknowledged |= {f"{turn}-{int(n)}" for n in (first + said).split(b"\n")[:-1]}
    proxy.modes = [FINE]
    with Tracker(proxy.url, service.key, spool=spool) as last:
        assert last.flush(timeout=60)
        assert not last.dead_letters.exists()

    found = service.queries(name)
    assert acknowledged <= set(found)
    server = service.server
    labels = [
        server.get(f"/queries/{query['id']}/labels").json["items"]
        for query in list(found.values())[::7]
    ]
    assert {len(given) for given in labels} <= {0, 1}


def test_children_of_a_fork_log_beside_their_parent(tracker, service) -> None:
    one = door(tracker, service)
    one.log("YES", key="parent before")
    context = multiprocessing.get_context("fork")

    def work(number: int) -> None:
        for place in range(50):
            one.log("YES", key=f"{number}-{place}")
        one.log("NO")
        os._exit(0)

    children = [context.Process(target=work, args=(number,)) for number in range(3)]
    for child in children:
        child.start()
    one.log("YES", key="parent after")
    for child in children:
        child.join()
    assert tracker.flush(timeout=30)
    # What the children wrote behind the last row of this process may take longer.
    wait_until(lambda: len(service.queries(one.name)) == 3 * 51 + 2)

    found = service.queries(one.name)
    made_up = {key for key in found if key.startswith("c-")}
    assert len(made_up) == 3
    assert len(found) == 3 * 51 + 2


def test_a_full_disk_stops_nobody(tracker, service, monkeypatch) -> None:
    one = door(tracker, service)
    one.log("YES", key="before")
    assert tracker.flush(timeout=10)

    def fail(*_: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as full:
        full.setattr("tracker_client.spool.os.write", fail)
        one.log("YES", key="full")
        one.label("full", "NO")
        one.label("full", "YES")
        one.log("?", key="bad")
        # It is sent from memory, and one row is refused.
        assert not tracker.flush(timeout=20)
        assert tracker.refused == 1
    one.log("YES", key="after")
    # The refused row stays refused.
    assert not tracker.flush(timeout=10)

    assert set(service.queries(one.name)) == {"before", "full", "after"}
    assert service.labels(one.name, "full") == ["NO", "YES"]
    assert [
        json.loads(line)["key"]
        for line in tracker.dead_letters.read_text().splitlines()
    ] == ["bad"]


FULL = """
import resource
from tracker_client import Tracker
tracker = Tracker()
door = tracker.detector({name!r}, question="?", classes=["YES", "NO"])
door.log("YES", key="before")
assert tracker.flush(timeout=30)
# From here on no file may grow beyond this, as on a disk that is full.
resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))
for number in range(40):
    door.log("YES", key=f"k{{number}}")
    door.label(f"k{{number}}", "NO")
    door.label(f"k{{number}}", "YES")
assert tracker._spool.waiting
assert tracker.flush(timeout=60)
assert not tracker.refused and not tracker.dropped
"""


@pytest.mark.slow
def test_a_program_goes_on_while_no_file_can_grow(run_program, service) -> None:
    name = service.new_name()
    done = run_program(FULL.format(name=name))
    assert done.returncode == 0, done.stderr

    assert len(service.queries(name)) == 41
    assert service.labels(name, "k0") == service.labels(name, "k39") == ["NO", "YES"]


def test_after_a_signal_everything_is_on_the_disk(service, tmp_path, tracker) -> None:
    name = service.new_name()
    code = LOGGING.format(
        name=name,
        number=300,
        prefix="k",
        end="print('on'); import time; time.sleep(60)",
    )
    environ = service.environ(tmp_path / "spool") | {
        "TRACKER_URL": "http://127.0.0.1:9"
    }
    process = subprocess.Popen(
        [sys.executable, "-u", "-c", code], env=environ, stdout=subprocess.PIPE
    )
    assert process.stdout is not None
    assert process.stdout.readline() == b"on\n"
    process.terminate()
    process.communicate()

    assert tracker.flush(timeout=30)
    assert len(service.queries(name)) == 300
