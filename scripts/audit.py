"""Look for known vulnerabilities among the pinned packages.

An auditor that cannot reach its source of advisories may find nothing and say so
with success.  So it is first given a pin that is known to be bad, and is believed
only if it says so.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parent.parent
LOCK = ROOT / "requirements.txt"
# PYSEC-2019-217 and later: a sandbox that could be left.
KNOWN_BAD = "jinja2==2.4.1\n"


def find_vulnerable(output: str) -> list[str]:
    """Return what the auditor's JSON names as vulnerable, as "name version: ids"."""
    return [
        f"{found['name']} {found['version']}: "
        + ", ".join(one["id"] for one in found["vulns"])
        for found in json.loads(output)["dependencies"]
        if found.get("vulns")
    ]


def audit(requirements: Path, *more: str) -> tuple[int, list[str]]:
    """Return the auditor's status, and what it found."""
    command = [sys.executable, "-m", "pip_audit", "--strict", "--disable-pip"]
    command += ["--format", "json", "--requirement", str(requirements), *more]
    done = subprocess.run(command, check=False, stdout=subprocess.PIPE, text=True)
    return done.returncode, find_vulnerable(done.stdout) if done.stdout else []


def main() -> int:
    """Return 0 if nothing is known against the lock, by an auditor to be believed."""
    with tempfile.TemporaryDirectory() as folder:
        bad = Path(folder) / "bad.txt"
        bad.write_text(KNOWN_BAD)
        _, flagged = audit(bad, "--no-deps")
    if not flagged:
        print(f"The auditor does not flag {KNOWN_BAD.strip()}: do not believe it.")
        return 2
    status, found = audit(LOCK, "--require-hashes")
    print("\n".join(found) or f"Nothing is known against {LOCK.name}.")
    return status


if __name__ == "__main__":
    sys.exit(main())
