"""A million rows pass through web server and worker, and neither grows with them."""

import http.client
import json
import time
from pathlib import Path

import psutil

from tests.chaos.service import ANSWERING, WEB, Service
from tests.conftest import IS_LONG
from tests.processes import wait_until

# Progress is noted once a second, and the fewer must take several of them.
ROWS = 1_000_000 if IS_LONG else 300_000
# The worker checks and writes the file, and folds its first labels meanwhile.
_MOST_MEGABYTES = 500
_PATIENCE_SECONDS = 1800


def write_file(path: Path) -> None:
    with path.open("w") as file:
        file.write("key,predicted,confidence,version,label,sampling\n")
        for number in range(ROWS):
            label = "YES" if number % 3 else "NO"
            file.write(f"frame-{number:07},YES,0.97,v1,{label},random\n")


def send(service: Service, path: Path) -> str:
    """Send the file as it is read, and return the address of its import."""
    connection = http.client.HTTPConnection("127.0.0.1", service.port, timeout=300)
    headers = {**service.headers, "Content-Type": "text/csv", "Prefer": "respond-async"}
    with path.open("rb") as file:
        connection.request("POST", "/api/v1/detectors/door/import", file, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    connection.close()
    assert response.status == 202, answer
    return f"/imports/{answer['id']}"


def peaks(service: Service) -> dict[str, float]:
    """The most memory that each process ever had, in megabytes."""
    found = {}
    for name, running in service.running.items():
        process = psutil.Process(running.popen.pid)
        for each in (process, *process.children()):
            status = Path(f"/proc/{each.pid}/status").read_text()
            (line,) = [x for x in status.splitlines() if x.startswith("VmHWM")]
            key = ANSWERING if name == WEB and each is not process else name
            found[key] = max(found.get(key, 0.0), int(line.split()[1]) / 1000)
    return found


def test_many_rows_are_imported_in_little_memory_and_seen_on_the_way(
    durable_url: str, tmp_path: Path, record_figure
) -> None:
    path = tmp_path / "rows.csv"
    write_file(path)
    seen: list[int] = []
    with Service(durable_url, tmp_path, workers=1) as service:
        made = service.ask("POST", "/detectors", {"name": "door", "question": "?"})
        assert made.status == 201
        begun = time.monotonic()
        address = send(service, path)
        accepted = time.monotonic() - begun

        def has_ended() -> bool:
            found = service.ask("GET", address).json
            seen.append(found["rows_read"])
            return found["finished_at"] is not None

        wait_until(has_ended, _PATIENCE_SECONDS)
        seconds = time.monotonic() - begun
        found = service.ask("GET", address).json
        most = peaks(service)
        assert service.mistakes() == []

    assert found["state"] == "done", found
    assert found["rows_read"] == found["report"]["queries_added"] == ROWS
    assert found["report"]["labels_added"] == ROWS
    assert found["bytes"] == found["bytes_read"] == path.stat().st_size
    # It was seen on the way, and only ever went up.
    assert any(0 < rows < ROWS for rows in seen)
    assert seen == sorted(seen)
    assert max(most.values()) < _MOST_MEGABYTES, most
    record_figure(
        f"{ROWS:,} rows, {path.stat().st_size / 1e6:.0f} MB, accepted after "
        f"{accepted:.1f} s, imported after {seconds:.0f} s, "
        + ", ".join(f"{name} {value:.0f} MB" for name, value in most.items())
    )
