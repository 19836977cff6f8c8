"""Rows without a key: a file that grows is one file, a corrected one is asked about."""

import io

import pytest
from sqlalchemy import select

from tests.conftest import by
from tests.services.conftest import Bench
from tracker.errors import InvalidInputError
from tracker.services.imports.reading.choices import read_choices
from tracker.services.imports.reading.files import open_named
from tracker.services.imports.reports import Outcome
from tracker.services.imports.writing import Order, importing
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query

DAY_1 = ["YES,YES", "NO,NO"]
MANY = ["YES,YES", "YES,NO", "NO,NO"] * 14


@pytest.fixture
def send(bench: Bench):
    """Import some lines as a file."""

    def send_lines(lines: list[str], **choices: bool) -> Outcome:
        text = "\n".join(["y_true,y_pred", *lines])
        file = open_named(io.BytesIO(text.encode()), "rows.csv")
        file = file.read_by(read_choices(**choices))
        order = Order(bench.detector.name, file, by("alice", bench.clock()))
        with (
            importing(bench.database, order) as write,
            bench.database.write() as session,
        ):
            return write(session)

    return send_lines


def labels_of(bench: Bench) -> list[str]:
    with bench.database.read() as session:
        found = session.scalars(select(Query.label).order_by(Query.id)).all()
        return [label for label in found if label is not None]


def added(report: Outcome) -> tuple[int, int, int]:
    return report.queries_added, report.labels_added, report.unchanged


def test_a_file_that_grew_adds_its_tail(bench, send) -> None:
    assert added(send(DAY_1)) == (2, 2, 0)
    assert added(send([*DAY_1, "YES,NO"])) == (1, 1, 2)
    assert added(send([*DAY_1, "YES,NO", "NO,YES"])) == (1, 1, 3)
    assert labels_of(bench) == ["YES", "NO", "YES", "NO"]


def test_every_state_of_a_file_that_grew_adds_nothing_again(bench, send) -> None:
    states = [DAY_1, [*DAY_1, "YES,NO"], [*DAY_1, "YES,NO", "NO,NO"]]
    for lines in [*states, *states[::-1], *states]:
        send(lines)
    assert len(labels_of(bench)) == 4
    assert added(send([*states[-1], "NO,NO"])) == (1, 1, 4)


def test_a_file_may_grow_over_several_pieces(bench, send) -> None:
    send(MANY * 60)
    assert added(send(MANY * 120)) == (len(MANY) * 60, len(MANY) * 60, len(MANY) * 60)
    assert len(labels_of(bench)) == len(MANY) * 120


@pytest.mark.parametrize("wrong", [1, 4])
def test_up_to_a_tenth_of_other_rows_is_asked_about(bench, send, wrong) -> None:
    send(MANY)
    other = ["NO,NO"] * wrong + MANY[wrong:]
    differing = sum(a != b for a, b in zip(MANY, other, strict=True))
    with pytest.raises(
        InvalidInputError, match=r"--same-rows .* --new-rows"
    ) as refused:
        send(other)
    assert f"{differing} of the 42 rows" in str(refused.value)
    assert len(labels_of(bench)) == len(MANY)


def test_one_corrected_row_of_two_is_asked_about(bench, send) -> None:
    send(DAY_1)
    with pytest.raises(InvalidInputError, match="1 of the 2 rows"):
        send(["NO,YES", "NO,NO"])
    assert labels_of(bench) == ["YES", "NO"]


def test_corrections_are_corrections(bench, send) -> None:
    send(DAY_1)
    report = send(["NO,YES", "NO,NO", "YES,YES"], same_rows=True)
    assert added(report) == (1, 2, 1)
    assert labels_of(bench) == ["NO", "NO", "YES"]
    # What is corrected is what the next file has to begin with.
    assert added(send(["NO,YES", "NO,NO", "YES,YES", "NO,NO"])) == (1, 1, 3)


def test_new_rows_are_new_however_like_others(bench, send) -> None:
    send(DAY_1)
    assert added(send([*DAY_1, "YES,NO"], new_rows=True)) == (3, 3, 0)
    assert len(labels_of(bench)) == 5


def test_any_other_file_adds_all_its_rows(bench, send) -> None:
    send(MANY)
    assert added(send(["NO,NO"] * 42))[0] == 42
    assert len(labels_of(bench)) == 84


def test_nothing_of_an_earlier_file_cannot_be_corrected(send) -> None:
    send(MANY)
    with pytest.raises(InvalidInputError, match="no earlier file"):
        send(["NO,YES"] * 50, same_rows=True)


def test_a_label_corrected_since_stays_when_the_file_grows(bench, send) -> None:
    send(DAY_1)
    with bench.database.read() as session:
        first = session.scalars(select(Query).order_by(Query.id)).first()
    bench.label(first, "NO")
    send([*DAY_1, "YES,YES"])
    assert labels_of(bench) == ["NO", "NO", "YES"]
    with bench.database.read() as session:
        assert len(session.scalars(select(Label.id)).all()) == 4


def test_rows_cannot_be_the_same_and_new() -> None:
    with pytest.raises(InvalidInputError, match="same_rows"):
        read_choices(same_rows=True, new_rows=True)


def test_new_rows_sent_again_are_the_same(bench, send) -> None:
    for grown in (DAY_1, [*DAY_1, "YES,NO"], [*DAY_1, "NO,NO"]):
        send(grown, same_rows=len(grown) > 2 and grown[2] == "NO,NO")
    again = [*DAY_1, "YES,NO"]
    assert added(send(again, new_rows=True)) == (3, 3, 0)
    assert added(send(again, new_rows=True)) == (0, 0, 3)
    assert added(send(again)) == (0, 0, 3)
