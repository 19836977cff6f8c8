"""The figures of an audit's page: counted again, and beside what the API answers.

How `active` computes its intervals is tested with the statistics; here it is that the
page rounds the same ones outward and counts what is stored.
"""

from flask import Flask

from tests.web.census import percent, read_rows, span
from tests.web.conftest import Shelf, Visitor
from tests.web.test_audits import begin, label
from tests.web.test_figures import figures
from tracker.storage.database import Database


def test_an_audit_says_what_is_stored_and_what_the_api_says(
    app: Flask, visitor: Visitor, shelf: Shelf, database: Database, keys: dict[str, str]
) -> None:
    detector_id = shelf.add_detector(classes=["ewe", "ram"], question="Which one?")
    rows = [
        {"key": f"k{n}", "predicted": ("ewe", "ram")[n % 3 == 0], "confidence": 0.7}
        for n in range(30)
    ]
    shelf.add_queries(detector_id, rows)
    address = begin(visitor, detector_id, points="3")
    label(visitor, detector_id, 18)
    stored = [row for row in read_rows(database) if row.label]
    right = sum(row.is_right for row in stored)
    assert len(stored) == 18
    page = visitor.get(address)
    assert "30 queries, 18 of them labelled" in page.text
    answer = app.test_client().get(
        f"/api/v1{address}/estimate",
        headers={"Authorization": f"Bearer {keys['viewer']}"},
    )
    found = answer.get_json()
    assert found["method"] == "active"
    low, high = found["balanced"]["low"], found["balanced"]["high"]
    ends = span(low, high).replace("\N{EN DASH}", " % and ")
    assert f"these 30 queries lies between {ends} % ." in page.by_id("audit-title").text
    said = {line.split("%")[-1].strip(): line for line in figures(page)}
    ewe = next(one for one in found["classes"] if one["class"] == "ewe")
    assert (ewe["correct"], ewe["labelled"]) == (right, 18)
    bounds = span(ewe["low"], ewe["high"])
    assert f"{bounds} % {right} of 18" in said[f"{right} of 18"]
    assert percent(ewe["accuracy"]) in said[f"{right} of 18"]
    # Chosen labels stay out of the accuracy of the detector.
    assert "Nothing is known yet" in visitor.get(f"/detectors/{detector_id}").text
