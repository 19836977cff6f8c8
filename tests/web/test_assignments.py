"""Assignments on the pages: made by editors, and seen by who labels."""

import re

from flask import Flask

from tests.conftest import signed_in
from tests.web.conftest import Visitor


def test_a_person_sees_how_far_they_are_with_what_they_are_asked_for(
    app: Flask, door: str
) -> None:
    eve, ann = Visitor(app, "eve", "editor"), Visitor(app, "ann", "labeler")
    path = f"/detectors/{door}/label"
    assert "Your assignment" not in ann.get(path).text
    labelers = f"/detectors/{door}/labelers"
    assert "Ask a person for a number of labels" in eve.get(labelers).text
    made = {"labeler": "ann", "labels": "2"}
    assert eve.send(f"/detectors/{door}/assignments", made).status_code == 303
    for said in ("0 of 2", "1 of 2", "2 of 2 Done. Thank you."):
        page = ann.get(path)
        assert f"Your assignment {said}" in page.text
        assert said.partition(" D")[0] in eve.get(labelers).text
        if "Done" not in said:
            query = page.form(path)["query"]
            ann.send(path, {"query": query, "label": "YES"})
    assert "Your assignment" not in eve.get(path).text
    assert ann.send(f"/detectors/{door}/assignments", made).status_code == 403
    ended = eve.send(f"/detectors/{door}/assignments/end", {"labeler": "ann"})
    assert ended.status_code == 303
    assert "Your assignment" not in ann.get(path).text


def test_what_is_no_number_is_not_assigned(visitor: Visitor, door: str) -> None:
    wrong = {"labeler": "ann", "labels": "many"}
    visitor.send(f"/detectors/{door}/assignments", wrong)
    shown = visitor.get(f"/detectors/{door}/labelers").text
    assert "labels: " in shown
    assert "End" not in shown


def test_people_are_suggested_who_may_label_the_detector_and_nobody_else(
    app: Flask, door: str
) -> None:
    eve = Visitor(app, "eve", "editor")
    signed_in(app, "ann", "labeler")
    signed_in(app, "vera", "viewer")
    signed_in(app, "olga", "labeler", sees_all=False)
    text = eve.client.get(f"/detectors/{door}/labelers").text
    suggested = set(re.findall(r'<option value="(\w+)">', text))
    assert {"ann", "eve"} <= suggested
    assert not {"vera", "olga"} & suggested
