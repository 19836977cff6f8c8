"""Write what the wheel is made of, as a CycloneDX list beside it.

It is made from the lock, so that it names exactly the packages that an image or
`make run` installs, each with the hashes that pip compares.
"""

import hashlib
import json
import re
import sys
import zipfile
from email.parser import HeaderParser
from pathlib import Path
from typing import Any

LOCK = Path(__file__).parent.parent / "requirements.txt"
_PINNED = re.compile(
    r"^(?P<name>[A-Za-z0-9._-]+)==(?P<version>[^\s;\\]+)(?P<marker>[^\\\n]*)"
    r"(?P<hashes>(?:\s*\\?\s+--hash=sha256:[0-9a-f]{64})*)",
    re.MULTILINE,
)


def read_lock(text: str) -> list[dict[str, Any]]:
    """Return each package of a lock as a component, by name."""
    found = [_component(match) for match in _PINNED.finditer(text)]
    return sorted(found, key=lambda component: str(component["bom-ref"]))


def _component(match: re.Match[str]) -> dict[str, Any]:
    name = re.sub(r"[-_.]+", "-", match["name"]).lower()
    package = f"pkg:pypi/{name}@{match['version']}"
    component: dict[str, Any] = {
        "type": "library",
        "bom-ref": package,
        "name": name,
        "version": match["version"],
        "purl": package,
        "scope": "optional" if "extra" in match["marker"] else "required",
    }
    # Each is the hash of one of the files that pip may choose from.
    hashes = re.findall(r"--hash=sha256:([0-9a-f]{64})", match["hashes"])
    component["properties"] = [
        {"name": "tracker:file:sha256", "value": value} for value in hashes
    ]
    return component


def describe(wheel: Path, lock: str) -> dict[str, Any]:
    """Return the CycloneDX document of *wheel* with the packages of *lock*."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        (metadata,) = (name for name in names if name.endswith(".dist-info/METADATA"))
        told = HeaderParser().parsestr(archive.read(metadata).decode())
    root = f"pkg:pypi/{told['Name']}@{told['Version']}"
    components = read_lock(lock)
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.6.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "application",
                "bom-ref": root,
                "name": told["Name"],
                "version": told["Version"],
                "purl": root,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
                "hashes": [
                    {
                        "alg": "SHA-256",
                        "content": hashlib.sha256(wheel.read_bytes()).hexdigest(),
                    }
                ],
            }
        },
        "components": components,
        "dependencies": [
            {"ref": root, "dependsOn": [one["bom-ref"] for one in components]}
        ],
    }


def main(wheels: list[str]) -> None:
    """Write the list of each of *wheels* beside it."""
    for name in wheels:
        wheel = Path(name)
        target = wheel.with_name(f"{wheel.name}.cdx.json")
        document = describe(wheel, LOCK.read_text())
        target.write_text(json.dumps(document, indent=1) + "\n")
        print(f"{target} names {len(document['components'])} packages.")


if __name__ == "__main__":
    main(sys.argv[1:])
