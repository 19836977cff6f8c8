"""Compose itself takes the compose file, without an engine."""

import os
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.processes import ROOT
from tests.test_deployment import OURS, SERVICES
from tracker.settings import Settings


@pytest.fixture(scope="module")
def compose() -> list[str]:
    """The program that reads compose files; it needs no engine for that."""
    for command in (["docker", "compose"], ["docker-compose"]):
        if shutil.which(command[0]):
            asked = subprocess.run(
                [*command, "version"], check=False, capture_output=True
            )
            if asked.returncode == 0:
                return command
    assert "CI" not in os.environ  # noqa: TID251 - of the tests
    pytest.skip("there is neither docker compose nor docker-compose")


def configured(compose: list[str], folder: Path) -> dict[str, Any]:
    """What compose makes of the files in *folder*, without any variable of a shell."""
    environ = {"PATH": os.defpath, "HOME": str(folder)}
    done = subprocess.run(
        [*compose, "config"],
        cwd=folder,
        env=environ,
        check=True,
        capture_output=True,
        text=True,
    )
    found: dict[str, Any] = yaml.safe_load(done.stdout)
    return found


@pytest.mark.slow
def test_other_settings_stand_in_a_file_beside_it(
    compose: list[str], tmp_path: Path
) -> None:
    operations = (ROOT / "docs" / "operations.md").read_text()
    [written] = re.findall(r"```yaml\n(.*?)```", operations, re.S)
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    before = configured(compose, tmp_path)["services"]
    (tmp_path / "docker-compose.override.yml").write_text(written)
    after = configured(compose, tmp_path)["services"]

    for name in ("web", "worker"):
        variables = after[name]["environment"]
        assert before[name]["environment"].items() < variables.items()
        new = variables.keys() - before[name]["environment"].keys()
        known = {f"TRACKER_{field.upper()}" for field in Settings.model_fields}
        assert {variable.removesuffix("_FILE") for variable in new} <= known
    assert {secret["source"] for secret in after["web"]["secrets"]} == {
        *("database_url", "s3_secret", "secret_key")
    }


def test_the_web_service_may_have_all_its_threads() -> None:
    # Granian ends a process that gets none.
    processes, others = 4, 64
    most = Settings.model_fields["web_connections"].default
    assert SERVICES["web"]["pids_limit"] >= processes * (most + others)


@pytest.mark.thorough
def test_compose_takes_the_file_and_fills_in_the_name(
    compose: list[str], tmp_path: Path
) -> None:
    shutil.copy(ROOT / "docker-compose.yml", tmp_path)
    (tmp_path / ".env").write_text("DOMAIN=tracker.example.org\n")
    services = configured(compose, tmp_path)["services"]

    assert services.keys() == SERVICES.keys()
    assert services["proxy"]["environment"] == {"DOMAIN": "tracker.example.org"}
    for name in OURS:
        public_url = services[name]["environment"]["TRACKER_PUBLIC_URL"]
        assert public_url == "https://tracker.example.org"
    for name, service in services.items():
        declared = {secret["source"] for secret in service.get("secrets", [])}
        assert declared == set(SERVICES[name].get("secrets", [])), name


@pytest.mark.thorough
@pytest.mark.parametrize(
    ("wrong", "named"),
    [
        ("    restart: unless-stopped\n    replicas: 2", "replicas"),
        ("    restart: unless-stopped\n    volumes: [lost:/x]", "lost"),
        ("    restart: unless-stopped\n    depends_on: [nobody]", "nobody"),
    ],
)
def test_compose_refuses_what_is_wrong(
    compose: list[str], tmp_path: Path, wrong: str, named: str
) -> None:
    file = tmp_path / "docker-compose.yml"
    file.write_text(f"services:\n  web:\n    image: tracker\n{wrong}\n")
    environ = {"PATH": os.defpath, "HOME": str(tmp_path)}
    config = [*compose, "--file", str(file), "config"]
    done = subprocess.run(
        config, check=False, env=environ, capture_output=True, text=True
    )

    assert done.returncode != 0
    assert named in done.stderr
