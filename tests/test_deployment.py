"""The container files say what the product does: their commands run as written.

There is no container engine here.  The commands, variables and health checks of
``docker-compose.yml`` run as processes of this machine, with a real PostgreSQL;
only addresses and places that exist in a container alone are translated.
"""

import json
import re
import subprocess
import sys
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from sqlalchemy import create_engine, make_url, text

from tests.processes import ROOT, Process, fetch, free_port, wait_until
from tracker.settings import Settings
from tracker.storage.database import open_database
from tracker.storage.operations.schema import head_revision

pytestmark = pytest.mark.slow

COMPOSE = yaml.safe_load((ROOT / "docker-compose.yml").read_text())
SERVICES: dict[str, dict[str, Any]] = COMPOSE["services"]
OURS = ("migrate", "web", "worker")
DOCKERFILE = (ROOT / "Dockerfile").read_text().replace("\\\n", " ")


def interpolated(value: str, **variables: str) -> str:
    """*value* with its ``${NAME:-default}`` filled in, as compose does it."""
    return re.sub(r"\$\{(\w+):-([^}]*)\}", lambda m: variables.get(m[1]) or m[2], value)


def instructions(name: str) -> list[str]:
    """The arguments of every instruction *name* of the Dockerfile, in order."""
    return re.findall(rf"^{name} +(.+)$", DOCKERFILE, re.MULTILINE)


