"""What the guide to importing shows is read as it says, by the command's options."""

import re
import shlex
from pathlib import Path

import pytest

from tests.processes import ROOT
from tests.services.test_file_kinds import read
from tracker.cli.imports import import_file
from tracker.services.imports.reading.choices import METADATA, read_choices

_EXAMPLE = re.compile(
    r"## (?P<title>[^\n]+)\n(?:(?!\n## ).)*?"
    r"```(?:csv|json)\n(?P<content>.*?)```\n\n"
    r"```sh\ntracker import (?P<words>.*?)\n```",
    re.DOTALL,
)
GUIDE = Path(ROOT / "docs" / "importing.md").read_text()
EXAMPLES = {one["title"]: one for one in _EXAMPLE.finditer(GUIDE)}
YES, NO = "YES", "NO"
EXPECTED = {
    "pandas and scikit-learn": [(None, YES, YES, 0.97), (None, YES, NO, 0.61)],
    "Excel": [("a", YES, YES, 0.97), ("b", NO, YES, 0.61)],
    "Label Studio": [("a", NO, YES, 0.9)],
    "MLflow and Weights & Biases": [("q1", YES, NO, 0.9), ("q2", NO, None, 0.2)],
    "FiftyOne": [("img-1", YES, None, None), ("img-2", NO, None, None)],
}


def test_every_source_has_an_example() -> None:
    assert list(EXAMPLES) == list(EXPECTED)


@pytest.mark.parametrize("title", EXPECTED)
def test_an_example_is_read_as_it_says(title: str, tmp_path: Path) -> None:
    example = EXAMPLES[title]
    words = shlex.split(example["words"])
    name = words[1]
    words[1] = str(tmp_path / name)
    Path(words[1]).write_text(example["content"])
    given = import_file.make_context("import", words).params
    names = ("columns", "classes", "extra", "time_zone", "time_format")
    options = {option: given[option] for option in names}
    chosen = read_choices(**options, usual_extra=METADATA)
    rows, report = read(example["content"], name, choices=chosen)
    assert report.errors == []
    fields = ("key", "predicted", "label", "confidence")
    assert [tuple(map(row.get, fields)) for row in rows] == EXPECTED[title]
