"""How to answer, in the words of the detector's editors, where people label."""

import pytest
from flask import Flask

from tests.web.conftest import Visitor

TEXT = "YES if you see <no> gap.\n\n  UNCLEAR if the door is out of sight."


def change(visitor: Visitor, detector_id: str, guideline: str) -> str:
    page = f"/detectors/{detector_id}/setup"
    fields = visitor.get(page).form(page) | {"guideline": guideline}
    return visitor.post(page, fields).text


@pytest.mark.parametrize("page", ["label", "label/grid", "label?queue=targeted"])
def test_a_guideline_stands_where_people_label_with_its_line_breaks(
    app: Flask, visitor: Visitor, door: str, page: str
) -> None:
    ben = Visitor(app, "ben", "labeler")
    assert "Guideline" not in ben.get(f"/detectors/{door}/{page}").text
    change(visitor, door, TEXT.replace("\n", "\r\n"))
    html = ben.client.get(f"/detectors/{door}/{page}").text
    shown = html.partition('<details class="card guideline" open>')[2]
    assert TEXT.replace("<no>", "&lt;no&gt;") in shown.partition("</details>")[0]
    # What an answer replaces is below it, or it would be closed by each.
    assert html.index("guideline") < html.index('class="label-page"')


def test_a_long_guideline_is_folded(visitor: Visitor, door: str) -> None:
    change(visitor, door, "a\nb\nc\nd")
    html = visitor.client.get(f"/detectors/{door}/label").text
    assert '<details class="card guideline">' in html


def test_a_guideline_has_a_limit_and_the_audit_log_tells_of_it(
    visitor: Visitor, door: str
) -> None:
    assert "at most 5,000 characters" in change(visitor, door, "x" * 5001)
    change(visitor, door, "x" * 5000)
    log = visitor.get("/activity").text
    assert "x" * 200 + "…" in log
    assert "x" * 201 not in log
    page = f"/detectors/{door}/setup"
    assert visitor.get(page).form(page)["guideline"] == "x" * 5000
    change(visitor, door, "")
    assert "Guideline" not in visitor.get(f"/detectors/{door}/label").text
