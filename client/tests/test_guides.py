"""Each guide leads to an interval: its code is run against a server as it stands."""

import re
import runpy
import shlex
import shutil
from pathlib import Path

import pytest
from tracker_client.cli import main

from client.tests.service import ROOT

FILES = ROOT / "tests" / "files"


def blocks(name: str, language: str) -> list[str]:
    text = (ROOT / "docs" / "guides" / f"{name}.md").read_text()
    return re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)


@pytest.fixture
def door(service, tmp_path, monkeypatch) -> str:
    """The name that stands for the guide's detector, in a folder of its own."""
    monkeypatch.setenv("TRACKER_URL", service.url)
    monkeypatch.setenv("TRACKER_KEY", service.key)
    monkeypatch.setenv("TRACKER_SPOOL", str(tmp_path / "spool"))
    monkeypatch.chdir(tmp_path)
    return service.new_name()


def test_a_frame_gets_an_interval(service, door, tmp_path, capsys) -> None:
    [code] = blocks("dataframe", "python")
    assert code.count('"door"') == 1
    script = Path("guide.py")
    script.write_text(code.replace('"door"', repr(door)))
    found = runpy.run_path(str(script))
    found["tracker"].close()
    said = capsys.readouterr().out
    assert re.search(r"YES +1/1", said)
    assert re.search(r"NO +1/2", said)
    assert len(service.queries(door)) == 4


@pytest.mark.slow
@pytest.mark.parametrize(
    ("guide", "fixture", "name"),
    [
        ("excel", "openpyxl.xlsx", "rows.xlsx"),
        ("label-studio", "label-studio.json", "project.json"),
    ],
)
def test_a_file_gets_an_interval(service, door, capsys, guide, fixture, name) -> None:
    shutil.copy(FILES / fixture, name)
    ran = 0
    for line in "".join(blocks(guide, "sh")).splitlines():
        words = [door if word == "door" else word for word in shlex.split(line)]
        if words[0] == "tracker":
            service.run(*words[1:])
        if words[0] == "tracker-client":
            assert main(words[1:]) == 0, capsys.readouterr()
            ran += 1
    assert ran >= 2
    said = capsys.readouterr().out
    assert re.search(r"YES +1/2", said)
    assert re.search(r"NO +1/1", said)
    assert guide != "excel" or Path("labels.xlsx").stat().st_size > 1_000
