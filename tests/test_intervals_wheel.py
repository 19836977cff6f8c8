"""The intervals are a wheel of their own, which knows nothing of the server."""

import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.processes import ROOT, build_wheel, clean_environ

pytestmark = pytest.mark.slow


def test_the_wheel_of_the_intervals_runs_the_readme_without_the_server(
    tmp_path: Path,
) -> None:
    wheel = build_wheel(ROOT / "intervals", tmp_path / "dist")
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        archive.extractall(tmp_path / "installed")
    code = {name for name in names if name.endswith(".py")}
    source = (ROOT / "tracker" / "stats").rglob("*.py")
    assert code == {
        f"tracker_intervals/{path.relative_to(ROOT / 'tracker/stats').as_posix()}"
        for path in source
    }
    readme = (ROOT / "intervals" / "README.md").read_text()
    _, example, _ = readme.split("```", 2)
    lines = [
        example.removeprefix("python"),
        "import sys",
        "low, high = accuracy_interval(y_true, y_pred)",
        "assert (round(low, 4), round(high, 4)) == (0.7928, 0.9508)",
        "assert 'tracker' not in sys.modules",
    ]
    subprocess.run(
        [sys.executable, "-c", "\n".join(lines)],
        cwd=tmp_path,
        env=clean_environ(PYTHONPATH=str(tmp_path / "installed")),
        check=True,
    )
