"""Resampling studies: checked, added once, and evaluated."""

import csv
import gzip
import io
import json
import threading
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sqlalchemy import func, select

from tests.conftest import START, by
from tests.databases import get_by_id
from tests.services.conftest import Bench
from tests.services.irises import SEEDS, add, iris
from tracker.errors import ConflictError, InvalidInputError, NotFoundError
from tracker.services.imports.rounds import read_rounds
from tracker.services.labelling.studies import (
    MOST_ROUNDS,
    ROUND_FIELDS,
    add_study,
    build_study_report,
    get_study,
    list_study_rows,
    parse_study,
)
from tracker.storage.labelling.studies import Study, StudyRound

PAIR = [{"validation": 0.8}, {"validation": 0.9}]


def number_of_rows(bench: Bench) -> tuple[int, int]:
    with bench.database.read() as session:
        studies, rounds = (
            session.scalar(select(func.count()).select_from(table)) or 0
            for table in (Study, StudyRound)
        )
        return studies, rounds


def wrong_in(values: dict[str, Any]) -> list[tuple[int | None, str, str]]:
    """Return the row, the field and the message of each thing that is wrong."""
    with pytest.raises(InvalidInputError) as caught:
        parse_study({"name": "tree", "kind": "bootstrap", **values})
    return [
        (getattr(error, "row", None), error.field, error.message)
        for error in caught.value.errors
    ]


def test_rounds_come_back_as_they_were_added(bench: Bench) -> None:
    rounds = [
        {"validation": share, "training": 1 - share}
        for share in (0.1, 1 / 3, 5e-324, 1.0, 0.0)
    ]
    study, _ = add(bench, rounds)

    with bench.database.read() as session:
        rows = list_study_rows(session, get_by_id(session, Study, study.id))

    assert rows == rounds
    assert list(rows[0]) == ["validation", "training"]


def test_the_same_again_adds_nothing(bench: Bench) -> None:
    first, is_new = add(bench, iris(), version="v3", note="once")
    again, is_again_new = add(bench, iris(), version="v3", note="once")

    assert (is_new, is_again_new) == (True, False)
    assert again.id == first.id
    assert number_of_rows(bench) == (1, 200)


@pytest.mark.parametrize(
    ("other", "field"),
    [
        ({"version": "v4"}, "version"),
        ({"note": None}, "note"),
        ({"kind": "seeds", "rounds": SEEDS}, "kind"),
        ({"rounds": iris()[:-1]}, "rounds"),
        ({"rounds": iris()[::-1]}, "rounds"),
        ({"rounds": [{"validation": r["validation"]} for r in iris()]}, "rounds"),
    ],
)
def test_other_content_under_the_same_name_is_a_conflict(
    bench: Bench, other: dict[str, Any], field: str
) -> None:
    add(bench, iris(), version="v3", note="once")
    said = {"version": "v3", "note": "once", **other}
    rounds = said.pop("rounds", iris())

    with pytest.raises(ConflictError, match=f"with other {field}"):
        add(bench, rounds, **said)

    assert number_of_rows(bench) == (1, 200)


