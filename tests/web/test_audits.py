"""The pages of audits, and labelling from one."""

import base64
import re
from collections.abc import Callable
from hashlib import sha256
from types import SimpleNamespace
from typing import Any

import pytest
from flask import Flask, render_template_string

from tests.databases import get_by_id
from tests.web.conftest import Shelf, Visitor
from tests.web.test_label_queues import answer
from tracker.storage.database import Database
from tracker.storage.labelling.audits import Audit
from tracker.web.labelling import audits


@pytest.fixture
def sheep(shelf: Shelf) -> str:
    detector_id = shelf.add_detector(classes=["ewe", "ram"], question="Which one?")
    rows = [
        {"key": f"k{n}", "predicted": ("ewe", "ram")[n % 2], "confidence": n / 20}
        for n in range(20)
    ]
    shelf.add_queries(detector_id, rows)
    return detector_id


@pytest.mark.slow
def test_an_audit_is_begun_labelled_and_closed(visitor: Visitor, sheep: str) -> None:
    path = f"/detectors/{sheep}/audits"
    assert "No audit yet: one says" in visitor.get(path).text
    begun = visitor.send(path, {"name": "Autumn", "aim": "balanced", "points": "3"})
    assert begun.status_code == 303, begun.text
    address = begun.location
    assert "Autumn" in visitor.get(path).text
    assert "Nothing is known of these 20 queries yet." in visitor.get(address).text
    page = visitor.get(f"/detectors/{sheep}/label?audit=aud_1")
    seen = 0
    while "Nothing left to label" not in page.text:
        page = answer(visitor, sheep, page, label="ewe")
        seen += 1
    assert seen == 20
    page = visitor.get(address)
    assert "20 of them labelled" in page.text
    assert "On these 20 queries it is right" in page.text
    assert "of the time, ewe and ram counting the same." in page.text
    assert "The goal is reached after 20 labels" in page.text
    assert "none waits for its label" in page.text
    assert "Not counted: 20 picked." in visitor.get(f"/detectors/{sheep}").text
    assert visitor.send(f"{address}/close").status_code == 303
    assert "Finish now" not in visitor.get(address).text


def begin(visitor: Visitor, detector_id: str, **typed: str) -> str:
    fields = {"name": "Autumn", "aim": "balanced", "points": "3"} | typed
    sent = visitor.send(f"/detectors/{detector_id}/audits", fields)
    assert sent.status_code == 303, sent.text
    return str(sent.location)


def label(visitor: Visitor, detector_id: str, count: int) -> None:
    page = visitor.get(f"/detectors/{detector_id}/label?audit=aud_1")
    for _ in range(count):
        page = answer(visitor, detector_id, page, label="ewe")


def test_what_an_audit_takes_is_seen_before_it_is_begun(
    visitor: Visitor, sheep: str, tables: Callable[[], dict[str, list[Any]]]
) -> None:
    before = tables()
    path = f"/detectors/{sheep}/audits"
    page = visitor.post(path, {"aim": "ram", "points": "5", "plan": "1"})
    assert "20 queries. About " in page.text
    assert "at random it would take about" in page.text
    assert 'value="5"' in page.html
    assert tables() == before
    none = visitor.send(path, {"points": "5", "where": "confidence:1", "plan": "1"})
    assert none.status_code == 422
    assert tables() == before


def test_after_a_few_labels_both_forecasts_are_those_of_the_beginning(
    visitor: Visitor, sheep: str, database: Database
) -> None:
    address = begin(visitor, sheep, points="10")
    with database.write() as session:
        audit = get_by_id(session, Audit, 1)
        audit.labels_expected, audit.labels_at_random = 14, 17
    label(visitor, sheep, 3)
    page = visitor.get(address)
    assert "About 11 more labels to reach" in page.text
    assert "At random it would take about 14 more." in page.text


