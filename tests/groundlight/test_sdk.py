"""The unmodified SDK and its command line, against a server as users start it."""

import json
import re
import shlex
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from flask import Flask

from tests.applications import answering
from tests.conftest import DATABASES, IS_LONG
from tests.groundlight.conftest import VERSIONS, jpeg
from tests.processes import ROOT, SECONDS, clean_environ, serving

pytestmark = [pytest.mark.slow, pytest.mark.longer]
PROGRAM = Path(__file__).with_name("program.py")
DOCUMENT = ROOT / "docs" / "groundlight.md"


@pytest.fixture
def environ(
    request: pytest.FixtureRequest,
    app: Flask,
    database_url: str,
    keys: dict[str, str],
    tmp_path: Path,
) -> Iterator[dict[str, str]]:
    """The variables that turn a program of the SDK to a running server.

    In the long profile it is one of processes for each version, not for the newest
    alone.
    """
    version = request.node.callspec.params.get("version")
    is_process = IS_LONG or version == VERSIONS[0]
    settings = {
        "TRACKER_DATABASE_URL": database_url,
        "TRACKER_DATA_DIR": str(tmp_path / "data"),
    }
    with serving(**settings) if is_process else answering(app) as url:
        yield clean_environ(
            GROUNDLIGHT_ENDPOINT=url,
            GROUNDLIGHT_API_TOKEN=keys["admin"],
            GROUNDLIGHT_TOKEN_DIR=str(tmp_path / "tokens"),
        )


def run(environ: dict[str, str], *command: str | Path) -> str:
    done = subprocess.run(
        command,
        env=environ,
        capture_output=True,
        text=True,
        check=False,
        timeout=SECONDS,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "does not support" not in done.stderr
    return done.stdout


@pytest.mark.parametrize("version", VERSIONS)
def test_a_program_upon_the_sdk_runs(
    version: str, sdk: Callable[[str], Path], environ: dict[str, str]
) -> None:
    where = environ["GROUNDLIGHT_ENDPOINT"], environ["GROUNDLIGHT_API_TOKEN"]
    printed = run(environ, sdk(version) / "python", PROGRAM, *where)
    assert printed == "all is well\n"


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("database", DATABASES[:1], indirect=True)
def test_the_command_line_runs(
    version: str, sdk: Callable[[str], Path], environ: dict[str, str], tmp_path: Path
) -> None:
    command = sdk(version) / "groundlight"
    image = tmp_path / "door.jpg"
    image.write_bytes(jpeg())
    assert "admin-key" in run(environ, command, "whoami")
    made = run(environ, command, "get-or-create-detector", "door", "Is it closed?")
    assert "det_1" in made
    said = json.dumps({"prediction": "YES", "confidence": 0.9})
    sent = run(
        *(environ, command, "submit-image-query", "det_1", str(image)),
        *("--wait", "0", "--metadata", said),
    )
    query = "iq_" + sent.split("iq_")[1].split("'")[0].split('"')[0].split()[0]
    run(environ, command, "add-label", query, "YES")
    assert "YES" in run(environ, command, "get-image-query", query)


@pytest.mark.parametrize("database", DATABASES[:1], indirect=True)
def test_the_document_does_what_it_says(
    sdk: Callable[[str], Path], environ: dict[str, str], tmp_path: Path
) -> None:
    text = DOCUMENT.read_text()
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 3
    python = sdk(VERSIONS[0]) / "python"
    accuracy, interval, answer = run(
        environ, python, "-c", "\n".join(blocks)
    ).splitlines()
    assert (accuracy, answer) == ("None", "Label.NO")
    assert "lower" in interval
    (tmp_path / "door.jpg").write_bytes(jpeg())
    command = str(sdk(VERSIONS[0]) / "groundlight")
    calls = re.findall(r"^groundlight (.+)$", text, re.MULTILINE)
    assert len(calls) == 2
    for call in calls:
        words = shlex.split(call.replace("door.jpg", str(tmp_path / "door.jpg")))
        printed = run(environ, command, *words)
    assert "x_confidence_intervals" in printed
