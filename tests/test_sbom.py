"""The list of packages beside the wheel is that of the lock."""

import json
import subprocess
import sys
import zipfile
from importlib.metadata import requires
from pathlib import Path

from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator
from packaging.requirements import Requirement

ROOT = Path(__file__).parent.parent
LOCK = (ROOT / "requirements.txt").read_text()


def make(folder: Path) -> dict:
    wheel = folder / "tracker_server-0.1.0-py3-none-any.whl"
    with zipfile.ZipFile(wheel, "w") as archive:
        name = "tracker_server-0.1.0.dist-info/METADATA"
        archive.writestr(name, "Name: tracker-server\nVersion: 0.1.0\n")
    command = [sys.executable, ROOT / "scripts/sbom.py", wheel]
    subprocess.run(command, check=True, capture_output=True, timeout=60)
    return json.loads((folder / f"{wheel.name}.cdx.json").read_text())


def test_every_pinned_package_is_in_it_with_its_hashes(tmp_path: Path) -> None:
    said = make(tmp_path)
    pinned = {
        line.split("==")[0].lower(): line.split("==")[1].split()[0].rstrip(";")
        for line in LOCK.splitlines()
        if "==" in line and not line.startswith((" ", "#"))
    }
    assert {one["name"]: one["version"] for one in said["components"]} == pinned
    hashes = [one["value"] for c in said["components"] for one in c["properties"]]
    assert sorted(hashes) == sorted(
        line.split("sha256:")[1].split()[0].rstrip("\\")
        for line in LOCK.splitlines()
        if "--hash=" in line
    )
    assert all(one["properties"] for one in said["components"])


def test_what_the_program_needs_is_in_it(tmp_path: Path) -> None:
    named = {one["name"] for one in make(tmp_path)["components"]}
    needed = {
        Requirement(text).name.lower()
        for text in requires("tracker-server") or []
        if "extra ==" not in text
    }
    assert needed
    assert needed <= named


def test_it_is_cyclonedx(tmp_path: Path) -> None:
    wrong = JsonStrictValidator(SchemaVersion.V1_6).validate_str(
        json.dumps(make(tmp_path))
    )
    assert wrong is None, wrong
