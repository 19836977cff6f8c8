"""The wheel holds all that is needed, and runs where there is no checkout."""

import json
import subprocess
import sys
import sysconfig
import venv
import zipfile
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlencode
from urllib.request import HTTPCookieProcessor, build_opener

import pytest

from tests.links import fields_of
from tests.processes import (
    ROOT,
    Process,
    build_wheel,
    clean_environ,
    fetch,
    free_port,
)

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(ROOT, tmp_path_factory.mktemp("wheel"))


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The Python of an environment whose tracker is the wheel's.

    Everything else comes from the environment of the tests.  A line of a .pth file
    adds a folder without reading the .pth files in it, and so leaves the editable
    installation out.
    """
    folder = tmp_path_factory.mktemp("environment")
    venv.create(folder, symlinks=True)
    made = folder / "bin" / "python"
    paths = {"base": str(folder), "platbase": str(folder)}
    packages = Path(sysconfig.get_path("purelib", "venv", paths))
    here = sorted({sysconfig.get_path("purelib"), sysconfig.get_path("platlib")})
    (packages / "dependencies.pth").write_text("\n".join(here) + "\n")
    install = ["install", "--quiet", "--no-deps", "--no-index", str(wheel)]
    subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(made), *install], check=True
    )
    return made


def names_in(wheel: Path) -> set[str]:
    with zipfile.ZipFile(wheel) as archive:
        return set(archive.namelist())


def files_below(folder: str) -> set[str]:
    found = {path for path in (ROOT / folder).rglob("*") if path.is_file()}
    return {
        path.relative_to(ROOT).as_posix()
        for path in found
        if "__pycache__" not in path.parts
    }


@pytest.mark.parametrize("folder", ["migrations", "static", "templates"])
def test_the_wheel_carries_every_file_beside_the_package(
    wheel: Path, folder: str
) -> None:
    wanted = {f"tracker/{name}" for name in files_below(folder)}

    assert len(wanted) >= 3
    assert wanted <= names_in(wheel)


def test_the_wheel_carries_code_demo_data_and_licences_and_nothing_else(
    wheel: Path,
) -> None:
    names = names_in(wheel)
    shipped = ("migrations", "static", "templates")
    beside = {n for n in names if n.startswith(tuple(f"tracker/{f}/" for f in shipped))}
    [information] = {n.split("/")[0] for n in names if ".dist-info/" in n}

    assert names - beside == files_below("tracker") | {
        f"{information}/{name}"
        for name in (
            "METADATA",
            "RECORD",
            "WHEEL",
            "entry_points.txt",
            "licenses/LICENSE",
            "licenses/NOTICE",
        )
    }
    assert "tracker/demo/data/digits.png" in names


def test_the_imported_package_is_that_of_the_wheel(
    python: Path, tmp_path: Path
) -> None:
    lines = "import tracker, flask; print(tracker.__file__); print(flask.__file__)"
    done = subprocess.run(
        [python, "-c", lines],
        cwd=tmp_path,
        env=clean_environ(),
        capture_output=True,
        text=True,
        check=True,
    )
    own, dependency = map(Path, done.stdout.splitlines())

    assert own.is_relative_to(python.parents[1])
    assert dependency.is_relative_to(sysconfig.get_path("purelib"))


class Installed:
    """``tracker serve`` from the wheel, in a folder without the repository."""

    def __init__(self, python: Path, folder: Path) -> None:
        self.port = free_port()
        self.folder = folder
        self.tracker = str(python.with_name("tracker"))
        self.environ = clean_environ(TRACKER_DATA_DIR=str(folder / "data"))
        self.process = Process(
            [self.tracker, "serve", "--port", str(self.port)], self.environ, cwd=folder
        )
        assert self.process.line() == f"Tracker is at {self.url}\n"
        assert "Sign in as admin" in self.process.line()
        self.link = self.process.line().strip()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def create_key(self) -> str:
        done = subprocess.run(
            [self.tracker, "keys", "create", "camera", "--role", "editor"],
            cwd=self.folder,
            env=self.environ,
            capture_output=True,
            text=True,
            check=True,
        )
        return done.stdout.strip()


@pytest.fixture
def installed(python: Path, tmp_path: Path) -> Iterator[Installed]:
    started = Installed(python, tmp_path)
    yield started
    started.process.kill()


def test_the_wheel_serves_pages_files_and_the_api(installed: Installed) -> None:
    assert json.loads(fetch(f"{installed.url}/healthz")) == {"status": "alive"}
    assert b"<html" in fetch(f"{installed.url}/")
    stylesheet = ROOT / "static" / "tracker.css"
    assert fetch(f"{installed.url}/static/tracker.css") == stylesheet.read_bytes()

    made = fetch(
        f"{installed.url}/api/v1/detectors",
        method="POST",
        body={"name": "door", "question": "Is the door closed?"},
        headers={
            "Authorization": f"Bearer {installed.create_key()}",
            "Content-Type": "application/json",
        },
    )

    assert json.loads(made)["id"] == "det_1"
    keeps_cookies = build_opener(HTTPCookieProcessor())
    with keeps_cookies.open(installed.link) as opened:
        fields = urlencode(fields_of(opened.read().decode())).encode()
    with keeps_cookies.open(f"{installed.url}/sign-in/link", fields) as page:
        assert page.url == f"{installed.url}/"
        assert b"door" in page.read()
    assert (installed.folder / "data" / "tracker.db").is_file()
    assert installed.process.stop() == 0
