"""The image holds what the product needs, nothing private, and only pinned packages."""

import importlib.metadata
import re
import subprocess
from fnmatch import fnmatch
from pathlib import Path

from packaging.requirements import Requirement

from tests.processes import ROOT
from tests.test_deployment import SERVICES, instructions


def is_ignored(path: str) -> bool:
    """Whether ``.dockerignore`` keeps *path* out; the last line that matches says."""
    ignored = False
    for line in (ROOT / ".dockerignore").read_text().splitlines():
        pattern = line.removeprefix("!").removeprefix("**/")
        parts = path.split("/")
        is_deep = "**/" in line
        heads = (
            parts
            if is_deep
            else ["/".join(parts[:n]) for n in range(1, len(parts) + 1)]
        )
        if (
            line
            and not line.startswith("#")
            and any(fnmatch(h, pattern) for h in heads)
        ):
            ignored = not line.startswith("!")
    return ignored


def test_the_image_gets_what_it_copies_and_nothing_private() -> None:
    sources = [
        source
        for line in instructions("COPY")
        if not line.startswith("--from")
        for source in line.split()[:-1]
    ]

    assert {"tracker", "templates", "static", "migrations"} <= set(sources)
    for source in sources:
        assert (ROOT / source).exists(), source
        assert not is_ignored(source), source
    for private in (".git/config", ".venv/x", "secrets/secret_key", ".env", "tests/x"):
        assert is_ignored(private), private
    assert is_ignored("tracker/__pycache__/x.pyc")


def test_the_image_runs_as_a_user_without_rights_from_a_hashed_lock() -> None:
    [user] = instructions("USER")
    assert int(user) > 1000
    installs = [c for r in instructions("RUN") for c in r.split("&&") if "pip" in c]

    assert len(installs) == 4
    for command in installs:
        assert "--require-hashes" in command or "--no-index" in command, command


def test_the_base_image_has_a_python_that_the_product_takes() -> None:
    wanted = re.search(r'requires-python = ">=3\.(\d+)"', read("pyproject.toml"))
    base, *stages = instructions("FROM")
    found = re.fullmatch(r"python:3\.(\d+)\.\d+-slim@\S+ AS base", base)

    assert wanted is not None
    assert found is not None
    assert int(found[1]) >= int(wanted[1])
    assert stages == ["base AS build", "base"]


def test_what_others_built_is_named_by_its_version_and_digest() -> None:
    base = instructions("FROM")[0].removesuffix(" AS base")
    images = [service["image"] for service in SERVICES.values()]
    others = {base, *images} - {"tracker"}

    assert len(others) == 3
    for image in others:
        assert re.fullmatch(r"\w+:\d+\.\d+[\w.-]*@sha256:[0-9a-f]{64}", image), image


def test_the_image_builds_with_the_pinned_build_backend_and_all_that_it_needs(
    tmp_path: Path,
) -> None:
    [command] = [run for run in instructions("RUN") if "awk" in run]
    extract = command.split(">")[0].strip()
    lock = subprocess.run(
        ["sh", "-c", extract], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout
    pinned = set(re.findall(r"^([a-z-]+)==", lock, re.MULTILINE))

    missing = {"hatchling"} - pinned
    for name in pinned:
        for text_of in importlib.metadata.requires(name) or []:
            needed = Requirement(text_of)
            if needed.marker is None or needed.marker.evaluate({"extra": ""}):
                missing |= {needed.name} - pinned
    assert missing == set()
    assert lock.count("--hash=sha256:") >= len(pinned)


def read(name: str) -> str:
    return (ROOT / name).read_text()
