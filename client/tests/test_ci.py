"""The steps of the workflows in docs/ci.md do what is said of them."""

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import yaml

from client.tests.service import ROOT, Service


def blocks() -> list:
    text = (ROOT / "docs/ci.md").read_text()
    found = re.findall(r"^```yaml\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    return [yaml.safe_load(block) for block in found]


def step_of(block) -> str:
    """The call of the gate; what installs the client is done for the tests already."""
    if isinstance(block, list):
        steps = [step["run"] for step in block]
    elif "jobs" in block:
        steps = [step["run"] for step in block["jobs"]["accuracy"]["steps"]]
    else:
        steps = block["accuracy"]["script"]
    *before, step = steps
    assert before in ([], ["pip install tracker-client"])
    return step


@pytest.fixture
def run(service: Service, tmp_path: Path):
    """Run a step as a build does, in a folder of its own."""
    program = tmp_path / "bin/tracker-client"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m tracker_client.cli "$@"\n')
    program.chmod(0o755)
    environ = service.environ(tmp_path / "spool") | {
        "GITHUB_STEP_SUMMARY": str(tmp_path / "summary.md"),
        "PATH": f"{program.parent}:{os.environ['PATH']}",
    }

    def call(step: str) -> "subprocess.CompletedProcess[str]":
        # As the runner of GitHub does.
        return subprocess.run(
            ["bash", "-e", "-c", step],
            env=environ,
            cwd=tmp_path,
            capture_output=True,
            text=True,
            check=False,
        )

    return call


@pytest.fixture
def door(service: Service) -> str:
    """A detector without queries."""
    name = service.new_name()
    sampling = ("--label-sampling", "random")
    service.run("detectors", "create", name, "--question", "?", *sampling)
    return name


def add_rows(service: Service, name: str, file: Path, right: int, wrong: int) -> None:
    rows = [
        {"key": f"{truth}{number}", "predicted": said, "label": truth}
        for truth, other in (("YES", "NO"), ("NO", "YES"))
        for number, said in enumerate([truth] * right + [other] * wrong)
    ]
    file.write_text("".join(json.dumps(row) + "\n" for row in rows))
    service.run("import", name, str(file))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("counts", "status"), [((300, 0), 0), ((40, 60), 1), ((2, 0), 3), (None, 2)]
)
def test_each_step_has_the_status_that_stops_the_build(
    run, door, service, tmp_path, counts, status
) -> None:
    if counts is not None:
        add_rows(service, door, tmp_path / "rows.jsonl", *counts)
    else:
        door = "nothing of this name"
    github, lenient, gitlab = (
        step_of(block).replace(" door ", f" '{door}' ") for block in blocks()
    )

    assert run(github).returncode == status
    assert (run(lenient).returncode == 0) == (status in {0, 3})
    assert run(gitlab).returncode == status
    if counts is not None:
        assert "█" in (tmp_path / "summary.md").read_text()
        suite = ET.parse(tmp_path / "accuracy.xml").getroot()[0]
        assert suite.get("failures") == ("0" if status == 0 else "1")


def test_an_undecided_gate_is_a_warning_in_gitlab() -> None:
    job = blocks()[2]["accuracy"]
    assert job["allow_failure"] == {"exit_codes": [3]}
    assert job["artifacts"]["reports"]["junit"] in job["script"][-1]