def test_the_legend_says_what_random_labels_are_simulated_from(
    visitor: Visitor, sheep: str
) -> None:
    address = begin(visitor, sheep)
    page = visitor.get(address).text
    assert "Mean of the classes of the set, by number of labels" in page
    assert "simulated from the detector's confidences" in page
    # The labels of one audit are known to the next from its beginning.
    label(visitor, sheep, 3)
    address = begin(visitor, sheep, name="Winter", aim="ram", points="10")
    for path in (address, f"{address}/report"):
        page = visitor.get(path).text
        assert "simulated from the labels so far" in page
        assert "Accuracy of ram in the set, by number of labels" in page


def test_where_random_labels_would_have_done_it_the_page_says_so(
    visitor: Visitor, sheep: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    address = begin(visitor, sheep)
    label(visitor, sheep, 3)
    # It takes luck: a small set, and confidences that mislead.
    monkeypatch.setattr(audits, "expected_in_all", lambda *_, **__: 3)
    page = visitor.get(address)
    assert "more labels to reach" in page.text
    assert "Random labels would have reached it by now." in page.text


def test_an_audit_against_a_target_draws_it_where_its_axis_has_it(
    visitor: Visitor, sheep: str, database: Database
) -> None:
    address = begin(visitor, sheep)
    with database.write() as session:
        audit = get_by_id(session, Audit, 1)
        audit.half_width, audit.target = None, 0.8
    label(visitor, sheep, 3)
    for path in (address, f"{address}/report"):
        page = visitor.get(path)
        lines = re.findall(r'class="plot-target" x1="9%" .*?y1="([\d.]+)%"', page.html)
        assert len(lines) == 1
        # The place of the same share among the marks of the axis.
        assert f'y="{lines[0]}%" dy="4">80\N{NARROW NO-BREAK SPACE}%' in page.html
        assert "target: 80 %" in page.text


def test_the_chart_of_an_audit_is_explained_where_its_report_is_read_too(
    visitor: Visitor, sheep: str
) -> None:
    address = begin(visitor, sheep, points="10")
    label(visitor, sheep, 3)
    for path in (address, f"{address}/report"):
        text = visitor.get(path).text
        # Once in the chart, and once below it for narrow screens.
        assert text.count("goal: ± 10 points after about") == 2
        assert "the goal at random, after about" in text


@pytest.mark.thorough
def test_an_audit_is_paused_resumed_and_narrowed(visitor: Visitor, sheep: str) -> None:
    address = begin(visitor, sheep, points="20")
    assert visitor.send(f"{address}/pause").status_code == 303
    assert "Paused" in visitor.get(address).text
    page = visitor.get(f"/detectors/{sheep}/label?audit=aud_1")
    assert "This audit has nothing to label" in page.text
    assert visitor.send(f"{address}/resume").status_code == 303
    label(visitor, sheep, 2)
    wider = visitor.send(f"{address}/extend", {"points": "30"})
    assert wider.status_code == 422
    assert "not narrower" in wider.text
    assert visitor.send(f"{address}/extend", {"points": "x"}).status_code == 422
    assert visitor.send(f"{address}/extend", {"points": "2,5"}).status_code == 303
    page = visitor.get(address)
    assert "2.5 points" in page.text
    assert "± 20 until" in page.text
    visitor.send(f"{address}/close")
    page = visitor.get(f"/detectors/{sheep}/label?audit=aud_1")
    assert "This audit has nothing to label" in page.text
    visitor.send(f"{address}/pause")
    assert "Nothing was changed" in visitor.get(address).text


def test_what_is_skipped_comes_again_after_a_few_others(
    visitor: Visitor, sheep: str
) -> None:
    begin(visitor, sheep)
    page = visitor.get(f"/detectors/{sheep}/label?audit=aud_1")
    seen = []
    for _ in range(6):
        seen.append(page.form(f"/detectors/{sheep}/label")["query"])
        page = answer(visitor, sheep, page, skip="1")
    # Evidence waits for the first of them, so that it does not wait for the last.
    assert len(set(seen)) == 5
    assert seen[5] == seen[0]


def test_what_is_skipped_is_offered_to_others_at_once(
    app: Flask, visitor: Visitor, sheep: str
) -> None:
    begin(visitor, sheep)
    path = f"/detectors/{sheep}/label?audit=aud_1"
    page = visitor.get(path)
    first = page.form(f"/detectors/{sheep}/label")["query"]
    answer(visitor, sheep, page, skip="1")
    jonas = Visitor(app, "jonas", "labeler")
    assert jonas.get(path).form(f"/detectors/{sheep}/label")["query"] == first


@pytest.mark.thorough
def test_the_grid_labels_for_an_audit(visitor: Visitor, sheep: str) -> None:
    address = begin(visitor, sheep)
    grid = f"/detectors/{sheep}/label/grid"
    page = visitor.get(f"{grid}?audit=aud_1")
    form = page.form(grid)
    assert form["audit"] == "aud_1"
    names = form["queries"].split()
    assert len(names) == 20
    given = {"queries": form["queries"], "audit": "aud_1", "rest": "ewe"}
    sent = visitor.send(grid, given)
    assert sent.status_code == 303
    assert "audit=aud_1" in sent.location
    page = visitor.get(address)
    assert "20 of them labelled" in page.text
    assert "Not counted: 20 picked." in visitor.get(f"/detectors/{sheep}").text
    assert "Nothing is left in the audit." in visitor.get(sent.location).text


@pytest.mark.thorough
def test_the_reason_of_a_draw_is_told_after_its_answer(
    visitor: Visitor, sheep: str
) -> None:
    address = begin(visitor, sheep)
    visitor.get(f"/detectors/{sheep}/label?audit=aud_1")
    before = visitor.get(address).text
    assert "as likely as an average query" not in before
    label(visitor, sheep, 1)
    after = visitor.get(address).text
    assert "times as likely as an average query" in after
    assert "the detector's confidence was" in after


@pytest.mark.slow
def test_the_report_is_whole_in_itself_and_keeps_what_was_said(
    visitor: Visitor, sheep: str
) -> None:
    address = begin(visitor, sheep)
    label(visitor, sheep, 20)
    report = visitor.client.get(f"{address}/report")
    assert "still open" in report.text
    assert "The key that decides" in report.text
    for outside in ("<link", "<script", "src=", "<img"):
        assert outside not in report.text
    style = report.text.partition("<style>")[2].partition("</style>")[0]
    digest = base64.b64encode(sha256(style.encode()).digest()).decode()
    assert f"'sha256-{digest}'" in report.headers["Content-Security-Policy"]
    visitor.send(f"{address}/close")
    said = visitor.client.get(f"{address}/report").text
    assert "with its goal reached" in said
    assert "web" in said
    assert "20 labels" in said
    draws = visitor.client.get(f"{address}/draws.csv")
    assert draws.text.splitlines()[0].startswith("draw,round,query,key")
    assert len(draws.text.splitlines()) == 21
    record = visitor.client.get(f"{address}/record.json")
    assert "attachment" in record.headers["Content-Disposition"]
    assert len(record.json["draws"]) == 20
    assert visitor.client.get(f"{address}/draws.parquet").status_code == 200
    assert visitor.client.get(f"{address}/draws.xls").status_code == 404


@pytest.mark.slow
def test_after_a_hundred_labels_the_page_says_whether_choosing_helps(
    visitor: Visitor, shelf: Shelf
) -> None:
    detector_id = shelf.add_detector(classes=["ewe", "ram"], question="Which one?")
    rows = [{"key": f"k{n}", "predicted": ("ewe", "ram")[n % 2]} for n in range(160)]
    shelf.add_queries(detector_id, rows)
    address = begin(visitor, detector_id)
    grid = f"/detectors/{detector_id}/label/grid"
    for _ in range(5):
        form = visitor.get(f"{grid}?audit=aud_1").form(grid)
        given = {"queries": form["queries"], "audit": "aud_1"}
        for place, name in enumerate(form["queries"].split()):
            given[name] = ("ewe", "ram")[place % 2]
        assert visitor.send(grid, given).status_code == 303
    page = visitor.get(address).text
    assert "120 of them labelled" in page
    assert "So far choosing tells no more than chance would" in page


def test_an_audit_decides_a_target_or_measures_a_precision_by_the_form(
    visitor: Visitor, sheep: str
) -> None:
    page = visitor.get(begin(visitor, sheep, target="99,5", points=""))
    assert "to tell it from 99.5" in page.text
    (button,) = page.find("a", class_="btn btn-primary")
    assert "audit=aud_1" in button.attributes["href"]
    address = begin(visitor, sheep, name="Precise", aim="precision:ram")
    page = visitor.get(address)
    assert "precision of ram" in page.text
    assert "predicted:ram" in page.text
    assert "Balanced" not in page.text
    assert "Balanced: the mean" not in visitor.get(f"{address}/report").text


def test_an_audit_without_a_name_is_named_for_when_it_began(
    visitor: Visitor, sheep: str
) -> None:
    assert (
        "Audit of 2026-01-31 12:00:" in visitor.get(begin(visitor, sheep, name="")).text
    )


@pytest.mark.parametrize(
    "wrong",
    [
        {"points": "x"},
        {"target": "x"},
        {"where": "camera:north"},
        {"points": "80"},
    ],
)
def test_what_is_wrong_with_the_form_is_said(
    visitor: Visitor, sheep: str, wrong: dict[str, str]
) -> None:
    path = f"/detectors/{sheep}/audits"
    fields = {"name": "Autumn", "aim": "balanced", "points": "3"} | wrong
    sent = visitor.send(path, fields)
    assert sent.status_code == 422
    assert "Autumn" in sent.text


@pytest.mark.slow
def test_what_a_closed_audit_said_stands_on_the_history(
    visitor: Visitor, sheep: str
) -> None:
    address = begin(visitor, sheep)
    label(visitor, sheep, 20)
    path = f"/detectors/{sheep}/changes"
    assert "Closed audits" not in visitor.get(path).text
    assert visitor.send(f"{address}/close").status_code == 303
    page = visitor.get(path)
    (row,) = [tr.text for tr in page.find("tr") if tr.text.startswith("Autumn")]
    assert row.endswith("reached")
    result = visitor.get(f"/detectors/{sheep}/audits").text
    said = row.removesuffix(" reached").rsplit(" ", 2)[-2:]
    assert f"closed: {' '.join(said)} from 20 labels" in result


def test_choosing_and_judges_are_weighed_in_one_statement(app: Flask) -> None:
    def say(saved: int | None, by_judges: int | None) -> str:
        found, audit = (
            SimpleNamespace(labels_used=200),
            SimpleNamespace(queries=900, closed_at=None),
        )
        read = SimpleNamespace(
            labels_saved=saved,
            saved_by_judges=by_judges,
            worth=200 + (saved or 0),
            is_choice_seen=saved is not None and saved >= 20,
            is_choice_idle=saved is not None and saved < 20,
            are_judges_idle=(by_judges or 0) < 20,
        )
        with app.test_request_context():
            said = render_template_string(
                '{% from "audits/_about.html" import worth_of with context %}'
                "{{ worth_of(read, found, audit) }}",
                read=read,
                found=found,
                audit=audit,
            )
        return said.strip()

    idle = say(-40, 160)
    assert idle.startswith("So far choosing tells no more than chance would")
    assert (
        "cost about 40 labels compared with random ones; without the judges it" in idle
    )
    assert "would have taken about 360 labels instead of 200. The interval" in idle
    seen = say(160, 100)
    assert seen == (
        "To know this much at random would have taken about 360 labels instead of 200, "
        "and about 300 without the judges."
    )
    assert say(None, 100) == (
        "Without the judges it would have taken about 300 labels instead of 200."
    )
    assert say(160, 3).endswith(
        "instead of 200. The judges have saved hardly any labels so far."
    )
    assert "judges" not in say(160, None)
