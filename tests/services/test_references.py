"""Truth first: labels of inputs that predictions come for later."""

import io
import json
from typing import Any

import pytest
from sqlalchemy import select

from tests.conftest import by
from tests.services.conftest import Bench
from tracker.services.imports.reading.files import open_named
from tracker.services.imports.reports import Outcome
from tracker.services.imports.writing import Order, importing
from tracker.services.queries.queries import erase_query
from tracker.storage.base import dump_id
from tracker.storage.labelling.inputs import Reference
from tracker.storage.labels import Label
from tracker.storage.queries.queries import Query

TRUTHS = [{"input": f"i{n}", "label": "YES" if n % 2 else "NO"} for n in range(10)]


@pytest.fixture
def send(bench: Bench):
    """Import some rows as a file."""

    def send_rows(rows: list[dict[str, Any]]) -> Outcome:
        text = "".join(json.dumps(row) + "\n" for row in rows)
        file = open_named(io.BytesIO(text.encode()), "rows.jsonl")
        name, at = bench.detector.name, bench.clock()
        with (
            importing(bench.database, Order(name, file, by("alice", at))) as write,
            bench.database.write() as session,
        ):
            return write(session)

    return send_rows


def labelled(bench: Bench) -> list[tuple[str, str | None, str | None]]:
    statement = select(Query.predicted, Query.label, Query.standing).order_by(Query.id)
    with bench.database.read() as session:
        return [tuple(row) for row in session.execute(statement)]


def test_predictions_that_come_later_have_their_label_at_once(bench, send) -> None:
    report = send(TRUTHS)
    assert (report.queries_added, report.labels_added) == (0, 0)
    assert report.references_added == 10
    report = send([{"input": "i1", "predicted": "NO"}, {"predicted": "NO"}])
    assert report.queries_added == 2
    bench.log("NO", input="i2")
    bench.log("NO", input="elsewhere")
    assert labelled(bench) == [
        ("NO", "YES", "replayed_unstated"),
        ("NO", None, None),
        ("NO", "NO", "replayed_unstated"),
        ("NO", None, None),
    ]


def test_a_run_over_a_golden_set_has_an_estimate_at_once(bench, send) -> None:
    send(TRUTHS)
    send(
        [{"input": row["input"], "predicted": "YES", "version": "7"} for row in TRUTHS]
    )
    found = bench.estimate(version="7", population="replayed")
    assert [(one.correct, one.labelled) for one in found.classes] == [(5, 5), (0, 5)]


def test_sending_references_again_adds_nothing_and_another_label_corrects(
    bench, send
) -> None:
    send(TRUTHS)
    again = send(TRUTHS)
    assert (again.references_added, again.unchanged) == (0, 10)
    other = send([{"input": "i1", "label": "NO"}])
    assert (other.references_added, other.unchanged) == (1, 0)
    bench.log("YES", input="i1")
    assert labelled(bench) == [("YES", "NO", "replayed_unstated")]


def test_an_input_that_stands_twice_in_a_file_is_one_reference(bench, send) -> None:
    report = send([TRUTHS[0], *TRUTHS[:2], {**TRUTHS[1], "labeler": "ann"}])
    assert (report.references_added, report.unchanged) == (2, 2)


def test_an_erased_query_takes_the_reference_of_its_input_along(bench, send) -> None:
    send(TRUTHS)
    first = bench.log("NO", input="i1", version="v1")
    bench.log("NO", input="i1", version="v2")
    with bench.database.write() as session:
        erase_query(session, dump_id("iq", first.id), by("alice", bench.clock()))
    with bench.database.read() as session:
        kept = session.scalars(select(Reference.input)).all()
        assert set(kept) == {f"i{n}" for n in range(10) if n != 1}
    # The other version keeps its label.
    assert labelled(bench)[1] == ("NO", "YES", "replayed_unstated")


def test_queries_that_are_there_are_labelled_by_their_input(bench, send) -> None:
    bench.log("YES", input="i1", version="v1")
    bench.log("NO", input="i1", version="v2")
    report = send([*TRUTHS[:2], {"input": "i1", "label": "YES"}])
    assert (report.references_added, report.labels_added) == (1, 1)
    assert report.unchanged == 1
    assert labelled(bench) == [
        ("YES", "YES", "unstated"),
        ("NO", "YES", "replayed_unstated"),
    ]
    with bench.database.read() as session:
        assert session.scalars(select(Label.labeler)).all() == ["alice", "alice"]


def test_a_key_and_an_input_of_one_query_label_it_once(bench, send) -> None:
    query = bench.log("NO", input="i1", key="k1")
    report = send([{"key": "k1", "label": "YES"}, TRUTHS[1]])
    assert (report.labels_added, report.unchanged) == (1, 1)
    with bench.database.read() as session:
        assert session.scalars(select(Label.query_id)).all() == [query.id]


def test_references_and_predictions_may_stand_in_one_file(bench, send) -> None:
    report = send([{"input": "a", "predicted": "YES"}, {"input": "a", "label": "NO"}])
    assert (report.queries_added, report.references_added) == (1, 1)
    assert labelled(bench) == [("YES", "NO", "replayed_unstated")]


def test_one_input_with_two_labels_is_refused(send) -> None:
    with pytest.raises(Exception, match="rows are wrong"):
        send([{"input": "a", "label": "YES"}, {"input": "a", "label": "NO"}])
