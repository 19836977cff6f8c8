"""What pages show beside a question, set by command: guideline and text field."""

from pathlib import Path

import pytest

from tests.cli.filled import opened
from tests.cli.test_commands import Shell
from tracker.storage.detectors import find_detector_by_name


@pytest.mark.slow
def test_a_guideline_is_set_and_taken_away(database_url: str, tmp_path: Path) -> None:
    shell = Shell(database_url, tmp_path)
    shell("detectors", "create", "gate", "--question", "Open?", "--guideline", "a\nb")
    for words, guideline in (
        ((), "a\nb"),
        (("--guideline", ""), ""),
        (("--guideline", "c"), "c"),
        (("--slices", "camera"), "c"),
    ):
        if words:
            shell("detectors", "change", "gate", *words)
        with opened(shell) as database, database.read() as session:
            found = find_detector_by_name(session, "gate")
            assert found is not None
            assert found.guideline == guideline


def test_a_text_field_is_set_and_taken_away(database_url: str, tmp_path: Path) -> None:
    shell = Shell(database_url, tmp_path)
    shell("detectors", "create", "mail", "--question", "Spam?", "--text-field", "body")
    for words, text_field in (
        (("--guideline", "a"), "body"),
        (("--text-field", ""), None),
        (("--text-field", "said"), "said"),
    ):
        shell("detectors", "change", "mail", *words)
        with opened(shell) as database, database.read() as session:
            found = find_detector_by_name(session, "mail")
            assert found is not None
            assert (found.text_field, found.guideline) == (text_field, "a")
