"""PgBouncer before the PostgreSQL of these tests, with its defaults."""

import os
import shutil
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from sqlalchemy import make_url

from tests.processes import Process, free_port, wait_until


@contextmanager
def pooled(database_url: str, **settings: str) -> Iterator[str]:
    """Run PgBouncer with *settings*, and give the URL of the database through it."""
    # Debian puts it where only root looks.
    program = shutil.which("pgbouncer") or shutil.which("pgbouncer", path="/usr/sbin")
    if program is None:
        pytest.skip("there is no pgbouncer: apt-get install pgbouncer")
    url = make_url(database_url)
    port, folder = free_port(), Path(tempfile.mkdtemp(prefix="tracker-pgbouncer-"))
    host = url.query.get("host", url.host)
    lines = [
        "[databases]",
        f"{url.database} = host={host} port={url.port or 5432} user={url.username}",
        "[pgbouncer]",
        "listen_addr = 127.0.0.1",
        f"listen_port = {port}",
        "unix_socket_dir =",
        # Any name is taken for that of the database's own user.
        "auth_type = any",
        *(f"{name} = {value}" for name, value in settings.items()),
    ]
    config = folder / "pgbouncer.ini"
    config.write_text("\n".join(lines))
    folder.chmod(0o755)
    # Like PostgreSQL it refuses to run as root, and goes where that one lets it.
    owner = ["-u", Path(str(host)).owner()] if os.geteuid() == 0 else []
    log = folder / "log"
    process = Process([program, *owner, str(config)], os.environ, log=log)  # noqa: TID251

    def answers() -> bool:
        with suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        assert process.popen.poll() is None, log.read_text()
        return False

    try:
        wait_until(answers)
        through = url.set(host="127.0.0.1", port=port, query={})
        yield through.render_as_string(hide_password=False)
    finally:
        process.kill()
        shutil.rmtree(folder, ignore_errors=True)
