"""What is wrong with a database, or with a port, is said in one plain line."""

import contextlib
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text

from tests.cli.filled import fill, opened
from tests.cli.test_commands import Shell
from tests.processes import SECONDS, TRACKER, Process, clean_environ, free_port
from tracker.storage.operations import schema

pytestmark = pytest.mark.slow

# Each begins by reaching for the database, in a way of its own.
COMMANDS = (["db", "upgrade"], ["serve"], ["web"], ["worker"], ["doctor"])
SECRET = "9f86d081884c7d659a2feaa0c55ad015"


@pytest.fixture
def shell(database_url: str, tmp_path: Path) -> Shell:
    return Shell(database_url, tmp_path)


@pytest.fixture
def new_postgres(postgres_server_url: str) -> Iterator[Any]:
    """Makes an empty PostgreSQL database by a statement with its name in braces."""
    server = make_url(postgres_server_url).set(drivername="postgresql+psycopg")
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    name = "empty_" + os.urandom(6).hex()

    def make(options: str) -> str:
        with engine.connect() as connection:
            statement = f"CREATE DATABASE {name} TEMPLATE template0 {options}"
            connection.exec_driver_sql(statement)
        return server.set(database=name).render_as_string(hide_password=False)

    yield make
    with engine.connect() as connection:
        connection.exec_driver_sql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")
    engine.dispose()


def complaints(shell: Shell) -> list[str]:
    """What each command says, all of it one line."""
    said = [shell(*words, status=1).stderr.splitlines() for words in COMMANDS]
    assert all(len(lines) == 1 for lines in said), said
    return [lines[0] for lines in said]


def test_a_database_that_does_not_answer_is_named_without_its_password(
    tmp_path: Path,
) -> None:
    url = "postgresql://tracker:pa55word@127.0.0.1:1/tracker"
    for line in complaints(Shell(url, tmp_path)):
        assert "the database does not answer: connection failed" in line
        assert "TRACKER_DATABASE_URL is postgresql+psycopg://tracker:***@" in line


def test_a_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    file = tmp_path / "notes.txt"
    file.write_text("This is no database. " * 100)
    for line in complaints(Shell(f"sqlite:///{file}", tmp_path)):
        assert "file is not a database" in line
        assert str(file) in line
    assert file.read_text().startswith("This is no database.")


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    shell = Shell(f"sqlite:///{file}/folder/tracker.db", tmp_path)
    *makers, doctor = complaints(shell)
    for line in makers:
        assert f"{file}/folder, cannot be created: Not a directory" in line
    assert f"there is no database at {file}/folder/tracker.db" in doctor


@pytest.mark.parametrize("encoding", ["LATIN1", "SQL_ASCII"])
def test_a_database_that_cannot_hold_every_text_is_refused(
    new_postgres: Any, tmp_path: Path, encoding: str
) -> None:
    url = new_postgres(f"ENCODING '{encoding}' LOCALE 'C'")
    for line in complaints(Shell(url, tmp_path)):
        assert f"the encoding of the database is {encoding}: create one with" in line


def test_a_database_whose_user_may_not_make_tables_is_refused(
    new_postgres: Any, tmp_path: Path
) -> None:
    owned = new_postgres("ENCODING 'UTF8'")
    engine = create_engine(owned, isolation_level="AUTOCOMMIT")
    role = "guest_" + os.urandom(6).hex()
    with engine.connect() as connection:
        connection.exec_driver_sql(f"CREATE ROLE {role} LOGIN")
        connection.exec_driver_sql("REVOKE ALL ON SCHEMA public FROM PUBLIC")
        connection.exec_driver_sql(f"GRANT USAGE ON SCHEMA public TO {role}")
    url = make_url(owned).set(username=role).render_as_string(hide_password=False)
    try:
        said = Shell(url, tmp_path)("db", "upgrade", status=1).stderr
    finally:
        with engine.connect() as connection:
            connection.exec_driver_sql(f"REVOKE ALL ON SCHEMA public FROM {role}")
            connection.exec_driver_sql(f"DROP ROLE {role}")
        engine.dispose()
    assert "does not let its user create tables (permission denied" in said
    assert len(said.splitlines()) == 1


