"""Files that are made to exhaust their reader are refused before they do."""

import io

import pytest

from tests import hostile
from tracker.errors import InvalidInputError, TooLargeError
from tracker.services.imports.checking import RowReader
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reading.files import open_named
from tracker.services.imports.reports import Outcome
from tracker.storage.detectors import Detector

DOOR = Detector(id=2, name="door", classes=["YES", "NO"])


def read(content: bytes, name: str) -> Outcome:
    file = open_named(io.BytesIO(content), name).read_by(Choices(extra="metadata"))
    report = Outcome()
    reader = RowReader(DOOR, [], report)
    for piece in file.rows(DOOR).pieces():
        reader.read(piece)
    return report


@pytest.mark.parametrize("kind", hostile.SMALL)
def test_a_hostile_file_is_refused_with_the_reason(kind: str) -> None:
    file = hostile.SMALL[kind]
    with pytest.raises(InvalidInputError, match=file.said) as refused:
        read(file.make(), file.name)
    assert isinstance(refused.value, TooLargeError) == file.is_too_large
    assert len(str(refused.value)) < 500


@pytest.mark.parametrize(
    "make", [hostile.far_empty_cell, hostile.merged_giants, hostile.million_styles]
)
def test_a_workbook_that_only_looks_large_is_read(make) -> None:
    report = read(make(), "x.xlsx")
    assert (report.rows, report.bad_rows) == (1, 0)
