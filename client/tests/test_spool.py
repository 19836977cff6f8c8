"""The spool by itself: a sequence that processes share and no crash breaks."""

import errno
import json
import multiprocessing
import os
from pathlib import Path

import pytest
from tracker_client import rows
from tracker_client.reading import Reader, read_cursor
from tracker_client.spool import Spool, segment_numbers, segment_path


def a_row(key: str, *, label: bool = False, size: int = 0) -> bytes:
    row = {"key": key, "label" if label else "predicted": "YES", "note": "x" * size}
    kind = rows.LABEL if label else rows.QUERY
    return rows.record(kind, b'"door"', rows.quote(key), rows.encode(row))


def open_spool(folder: Path, **more) -> Spool:
    return Spool(folder, **{"max_bytes": 2**30, **more})


def read_keys(folder: Path) -> list[str]:
    """Read all that is left, window after window."""
    reader, keys = Reader(folder), []
    while (window := reader.next_window()) is not None:
        keys += [one.key.decode().strip('"') for one in window.records]
        reader.advance(window)
    return keys


def test_what_was_appended_is_read_once_in_order(tmp_path) -> None:
    spool = open_spool(tmp_path)
    keys = [f"k{number}" for number in range(2_500)]
    for key in keys:
        spool.append(a_row(key))

    assert read_keys(tmp_path) == keys
    assert read_keys(tmp_path) == []


def test_segments_follow_on_each_other_and_are_deleted_when_read(tmp_path) -> None:
    spool = open_spool(tmp_path, segment_bytes=500)
    keys = [f"k{number}" for number in range(100)]
    for key in keys:
        spool.append(a_row(key))
        spool.tend()
    assert len(segment_numbers(tmp_path)) > 10

    assert read_keys(tmp_path) == keys
    assert len(segment_numbers(tmp_path)) == 1


def test_a_segment_that_somebody_may_append_to_is_not_left(tmp_path) -> None:
    slow, quick = (open_spool(tmp_path, segment_bytes=10) for _ in range(2))
    slow.append(a_row("first"))
    quick.append(a_row("second"))
    assert len(segment_numbers(tmp_path)) == 2
    assert read_keys(tmp_path) == ["first"]

    slow.append(a_row("late"))
    assert read_keys(tmp_path) == ["late"]
    slow.tend()
    assert read_keys(tmp_path) == ["second"]


@pytest.mark.parametrize("lost", range(1, len(a_row("torn"))))
def test_a_record_that_was_cut_off_is_passed_by(tmp_path, lost) -> None:
    spool = open_spool(tmp_path)
    spool.append(a_row("whole"))
    spool.close()
    with segment_path(tmp_path, 1).open("ab") as file:
        file.write(a_row("torn")[:-lost])
    assert read_keys(tmp_path) == ["whole"]

    open_spool(tmp_path).append(a_row("next"))
    assert read_keys(tmp_path) == ["next"]


def test_an_interrupted_window_comes_again_as_it_was(tmp_path) -> None:
    spool = open_spool(tmp_path)
    spool.append(a_row("a"))
    first = Reader(tmp_path).next_window()
    spool.append(a_row("b"))

    assert Reader(tmp_path).next_window() == first._replace(has_more=False)
    assert read_keys(tmp_path) == ["a", "b"]


def test_a_window_never_labels_a_key_twice(tmp_path) -> None:
    spool = open_spool(tmp_path)
    for key in ("a", "a", "b", "b", "a"):
        spool.append(a_row(key, label=True))
    reader, sizes = Reader(tmp_path), []
    while (window := reader.next_window()) is not None:
        sizes.append(len(window.records))
        reader.advance(window)

    assert sizes == [2, 2, 1]


def test_rounds_keep_the_order_of_a_key_and_go_on_where_they_were(tmp_path) -> None:
    spool = open_spool(tmp_path)
    for key in ("a", "b"):
        spool.append(a_row(key))
        for _ in range(3):
            spool.append(a_row(key, label=True))
    seen, names = [], []
    while (window := Reader(tmp_path).next_window()) is not None:
        # Each time by a program that has just begun.
        reader = Reader(tmp_path)
        assert reader.next_window() == window
        seen.append([(one.kind, one.key) for one in window.records])
        names.append(window.name)
        reader.advance(window)

    first = [(b"q", b'"a"'), (b"l", b'"a"'), (b"q", b'"b"'), (b"l", b'"b"')]
    again = [(b"l", b'"a"'), (b"l", b'"b"')]
    assert seen == [first, again, again]
    assert len(set(names)) == 3