class Deployment:
    """The services of the compose file as processes."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.folder = folder
        self.port = free_port()
        self.running: dict[str, Process] = {}
        contents = {
            "database_url": database_url + "\n",
            "secret_key": "9f86d081884c7d659a2feaa0c55ad015",
        }
        for name, content in contents.items():
            (folder / name).write_text(content)

    def translate(self, value: str) -> str:
        """Put this machine's places for those of the containers."""
        value = interpolated(value)
        value = value.replace("/run/secrets/", f"{self.folder}/")
        return re.sub(r"\b(web|127\.0\.0\.1):8000\b", f"127.0.0.1:{self.port}", value)

    def command_line(self, service: str, *words: str) -> str:
        return subprocess.run(
            [sys.executable, "-m", "tracker", *words],
            env=self.environ(service),
            check=True,
            capture_output=True,
            text=True,
        ).stdout.strip()

    def environ(self, service: str) -> dict[str, str]:
        [image] = [line for line in instructions("ENV") if "TRACKER_" in line]
        variables = dict(re.findall(r"(TRACKER_\w+)=(\S+)", image))
        variables |= SERVICES[service]["environment"]
        variables["TRACKER_DATA_DIR"] = variables["TRACKER_DATA_DIR"].replace(
            "/data", f"{self.folder}/data"
        )
        # Nothing of this process's own: a container would not have it either.
        return {"PATH": "/usr/bin:/bin"} | {
            name: self.translate(str(value)) for name, value in variables.items()
        }

    def command(self, service: str) -> list[str]:
        [entry_point] = instructions("ENTRYPOINT")
        assert json.loads(entry_point) == ["tracker"]
        words = [sys.executable, "-m", "tracker", *SERVICES[service]["command"]]
        # Two tests on one machine cannot both have the port 8000.
        return [*words, "--port", str(self.port)] if service == "web" else words

    def start(self, service: str) -> Process:
        process = Process(self.command(service), self.environ(service))
        self.running[service] = process
        return process

    def is_healthy(self, service: str) -> bool:
        kind, *words = SERVICES[service]["healthcheck"]["test"]
        assert kind == "CMD"
        program = {"python": [], "tracker": ["-m", "tracker"]}[words[0]]
        done = subprocess.run(
            [sys.executable, *program, *map(self.translate, words[1:])],
            env=self.environ(service),
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0 or "Error" in done.stderr
        return done.returncode == 0

    def call(self, path: str, key: str, body: Any = None) -> Any:
        headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
        method = "GET" if body is None else "POST"
        url = f"http://127.0.0.1:{self.port}/api/v1{path}"
        return json.loads(fetch(url, method=method, body=body, headers=headers))


@pytest.fixture
def empty_postgres_url(postgres_server_url: str) -> Iterator[str]:
    """A database without a table, as the image of PostgreSQL makes it."""
    name = f"deployed_{uuid.uuid4().hex[:12]}"
    server = make_url(postgres_server_url).set(drivername="postgresql+psycopg")
    engine = create_engine(server, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        connection.execute(
            text(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'UTF8'")
        )
    yield server.set(database=name).render_as_string(hide_password=False)
    with engine.connect() as connection:
        connection.execute(text(f"DROP DATABASE {name} WITH (FORCE)"))
    engine.dispose()


@pytest.fixture
def deployment(tmp_path: Path, empty_postgres_url: str) -> Iterator[Deployment]:
    made = Deployment(tmp_path, empty_postgres_url)
    yield made
    for process in made.running.values():
        process.kill()


def test_the_services_migrate_answer_recompute_and_stop(deployment: Deployment) -> None:
    migrate = deployment.start("migrate")
    said = f"The database went from revision nothing to {head_revision()}.\n"
    assert migrate.line() == said
    assert migrate.popen.wait(60) == 0
    assert not deployment.is_healthy("web")

    refused = deployment.start("web")
    assert refused.popen.wait(60) == 1
    refused.kill()
    made = ["accounts", "create", "admin", "--role", "admin"]
    link = deployment.command_line("migrate", *made)
    assert link.startswith("https://localhost/sign-in?token=")
    web = deployment.start("web")
    wait_until(lambda: deployment.is_healthy("web"))
    assert not deployment.is_healthy("worker")
    worker = deployment.start("worker")
    wait_until(lambda: deployment.is_healthy("worker"))

    create = ["keys", "create", "camera", "--role", "editor"]
    key = deployment.command_line("web", *create)
    deployment.call("/detectors", key, {"name": "door", "question": "Closed?"})
    for number in range(3):
        query = {"key": f"q{number}", "predicted": "YES", "label": "YES"}
        deployment.call("/detectors/door/queries", key, query)

    def labels_in_history() -> int:
        items = deployment.call("/detectors/door/history", key)["items"]
        return int(items[-1]["labels"]) if items else 0

    wait_until(lambda: labels_in_history() == 3)
    assert worker.stop() == 0
    assert web.stop() == 0


def test_a_backup_is_restored_before_anybody_has_an_account(
    deployment: Deployment, tmp_path: Path
) -> None:
    deployment.command_line("migrate", *deployment.command("migrate")[3:])
    elsewhere = f"sqlite:///{tmp_path}/old.db"
    file = str(tmp_path / "tracker.zip")
    for words in (
        ("accounts", "create", "admin", "--role", "admin"),
        ("backup", file),
    ):
        subprocess.run(
            [sys.executable, "-m", "tracker", *words],
            env={"PATH": "/usr/bin:/bin", "TRACKER_DATABASE_URL": elsewhere},
            check=True,
            capture_output=True,
        )
    operations = (ROOT / "docs" / "operations.md").read_text()
    run = "docker compose run --rm web restore /data/tracker.zip\n"
    assert run in operations

    # By the service that has the volume with the images.
    assert "data:/data" in SERVICES["web"]["volumes"]
    deployment.command_line("web", "restore", file)
    deployment.start("web")

    wait_until(lambda: deployment.is_healthy("web"))


def test_postgresql_has_a_connection_for_every_one_that_may_be_opened() -> None:
    [given] = [
        int(word.removeprefix("max_connections="))
        for word in SERVICES["database"]["command"]
        if word.startswith("max_connections=")
    ]
    pool: Any = open_database("postgresql+psycopg://db/tracker").engine.pool
    each = pool.size() + pool._max_overflow
    processes = sum(SERVICES[name]["deploy"]["replicas"] for name in ("web", "worker"))

    assert each == 26
    # Three are kept for superusers; migrating and commands need some as well.
    assert processes * each + 3 * each + 3 <= given


def test_migrating_again_changes_nothing(deployment: Deployment) -> None:
    already = f"is already at revision {head_revision()}"
    for said in ("went from revision nothing to", already):
        migrate = deployment.start("migrate")
        assert said in migrate.line()
        assert migrate.popen.wait(60) == 0
        migrate.kill()


def test_web_and_worker_wait_until_the_migration_has_succeeded() -> None:
    wanted = {"migrate": {"condition": "service_completed_successfully"}}
    assert SERVICES["web"]["depends_on"] == wanted
    assert SERVICES["worker"]["depends_on"] == wanted
    assert SERVICES["migrate"]["depends_on"] == {
        "database": {"condition": "service_healthy"}
    }


def test_every_service_comes_back_and_says_whether_it_is_well() -> None:
    restarts = {name: service["restart"] for name, service in SERVICES.items()}
    assert restarts == {
        "database": "unless-stopped",
        "migrate": "on-failure:5",
        "proxy": "unless-stopped",
        "web": "unless-stopped",
        "worker": "unless-stopped",
    }
    assert {n for n in SERVICES if "healthcheck" in SERVICES[n]} == {
        "database",
        "web",
        "worker",
    }


def test_only_the_proxy_has_ports() -> None:
    published = {
        name: [interpolated(port) for port in service.get("ports", [])]
        for name, service in SERVICES.items()
    }
    assert published == {
        "database": [],
        "migrate": [],
        "proxy": ["80:80", "443:443"],
        "web": [],
        "worker": [],
    }


@pytest.mark.parametrize("service", OURS)
def test_every_variable_is_a_setting(service: str, tmp_path: Path) -> None:
    environ = Deployment(tmp_path, "sqlite:////data/tracker.db").environ(service)
    settings = Settings.from_env(environ)

    assert settings.database == "sqlite:////data/tracker.db"
    assert settings.load_secret_key() == "9f86d081884c7d659a2feaa0c55ad015"
    assert settings.data_dir == tmp_path / "data"
    assert settings.public_url == "https://localhost"
    assert settings.proxies == 1


def secrets_named_in(compose: dict[str, Any]) -> list[str]:
    """Variables whose name speaks of a secret and that hold its value themselves."""
    return [
        f"{service}: {name}"
        for service, described in compose["services"].items()
        for name, value in described.get("environment", {}).items()
        if re.search("PASSWORD|SECRET|KEY|DATABASE_URL|TOKEN", name)
        and not (name.endswith("_FILE") and str(value).startswith("/run/secrets/"))
    ]


def test_what_must_last_lies_on_a_volume() -> None:
    mounts = {name: service.get("volumes", []) for name, service in SERVICES.items()}
    assert mounts == {
        "database": ["database:/var/lib/postgresql/data"],
        "migrate": [],
        "proxy": ["./Caddyfile:/etc/caddy/Caddyfile:ro", "certificates:/data"],
        "web": ["data:/data"],
        "worker": ["data:/data"],
    }
    assert COMPOSE["volumes"].keys() == {"certificates", "data", "database"}
    assert any("TRACKER_DATA_DIR=/data" in line for line in instructions("ENV"))


def test_no_secret_stands_in_the_file() -> None:
    assert secrets_named_in(COMPOSE) == []
    told = {"services": {"web": {"environment": {"TRACKER_SECRET_KEY": "x" * 40}}}}
    assert secrets_named_in(told) == ["web: TRACKER_SECRET_KEY"]
    written = (ROOT / "docker-compose.yml").read_text()
    assert not re.search(r"://[^/\s]+:[^/\s]+@", written)


def test_every_secret_that_is_read_is_a_file_that_git_never_sees() -> None:
    declared = COMPOSE["secrets"]
    for name, service in SERVICES.items():
        read = {
            Path(value).name
            for value in service.get("environment", {}).values()
            if str(value).startswith("/run/secrets/")
        }
        assert read == set(service.get("secrets", [])), name
        assert read <= declared.keys()
    assert {Path(described["file"]).parent.name for described in declared.values()} == {
        "secrets"
    }
    operations = (ROOT / "docs" / "operations.md").read_text()
    assert "secrets/.gitignore" in operations
    for name in declared:
        assert f"secrets/{name}" in operations


def test_the_commands_of_the_manual_make_the_secrets_that_the_services_read(
    tmp_path: Path,
) -> None:
    operations = (ROOT / "docs" / "operations.md").read_text()
    [block] = [
        b for b in re.findall(r"```sh\n(.*?)```", operations, re.S) if "mkdir -m" in b
    ]
    subprocess.run(["sh", "-eu", "-c", block], cwd=tmp_path, check=True)
    made = {p.name: p for p in (tmp_path / "secrets").iterdir()}

    assert made.keys() == COMPOSE["secrets"].keys() | {".gitignore"}
    assert (tmp_path / "secrets").stat().st_mode & 0o777 == 0o700
    # A container's user reads them through a mount, which does not ask the folder.
    assert {p.stat().st_mode & 0o444 for p in made.values()} == {0o444}
    url = make_url(made["database_url"].read_text().strip())
    described = SERVICES["database"]["environment"]
    assert url.drivername == "postgresql+psycopg"
    assert url.password == made["database_password"].read_text().strip()
    assert (url.username, url.database) == (
        described["POSTGRES_USER"],
        described["POSTGRES_DB"],
    )
    assert url.host in SERVICES
    key = Settings.from_env({"TRACKER_SECRET_KEY_FILE": str(made["secret_key"])})
    assert len(key.load_secret_key()) == 64
