"""Fetch the front-end files in static/vendor again, at their pinned versions.

    python scripts/vendor_static.py            fetch, check and copy
    python scripts/vendor_static.py --check    check what is there, fetch nothing

Needs npm.  To take a newer version, change its pin, run the script and read what
it says: it prints the checksum that it found and stops, so that a person decides.
"""

import argparse
import hashlib
import subprocess
import sys
import tarfile
import tempfile
from dataclasses import dataclass
from pathlib import Path

VENDOR = Path(__file__).parent.parent / "static" / "vendor"


@dataclass(frozen=True, slots=True)
class Pin:
    """One file of a package, and the licence that comes with it."""

    package: str
    version: str
    licence: str
    member: str
    sha256: str

    @property
    def file(self) -> str:
        """The name under which the file is kept."""
        return self.member.rpartition("/")[2]

    @property
    def licence_file(self) -> str:
        """The name under which its licence is kept."""
        return f"licences/{self.file.partition('.')[0]}.txt"


PINS = (
    Pin(
        package="htmx.org",
        version="4.0.1",
        licence="0BSD",
        member="package/dist/htmx.min.js",
        sha256="a0abb04f2f45a1f89d1d4844023245537e5e6014c87b144553e0607b4cc32130",
    ),
    Pin(
        package="vega",
        version="6.4.0",
        licence="BSD-3-Clause",
        member="package/build/vega.min.js",
        sha256="8f6a3587cf8d4f42c7e08120e3eb05d067e746d554e39d2dcf52acc0bd5ba28f",
    ),
    Pin(
        package="vega-lite",
        version="6.4.1",
        licence="BSD-3-Clause",
        member="package/build/vega-lite.min.js",
        sha256="6d5035fdd429b4bc6f91f3754426c3f516f3dbd8e08b105cfc2496bed4ebd254",
    ),
    Pin(
        package="vega-embed",
        version="7.3.0",
        licence="BSD-3-Clause",
        member="package/build/vega-embed.min.js",
        sha256="b1455caba2fb1a72fb46025ba0ba1316e2dbc7f0dd40a3f6040172bf9c08ba91",
    ),
)


def main() -> int:
    """Run the command and return its exit status."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--check", action="store_true", help="fetch nothing")
    if not parser.parse_args().check:
        with tempfile.TemporaryDirectory() as folder:
            for pin in PINS:
                fetch(pin, Path(folder))
    problems = find_problems()
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


def fetch(pin: Pin, folder: Path) -> None:
    """Copy the file of *pin* and its licence out of the package."""
    name = f"{pin.package}@{pin.version}"
    print(f"fetching {name}")
    command = ["npm", "pack", "--silent", "--pack-destination", str(folder), name]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    with tarfile.open(folder / done.stdout.split()[-1]) as archive:
        content = read_member(archive, pin.member)
        found = hashlib.sha256(content).hexdigest()
        if found != pin.sha256:
            raise SystemExit(f"{name}: {pin.member} has sha256 {found}")
        (VENDOR / pin.file).write_bytes(content)
        text = read_member(archive, "package/LICENSE")
        (VENDOR / pin.licence_file).write_bytes(text)


def read_member(archive: tarfile.TarFile, name: str) -> bytes:
    """Return the content of one file, without unpacking any to a disk."""
    stream = archive.extractfile(name)
    if stream is None:
        raise SystemExit(f"{archive.name!r} has no file {name}")
    return stream.read()


def find_problems() -> list[str]:
    """Return what is missing, changed, not pinned or not told in the README."""
    readme = (VENDOR / "README.md").read_text(encoding="utf-8")
    expected = {"README.md", "licences/third-party.txt"}
    problems = []
    for pin in PINS:
        expected |= {pin.file, pin.licence_file}
        path = VENDOR / pin.file
        if not path.is_file():
            problems.append(f"{pin.file} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != pin.sha256:
            problems.append(f"{pin.file} is not the file of {pin.package}")
        if table_row(pin) not in readme:
            problems.append(f"README.md lacks this row:\n{table_row(pin)}")
    found = {
        path.relative_to(VENDOR).as_posix()
        for path in VENDOR.rglob("*")
        if path.is_file()
    }
    problems += [f"{name} is missing" for name in sorted(expected - found)]
    problems += [f"{name} is not pinned" for name in sorted(found - expected)]
    return problems


def table_row(pin: Pin) -> str:
    """Return the row of README.md about *pin*."""
    cells = (pin.file, pin.package, pin.version, pin.licence, f"`{pin.sha256}`")
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    raise SystemExit(main())