def test_two_at_once_add_one_study(bench: Bench) -> None:
    start = threading.Barrier(2)
    new = parse_study({"name": "tree", "kind": "bootstrap", "rounds": iris()})
    added = []

    def send() -> None:
        start.wait()
        study, is_new = bench.database.run(
            lambda session: add_study(
                session, bench.attached(session), new, by("x", START)
            )
        )
        added.append((study.id, is_new))

    threads = [threading.Thread(target=send) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(is_new for _, is_new in added) == [False, True]
    assert len({study_id for study_id, _ in added}) == 1
    assert number_of_rows(bench) == (1, 200)


@pytest.mark.parametrize("number", [0, 1, MOST_ROUNDS + 1])
def test_too_few_and_too_many_rounds_are_refused(number: int) -> None:
    ((row, field, message),) = wrong_in({"rounds": PAIR[:1] * number})

    assert (row, field) == (None, "rounds")
    assert message == f"there are {number:,}; a study has from 2 to 100,000"


@pytest.mark.parametrize(
    ("second", "field", "said"),
    [
        ({"validation": 1.5}, "validation", "1.5 is not right"),
        ({"validation": -1e-9}, "validation", "at least 0"),
        ({"validation": float("nan")}, "validation", "nan is not right"),
        ({"validation": "0.9"}, "validation", "must be a number"),
        ({"validation": True}, "validation", "must be a number"),
        ({"validation": 0.9, "loss": 2}, "loss", "is not a known field"),
        ({"validation": 0.9, "": 2}, "row", "is not a known field"),
        ({"accuracy": 0.9}, "accuracy", "does not belong to kind bootstrap"),
        ({}, "validation", "is required in kind bootstrap"),
        ({"validation": None}, "validation", "is required in kind bootstrap"),
        ({"validation": 0.9, "training": 1}, "training", "row 1 lacks it"),
        (0.9, "row", "0.9 is not right"),
    ],
)
def test_what_is_wrong_with_a_round_names_row_and_field(
    second: object, field: str, said: str
) -> None:
    ((row, named, message),) = wrong_in({"rounds": [PAIR[0], second]})

    assert (row, named) == (2, field)
    assert said in message


def test_a_field_that_only_the_first_round_has_is_missed_in_each() -> None:
    rounds = [{"validation": 0.9, "training": 1.0}, *PAIR]

    wrong = wrong_in({"rounds": rounds})

    assert [(row, field) for row, field, _ in wrong] == [
        (2, "training"),
        (3, "training"),
    ]
    assert "row 1 has it" in wrong[0][2]


def test_only_the_first_mistakes_are_told() -> None:
    assert len(wrong_in({"kind": "seeds", "rounds": PAIR * 500})) == 100
    assert len(wrong_in({"rounds": [{"validation": 2}] * 1_000})) == 100


def test_an_unknown_study_is_not_found(bench: Bench) -> None:
    with bench.database.read() as session:
        for reference in ("stu_404", "det_1", "tree", "", "stu_" + "9" * 30):
            with pytest.raises(NotFoundError):
                get_study(session, reference)


def as_file(suffix: str, rounds: list[dict[str, Any]]) -> io.BytesIO:
    if suffix == ".json":
        return io.BytesIO(json.dumps({"items": rounds}).encode())
    if suffix in {".jsonl", ".ndjson"}:
        return io.BytesIO(b"".join(json.dumps(one).encode() + b"\n" for one in rounds))
    if suffix == ".parquet":
        buffer = io.BytesIO()
        pq.write_table(pa.Table.from_pylist(rounds), buffer)
        return io.BytesIO(buffer.getvalue())
    text = io.StringIO()
    writer = csv.DictWriter(
        text, list(rounds[0]), delimiter="\t" if suffix == ".tsv" else ","
    )
    writer.writeheader()
    writer.writerows(rounds)
    return io.BytesIO(text.getvalue().encode())


@pytest.mark.parametrize(
    "suffix", [".csv", ".CSV", ".tsv", ".txt", ".json", ".jsonl", ".ndjson", ".parquet"]
)
def test_every_kind_of_file_holds_the_same_rounds(suffix: str) -> None:
    assert read_rounds(as_file(suffix.lower(), iris()), suffix) == iris()


def test_decimal_commas_percentages_and_packed_files_are_read_as_imports_are() -> None:
    content = gzip.compress(b"Validation;TRAINING\n0,9;97 %\n")
    assert read_rounds(io.BytesIO(content), ".gz") == [
        {"validation": 0.9, "training": 0.97}
    ]


@pytest.mark.parametrize(
    ("content", "row", "field"),
    [
        (b"", None, "body"),
        (b"validation,colour\n0.9,red\n", None, "colour"),
        (b"validation,validation\n0.9,0.9\n", None, "validation"),
        (b"validation\n0.9\nhigh\n", 2, "validation"),
        (b'validation,training\n0.9,1\n"0,9",1\n', 2, "validation"),
        (b"validation,training\n0.9\n", 1, "row"),
        (b"validation\nNaN\n", 1, "validation"),
        (b"\xff\xfe\x00", None, "body"),
    ],
)
def test_what_is_wrong_with_a_file_is_named(
    content: bytes, row: int | None, field: str
) -> None:
    with pytest.raises(InvalidInputError) as caught:
        read_rounds(io.BytesIO(content), ".csv")

    (error,) = caught.value.errors
    assert (getattr(error, "row", None), error.field) == (row, field)


def test_a_file_of_another_kind_is_refused() -> None:
    with pytest.raises(InvalidInputError, match="its name must end in"):
        read_rounds(io.BytesIO(b""), ".doc")


@pytest.mark.thorough
def test_a_file_is_read_no_further_than_a_study_may_go() -> None:
    lines = io.BytesIO(b"accuracy\n" + b"0.5\n" * (MOST_ROUNDS + 5_000))

    assert len(read_rounds(lines, ".csv")) == MOST_ROUNDS + 1


@pytest.mark.slow
def test_the_largest_study_is_taken(bench: Bench) -> None:
    shares = np.random.default_rng(1).random((MOST_ROUNDS, 3)).tolist()
    rounds = [dict(zip(ROUND_FIELDS[1:], row, strict=True)) for row in shares]

    study, _ = add(bench, rounds)

    with bench.database.read() as session:
        assert len(build_study_report(session, study).intervals) == 4
    assert number_of_rows(bench) == (1, MOST_ROUNDS)
