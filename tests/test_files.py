"""Templates, static files and migrations are found in a checkout and in a wheel."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT
from tracker.files import shipped_folder


@pytest.mark.parametrize("name", ["migrations", "static", "templates"])
def test_a_checkout_has_the_folders_beside_the_package(name: str) -> None:
    assert shipped_folder(name) == ROOT / name


def shipped_in(site: Path) -> str:
    """What a copy of the module in *site* says of the templates."""
    command = (
        "from tracker.files import shipped_folder; print(shipped_folder('templates'))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-P", "-c", command],
        env={"PYTHONPATH": str(site)},
        cwd=site,
        capture_output=True,
        text=True,
        check=True,
    )
    return Path(done.stdout.strip()).relative_to(site).as_posix()


@pytest.mark.parametrize(
    ("existing", "found"),
    [
        ([], "tracker/templates"),
        (["templates/", "pyproject.toml"], "templates"),
        # Another package's folder in site-packages is not ours.
        (["templates/"], "tracker/templates"),
        (["pyproject.toml"], "tracker/templates"),
    ],
)
def test_only_a_checkout_is_looked_at_beside_the_package(
    tmp_path: Path, existing: list[str], found: str
) -> None:
    (tmp_path / "tracker" / "templates").mkdir(parents=True)
    (tmp_path / "tracker" / "__init__.py").touch()
    shutil.copy(ROOT / "tracker" / "files.py", tmp_path / "tracker")
    for name in existing:
        path = tmp_path / name
        path.mkdir() if name.endswith("/") else path.touch()

    assert shipped_in(tmp_path) == found
