"""The files from elsewhere are those that are pinned."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
VENDOR = ROOT / "static" / "vendor"


def check() -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "scripts/vendor_static.py", "--check"]
    return subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False
    )


def test_every_file_has_its_checksum_its_licence_and_its_row() -> None:
    done = check()
    assert (done.returncode, done.stderr) == (0, "")


def test_no_source_maps_are_served() -> None:
    assert not list(VENDOR.rglob("*.map"))


@pytest.mark.parametrize("file", sorted(VENDOR.glob("*.css")), ids=lambda f: f.name)
def test_stylesheets_load_nothing_from_outside(file: Path) -> None:
    style = file.read_text(encoding="utf-8")
    addresses = re.findall(r"url\(\s*[\"']?([^\"')]{0,40})", style)
    assert all(address.startswith("data:") for address in addresses)
    assert "@import" not in style
