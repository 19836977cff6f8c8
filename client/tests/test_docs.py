"""The examples of docs/client.md and of the README run as they are pasted."""

import re
import runpy
import shlex
from pathlib import Path

import pytest
from tracker_client.cli import build_parser

from client.tests.service import ROOT, Service

DOCUMENT = ROOT / "docs" / "client.md"


def blocks(document: Path, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", document.read_text(), re.DOTALL)


def pasted(code: str, service: Service, name: str) -> str:
    """Take this server's address, key and detector for those that stand there."""
    for theirs, ours in (
        ("http://127.0.0.1:8000", service.url),
        ("trk_…", service.key),
        ('"door"', repr(name)),
    ):
        assert theirs in code
        code = code.replace(theirs, ours)
    return code


def test_the_examples_run_one_after_the_other(
    service, tmp_path, monkeypatch, capsys
) -> None:
    name = service.new_name()
    monkeypatch.setenv("TRACKER_SPOOL", str(tmp_path / "spool"))
    monkeypatch.chdir(ROOT)
    script = tmp_path / "examples.py"
    code = pasted("\n".join(blocks(DOCUMENT, "python")), service, name)
    script.write_text(code.replace("estimate = ", "tracker.flush(20)\nestimate = "))
    found = runpy.run_path(str(script))
    found["tracker"].close()

    queries = service.queries(name)
    assert {"frame-1", "a.png", "b.png"} <= set(queries)
    assert len(queries) == 5
    assert found["tracker"].refused == 0
    assert "NO        0/1" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize(
    "document", [ROOT / "README.md", ROOT / "client" / "README.md"]
)
def test_the_example_of_each_readme_runs(
    service, tmp_path, monkeypatch, document
) -> None:
    name = service.new_name()
    service.run("detectors", "create", name, "--question", "?")
    monkeypatch.setenv("TRACKER_SPOOL", str(tmp_path / "spool"))
    script = tmp_path / "example.py"
    script.write_text(pasted(blocks(document, "python")[0], service, name))
    found = runpy.run_path(str(script))
    tracker = found["door"]._tracker
    assert tracker.close(timeout=20)

    assert [query["label"] for query in service.queries(name).values()] == ["NO"]


def test_the_commands_that_stand_there_exist() -> None:
    lines = "".join(blocks(DOCUMENT, "sh")).splitlines()
    commands = [
        shlex.split(one)[1:] for one in lines if one.startswith("tracker-client")
    ]

    assert {words[0] for words in commands} == {
        "import",
        "estimate",
        "compare",
        "export",
        "gate",
        "inspect",
    }
    for words in commands:
        build_parser().parse_args(words)
