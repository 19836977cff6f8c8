"""The doctor finds what is wrong, names it, and changes nothing."""

from pathlib import Path

import pytest
from sqlalchemy import select, text

from tests.cli.filled import filled, images_of, leave_import, opened, picture
from tests.cli.test_commands import Shell
from tests.conftest import FillOnce
from tracker.clock import utc_now
from tracker.storage.detectors import Detector
from tracker.storage.estimates.cells import Counts
from tracker.storage.estimates.projections import CELLS, Projection
from tracker.storage.operations import schema


@pytest.fixture
def shell(database_url: str, tmp_path: Path, fill_once: FillOnce) -> Shell:
    return filled(database_url, tmp_path, fill_once)


def change(shell: Shell, statement: str) -> None:
    with opened(shell) as database, database.write() as session:
        session.execute(text(statement))


def tamper(shell: Shell, label: str, number: int) -> None:
    """Change the running counts of a label by hand, and no other."""
    with opened(shell) as database, database.write() as session:
        for row in session.scalars(select(Projection).where(Projection.name == CELLS)):
            cells = Counts.load(row.state)
            for cell in cells.cells:
                if cell.label == label:
                    cells.cells[cell] = number
            row.state = cells.dump()


def test_nothing_is_wrong_with_what_the_program_wrote(shell: Shell) -> None:
    assert "No problems" in shell("doctor").stdout
    shell("recompute")
    assert "No problems" in shell("doctor").stdout


def test_a_count_that_was_changed_by_hand_is_found_in_both_ways(shell: Shell) -> None:
    tamper(shell, "ÑO", 59)

    said = shell("doctor", status=1)

    assert (
        "unstated label ÑO, predicted YES: 59 queries are counted, a "
        "recount finds 60" in said.stdout
    )
    assert "snapshot says 0 of 60 correct for ÑO, the counts 0 of 59" in said.stdout
    assert "To fix it: the labels are complete" in said.stdout
    assert "problems found: 2" in said.stderr


def test_a_run_that_fails_is_told_until_it_succeeds(shell: Shell) -> None:
    # The next snapshot gets a number that exists; the program itself never does that.
    change(shell, "UPDATE versions SET sequence = sequence - 1 WHERE id = 1")

    said = shell("recompute", status=1)
    assert "1 detectors could not be brought up to date" in said.stderr
    said = shell("doctor", status=1)
    assert "failed 1 times in a row, at last with IntegrityError" in said.stdout
    assert "then run tracker recompute, which tries at once" in said.stdout
    assert "problems found: 1" in said.stderr
    shell("recompute", status=1)
    assert "failed 2 times in a row" in shell("doctor", status=1).stdout

    change(shell, "UPDATE versions SET sequence = sequence + 1 WHERE id = 1")
    shell("recompute")
    assert "No problems" in shell("doctor").stdout


def test_an_archived_detector_is_checked_too(shell: Shell) -> None:
    tamper(shell, "NO", 7)

    assert "old, version default" in shell("doctor", status=1).stdout


def test_a_missing_image_is_wrong_and_one_too_many_is_not(shell: Shell) -> None:
    images_of(shell).put(picture(77), "png")
    assert "without a query, which is harmless: 1." in shell("doctor").stdout
    folder = Path(shell.environ["TRACKER_DATA_DIR"]) / "images"
    for path in folder.rglob("*.png"):
        path.unlink()

    said = shell("doctor", status=1)

    assert said.stdout.count("is missing") == 2
    assert "copy it from a backup" in said.stdout


@pytest.mark.thorough
def test_another_revision_is_named_and_left_as_it_is(shell: Shell) -> None:
    with opened(shell) as database:
        with database.write() as session:
            session.execute(text("UPDATE alembic_version SET version_num = '9999'"))

        assert "at revision 9999" in shell("doctor", status=1).stderr
        assert schema.current_revision(database) == "9999"


def test_an_import_that_waits_long_or_failed_today_is_told(shell: Shell) -> None:
    with opened(shell) as database, database.write() as session:
        leave_import(session, session.get_one(Detector, 1), b"predicted\nYES\n")
    said = shell("doctor", status=1)
    assert "the import imp_3 has waited for" in said.stdout
    assert "check that a worker runs" in said.stdout

    change(
        shell,
        "UPDATE imports SET state = 'failed', error = 'it broke',"
        f" finished_at = '{utc_now():%Y-%m-%d %H:%M:%S.%f}' WHERE id = 3",
    )
    said = shell("doctor", status=1)
    assert "the import imp_3 failed: it broke" in said.stdout
    assert "then send the file again" in said.stdout

    change(shell, "UPDATE imports SET finished_at = created_at WHERE id = 3")
    assert "No problems" in shell("doctor").stdout
