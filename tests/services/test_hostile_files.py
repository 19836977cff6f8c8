"""Files that are made to exhaust their reader are refused before they do."""

import io
import os
import signal
from contextlib import ExitStack
from itertools import chain
from pathlib import Path
from typing import Any

import pytest

from tests import hostile
from tracker.errors import InvalidInputError, TooLargeError, TooManyError
from tracker.services.imports.checking import RowReader
from tracker.services.imports.reading.choices import Choices
from tracker.services.imports.reading.files import open_named
from tracker.services.imports.reports import Outcome
from tracker.services.sandbox import readers
from tracker.services.sandbox.channel import MOST_UNPACKED
from tracker.services.sandbox.readers import reading
from tracker.storage.detectors import Detector

MOST_MEMORY = 900 * 10**6
DOOR = Detector(id=2, name="door", classes=["YES", "NO"])


def read(content: bytes, name: str) -> Outcome:
    file = open_named(io.BytesIO(content), name).read_by(Choices(extra="metadata"))
    report = Outcome()
    reader = RowReader(DOOR, [], report)
    with file.rows(DOOR).pieces() as pieces:
        for piece in pieces:
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


def take_all(reader: readers.Reader) -> int:
    """The number of rows of CSV that a process still has to send."""
    rows = 0
    while (piece := reader.answer()[0][0]) is not None:
        rows += len(piece[2][0])
    return rows


def take(content: bytes, name: str) -> tuple[str, dict[str, Any]]:
    """What is said of a file, and how the process ended that read it."""
    kind = open_named(io.BytesIO(content), name).format
    stream = io.BytesIO(content)
    with (
        reading("rows", stream, kind=kind, most_unpacked=MOST_UNPACKED) as reader,
        pytest.raises(InvalidInputError) as refused,
    ):
        take_all(reader)
    return str(refused.value), reader.ended


@pytest.mark.parametrize("kind", hostile.DEADLY)
def test_a_reader_ends_before_it_takes_too_much(kind: str) -> None:
    file = hostile.DEADLY[kind]
    said, ended = take(file.make(), file.name)
    assert file.said in said
    assert 0 < ended["memory"] < MOST_MEMORY
    assert ended["seconds"] < 13


@pytest.mark.slow
@pytest.mark.parametrize("kind", hostile.LARGE)
def test_a_reader_of_a_large_file_ends_before_it_takes_too_much(kind: str) -> None:
    file = hostile.LARGE[kind]
    said, ended = take(file.make(), file.name)
    assert file.said in said
    assert 0 < ended["memory"] < MOST_MEMORY
    assert ended["seconds"] < 13


@pytest.mark.slow
def test_a_file_may_take_longer_than_its_first_rows_while_it_gives_rows() -> None:
    lines = (b"key-%d,YES\n" % number for number in range(2_000_000))
    stream = io.BytesIO(hostile.packed(chain([b"key,predicted\n"], lines)))
    with reading(
        "rows", stream, seconds=1, kind="csv", most_unpacked=MOST_UNPACKED
    ) as reader:
        assert take_all(reader) == 2_000_000
    assert reader.ended["seconds"] > 1


def test_a_reader_that_is_killed_ends_its_own_file_alone() -> None:
    content = hostile.packed(iter([b"predicted\n" + b"YES\n" * 200_000]))
    first, second = io.BytesIO(content), io.BytesIO(content)
    with (
        reading("rows", first, kind="csv", most_unpacked=MOST_UNPACKED) as killed,
        reading("rows", second, kind="csv", most_unpacked=MOST_UNPACKED) as other,
    ):
        killed.answer()
        os.kill(killed.pid, signal.SIGKILL)
        with pytest.raises(InvalidInputError, match="or crashed the reader"):
            take_all(killed)
        assert take_all(other) == 200_000
    assert killed.ended["status"] == -signal.SIGKILL


def test_readers_are_started_again_after_what_starts_them_has_died() -> None:
    assert read(b"predicted\nYES\n", "x.csv").rows == 1
    readers.warm_up()
    process = readers._starters[0]._process
    process.kill()
    process.wait()
    assert read(hostile.packed(iter([b"predicted\nYES\n"])), "x.csv.gz").rows == 1


def test_a_reader_loads_no_database_and_sees_no_settings() -> None:
    readers.warm_up()
    assert read(hostile.packed(iter([b"predicted\nYES\n"])), "x.csv.gz").rows == 1
    pid = readers._starters[0]._process.pid
    maps = Path(f"/proc/{pid}/maps")
    if not maps.exists():
        pytest.skip("there is no /proc to look at")
    assert "sqlite" not in maps.read_text()
    environ = Path(f"/proc/{pid}/environ").read_text().split("\0")
    assert {one.partition("=")[0] for one in environ if one} == {
        "ARROW_DEFAULT_MEMORY_POOL",
        "JE_ARROW_MALLOC_CONF",
        "MALLOC_ARENA_MAX",
        "OMP_NUM_THREADS",
        "OPENBLAS_NUM_THREADS",
        "TMPDIR",
    }
    # One thread: it copies itself.
    assert len(list(Path(f"/proc/{pid}/task").iterdir())) == 1


def test_no_more_files_are_read_at_once_than_there_is_memory_for() -> None:
    content = hostile.packed(iter([b"predicted\nYES\n"]))
    with ExitStack() as stack:
        for _ in range(4):
            stack.enter_context(
                reading("rows", io.BytesIO(content), kind="csv", most_unpacked=1_000)
            )
        with pytest.raises(TooManyError, match="4 files are being read"):
            read(content, "x.csv.gz")
    assert read(content, "x.csv.gz").rows == 1


@pytest.mark.parametrize("name", ["x.csv", "x.jsonl"])
def test_the_bytes_of_a_binary_file_are_not_echoed(name: str) -> None:
    content = b"\x7fELF\x02\x01\x01\x00secret\xff\xfe\n" * 3
    try:
        said = str(read(content, name).errors)
    except InvalidInputError as error:
        said = str(error)
    assert "secret" not in said
    assert "ELF" not in said
    assert "is not" in said