def test_a_cursor_without_rounds_is_read(tmp_path) -> None:
    spool = open_spool(tmp_path)
    spool.append(a_row("a"))
    size = len(a_row("a"))
    spool.append(a_row("b"))
    old = {"segment": 1, "offset": size, "end": 0, "sent": 1}
    old |= {"refused": 0, "refused_bytes": 0}
    (tmp_path / "cursor").write_text(json.dumps(old))

    assert read_keys(tmp_path) == ["b"]


def test_a_record_larger_than_a_window_is_read(tmp_path) -> None:
    spool = open_spool(tmp_path)
    for key in ("a", "b"):
        spool.append(a_row(key, size=9 * 2**20))

    assert read_keys(tmp_path) == ["a", "b"]


def append_many(folder: Path, name: str, number: int) -> None:
    spool = open_spool(folder, segment_bytes=2_000)
    for place in range(number):
        spool.append(a_row(f"{name}-{place}"))
        if place % 7 == 0:
            spool.tend()


@pytest.mark.slow
def test_processes_share_one_sequence_and_lose_nothing(tmp_path) -> None:
    context = multiprocessing.get_context("spawn")
    names, number = ["a", "b", "c"], 300
    processes = [
        context.Process(target=append_many, args=(tmp_path, name, number))
        for name in names
    ]
    for process in processes:
        process.start()
    found = []
    while any(process.is_alive() for process in processes):
        found += read_keys(tmp_path)
    found += read_keys(tmp_path)

    for name in names:
        mine = [key for key in found if key.startswith(name)]
        assert mine == [f"{name}-{place}" for place in range(number)]


class FullDisk:
    """A disk with room for some bytes, in place of ``os.write``."""

    def __init__(self) -> None:
        self.room = 0

    def write(self, handle: int, content: bytes) -> int:
        if not self.room:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        size = min(len(content), self.room)
        self.room -= size
        return os.pwrite(handle, content[:size], os.fstat(handle).st_size)


def test_a_full_disk_keeps_rows_in_memory_until_there_is_room(
    tmp_path, monkeypatch
) -> None:
    spool, disk = open_spool(tmp_path), FullDisk()
    spool.append(a_row("before"))
    with monkeypatch.context() as full:
        full.setattr(os, "write", disk.write)
        # Room for a part of one record.
        disk.room = 20
        spool.append(a_row("a"))
        spool.append(a_row("b"))
        spool.tend()
    assert len(spool.waiting) == 2
    spool.tend()

    assert not spool.waiting
    assert read_keys(tmp_path) == ["before", "a", "b"]


def test_a_spool_at_its_limit_drops_and_counts_until_there_is_room(tmp_path) -> None:
    spool = open_spool(tmp_path, max_bytes=4_000)
    for number in range(100):
        spool.append(a_row(f"k{number}"))
        spool.tend()
    assert 0 < spool.dropped < 100
    kept = read_keys(tmp_path)
    assert kept == [f"k{number}" for number in range(100 - spool.dropped)]

    dropped = spool.dropped
    spool.tend()
    spool.append(a_row("after"))
    assert spool.dropped == dropped
    assert read_keys(tmp_path)[-1] == "after"


def test_a_folder_that_cannot_be_used_keeps_rows_in_memory(tmp_path) -> None:
    (tmp_path / "file").write_text("in the way")
    spool = open_spool(tmp_path / "file" / "spool")
    spool.append(a_row("k"))
    spool.tend()

    assert list(spool.waiting) == [a_row("k")]


def test_a_cursor_that_is_no_cursor_begins_again(tmp_path) -> None:
    open_spool(tmp_path).append(a_row("k"))
    assert read_keys(tmp_path) == ["k"]
    (tmp_path / "cursor").write_text("broken")

    assert read_keys(tmp_path) == ["k"]
    assert read_cursor(tmp_path).offset == len(a_row("k"))


def test_nobody_else_may_read_what_is_on_its_way(tmp_path) -> None:
    folder = tmp_path / "spool"
    open_spool(folder).append(a_row("k"))

    assert folder.stat().st_mode & 0o077 == 0
    assert segment_path(folder, 1).stat().st_mode & 0o077 == 0
