"""The tour of README.md runs as it is pasted, and the guides do after it."""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.processes import ROOT, SECONDS, Process, clean_environ, free_port

pytestmark = pytest.mark.slow

README = (ROOT / "README.md").read_text()
GUIDES = sorted((ROOT / "docs" / "guides").glob("*.md"))
# What each prints at its end, from the answer of the server.
SAID = {
    "attribution": '"anchors"',
    "dataframe": r"YES +1/1.*NO +1/2",
    "excel": r"YES +1/2",
    "judge": "60 queries and 0 labels added",
    "label-studio": r"YES +1/1.*NO +0/1",
    "weekly-audits": "Every Monday",
}


def tour() -> tuple[str, str]:
    """The commands of the tour, and the answer that is shown under them."""
    wanted = r"```sh\n(export TRACKER_URL.*?)```.*?```json\n(.*?)```"
    found = re.search(wanted, README, re.S)
    assert found is not None
    return found[1], found[2].strip()


def blocks(guide: Path) -> Iterator[str]:
    """The blocks of a guide as a shell runs them; what `pip` would get is here."""
    for language, block in re.findall(
        r"^```(sh|python)\n(.*?)^```", guide.read_text(), re.S | re.M
    ):
        if language == "python":
            yield f"python - <<'END'\n{block}END\n"
        else:
            yield re.sub(r"^pip install [^\n]*\n", "", block, flags=re.M)


def run(script: str, folder: Path) -> str:
    """What *script* prints after the server of the tour is up; it must not fail."""
    script = script.replace("8010", str(free_port()))
    for name, words in (
        ("tracker", "-m tracker"),
        ("tracker-client", "-m tracker_client.cli"),
        ("python", ""),
    ):
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {words} "$@"\n')
        command.chmod(0o755)
    environ = clean_environ(
        TRACKER_DATA_DIR=str(folder / "data"), TRACKER_SPOOL=str(folder / "spool")
    )
    environ |= {
        "PATH": f"{folder}:{environ['PATH']}",
        "PYTHONPATH": f"{ROOT}:{ROOT / 'client'}",
    }
    script = f"set -e\ntrap 'kill $!; wait' EXIT\n{script}"
    process = Process(["bash", "-c", script], environ, cwd=folder)
    try:
        said = process.popen.communicate(timeout=4 * SECONDS)[0]
    finally:
        process.kill()
    assert process.popen.returncode == 0, said
    return said


def test_the_tour_gives_what_is_shown_under_it(tmp_path: Path) -> None:
    script, shown = tour()
    # On a busy machine the worker may need longer than it says; this is its work.
    assert "8010" in script
    assert "sleep 10 " in script
    said = run(script.replace("sleep 10 ", "tracker recompute "), tmp_path)

    assert "3 queries and 3 labels added" in said
    assert shown in said
    assert "exact" in (tmp_path / "history.csv").read_text()


def test_the_guides_run_after_the_tour_as_they_are_pasted(tmp_path: Path) -> None:
    assert [guide.stem for guide in GUIDES] == list(SAID)
    script, _ = tour()
    # Without it curl ends as well where it is refused.
    fails = 'curl() { command curl --fail-with-body "$@"; }\n'
    script = script.replace("sleep 10 ", "tracker recompute ") + fails
    for guide in GUIDES:
        script += f"echo 'begin {guide.stem}'\n" + "".join(blocks(guide))
    said = run(script, tmp_path)

    for stem, expected in SAID.items():
        _, _, rest = said.partition(f"begin {stem}\n")
        assert re.search(expected, rest.partition("begin ")[0], re.S), stem
    assert (tmp_path / "labels.xlsx").stat().st_size > 0
