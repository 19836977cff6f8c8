"""The wheel installs alone, on any Python that it names, and brings nothing else."""

import ast
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

from client.tests.service import ROOT
from tests.processes import build_wheel

pytestmark = pytest.mark.slow

CLIENT = ROOT / "client"
SOURCES = sorted((CLIENT / "tracker_client").rglob("*.py"))


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(CLIENT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def bare(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of commands of an environment that has the wheel and nothing else."""
    folder = tmp_path_factory.mktemp("bare")
    venv.create(folder, symlinks=True)
    install = ["install", "--quiet", "--no-index", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(folder / "bin/python"), *install],
        check=True,
    )
    return folder / "bin"


def test_the_wheel_holds_the_package_and_its_licence_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
    package = {path.relative_to(CLIENT).as_posix() for path in SOURCES}

    assert {name for name in names if ".dist-info/" not in name} == package | {
        "tracker_client/py.typed"
    }
    assert any(name.endswith("/licenses/LICENSE") for name in names)


def test_it_logs_where_nothing_else_is_installed(bare, service, tmp_path) -> None:
    name = service.new_name()
    code = (
        "from tracker_client import Tracker\n"
        "tracker = Tracker()\n"
        f"door = tracker.detector({name!r}, question='?', classes=['YES', 'NO'],"
        " label_sampling='random')\n"
        "door.log('YES', key='k', label='YES')\n"
        "assert tracker.flush(timeout=30)\n"
        "print(door.estimate())\n"
        "assert isinstance(door.history(), list)\n"
    )
    environ = service.environ(tmp_path / "spool")
    del environ["PYTHONPATH"]
    words = [str(bare / "python"), "-W", "error", "-c", code]
    said = subprocess.run(
        words, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert said.returncode == 0, said.stderr
    assert "YES       1/1" in said.stdout

    words = [str(bare / "tracker-client"), "gate", name, "--target", "0.9"]
    done = subprocess.run(words, env=environ, cwd=tmp_path, check=False)
    assert done.returncode == 3


def test_the_code_is_that_of_the_oldest_python() -> None:
    for path in SOURCES:
        ast.parse(path.read_text(), feature_version=(3, 9))
    vermin = str(Path(sys.executable).with_name("vermin"))
    words = [vermin, "--no-tips", "-t=3.9-", str(CLIENT / "tracker_client")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