def test_a_database_of_a_newer_program_is_left_alone_and_said_to_be_newer(
    shell: Shell,
) -> None:
    with opened(shell) as database, database.write() as session:
        session.execute(text("UPDATE alembic_version SET version_num = '9999'"))
    for line in complaints(shell):
        assert "at revision 9999 and newer than this program" in line
        assert "install the version of the program that upgraded it" in line
    with opened(shell) as database:
        assert schema.current_revision(database) == "9999"


def test_a_web_process_that_finds_no_database_answers_until_there_is_one(
    tmp_path: Path,
) -> None:
    ask = (
        "from werkzeug.test import Client; "
        "from tracker.cli.operations.wsgi import build_app; "
        "client = Client(build_app()); key = {'Authorization': 'Bearer trk_x'}; "
        "paths = ('/healthz', '/readyz', '/api/v1/detectors'); "
        "print([client.get(path, headers=key).status_code for path in paths])"
    )
    asked = subprocess.run(
        [sys.executable, "-c", ask],
        env=clean_environ(
            TRACKER_DATABASE_URL="postgresql://127.0.0.1:1/tracker",
            TRACKER_DATA_DIR=str(tmp_path),
        ),
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS,
    )
    assert asked.stdout == "[200, 503, 503]\n"
    assert "Traceback" not in asked.stderr


def test_a_damaged_image_is_found_and_does_not_spoil_a_backup(
    shell: Shell, tmp_path: Path
) -> None:
    fill(shell)
    folder = Path(shell.environ["TRACKER_DATA_DIR"]) / "images"
    damaged = min(folder.rglob("*.png"))
    damaged.write_bytes(damaged.read_bytes()[:60])
    file = str(tmp_path / "all.zip")

    said = shell("doctor", status=1).stdout
    assert f"the image {damaged.name} of a query is damaged" in said
    assert f"to {damaged.parent.name}/{damaged.name} where images" in said
    said = shell("backup", file, status=1).stderr
    assert f"{damaged.name} is missing or damaged" in said
    assert "1 image is missing; everything else was saved" in said

    other = Shell(f"sqlite:///{tmp_path}/other.db", tmp_path / "other")
    other("restore", file)
    kept = Path(other.environ["TRACKER_DATA_DIR"]) / "images"
    assert damaged.name not in {path.name for path in kept.rglob("*.png")}


@pytest.mark.chaos_on("postgresql")
def test_serving_at_every_address_comes_up_and_says_where(
    shell: Shell,
) -> None:
    shell("accounts", "create", "admin", "--role", "admin")
    environ = clean_environ(**shell.environ, TRACKER_SECRET_KEY=SECRET)
    port = free_port()
    command = [*TRACKER, "serve", "--host", "0.0.0.0", "--port", str(port)]
    process = Process(command, environ)
    try:
        assert process.line() == f"Tracker is at http://0.0.0.0:{port}\n"
    finally:
        process.kill()


@pytest.mark.chaos_on("postgresql")
def test_a_web_server_does_not_share_the_port_of_another(shell: Shell) -> None:
    with contextlib.closing(socket.socket()) as taken:
        # As the web server itself listens, so that the system would let it.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = subprocess.run(
            [*TRACKER, "web", "--port", port],
            check=False,
            env=clean_environ(**shell.environ),
            capture_output=True,
            text=True,
            timeout=60,
        )
    assert done.returncode == 1
    assert done.stderr.startswith(f"Error: --port {port} is not available on 127.0.0.1")
    assert len(done.stderr.splitlines()) == 1


def test_a_read_only_disk_is_named(tmp_path: Path) -> None:
    mount = f"mount --bind {tmp_path} {tmp_path}"
    alone = ["unshare", "--mount", "sh", "-c"]
    if os.geteuid() or subprocess.run([*alone, mount], check=False).returncode:
        pytest.skip("a read-only mount takes root and a namespace of its own")
    environ = clean_environ(TRACKER_DATA_DIR=str(tmp_path))
    subprocess.run([*TRACKER, "db", "upgrade"], env=environ, check=True)
    mount += f" && mount -o remount,bind,ro {tmp_path}"
    for words in (["serve"], ["worker"]):
        command = shlex.join([*TRACKER, *words])
        done = subprocess.run(
            [*alone, f"{mount} && exec {command}"],
            env=environ,
            capture_output=True,
            text=True,
            timeout=SECONDS,
            check=False,
        )
        [line] = done.stderr.splitlines()
        assert done.returncode == 1
        assert "its disk may be read-only" in line
