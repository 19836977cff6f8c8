"""The tour of README.md runs as it is pasted, and ends in what is shown under it."""

import re
import sys
from pathlib import Path

import pytest

from tests.processes import ROOT, SECONDS, Process, clean_environ, free_port

pytestmark = pytest.mark.slow


def test_the_tour_gives_what_is_shown_under_it(tmp_path: Path) -> None:
    text = (ROOT / "README.md").read_text()
    wanted = r"```sh\n(export TRACKER_URL.*?)```.*?```json\n(.*?)```"
    found = re.search(wanted, text, re.S)
    assert found is not None
    tour, shown = found.groups()
    port = str(free_port())
    # On a busy machine the worker may need longer than it says; this is its work.
    for ours, theirs in (
        ("8010", port),
        ("sleep 10 ", "tracker recompute "),
    ):
        assert ours in tour
        tour = tour.replace(ours, theirs)
    for name, words in (
        ("tracker", "-m tracker"),
        ("tracker-client", "-m tracker_client.cli"),
        ("python", ""),
    ):
        command = tmp_path / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        command.chmod(0o755)
    environ = clean_environ(
        TRACKER_DATA_DIR=str(tmp_path / "data"), TRACKER_SPOOL=str(tmp_path / "spool")
    )
    environ |= {
        "PATH": f"{tmp_path}:{environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}",
    }
    script = f"set -e\ntrap 'kill $!; wait' EXIT\n{tour}"
    process = Process(["bash", "-c", script], environ, cwd=tmp_path)
    try:
        said = process.popen.communicate(timeout=4 * SECONDS)[0]
    finally:
        process.kill()

    assert "3 queries and 3 labels added" in said
    assert shown.strip() in said
    assert "exact" in (tmp_path / "history.csv").read_text()
