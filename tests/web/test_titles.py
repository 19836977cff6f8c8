"""What the tab of the browser says: no two pages are called the same."""

import io
import re
from collections import defaultdict

import pytest
from flask import Flask

from tests.conftest import START, by
from tests.services.irises import SEEDS
from tests.web.conftest import Visitor
from tests.web.reading import Page
from tracker.services.imports.background import add_import
from tracker.services.imports.reading.files import RowFile
from tracker.services.imports.writing import Order
from tracker.services.labelling.auditing.audit_lifecycle import create_schedule
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.labelling.auditing.audits import create_audit
from tracker.services.labelling.studies import add_study, parse_study
from tracker.storage.database import Database
from tracker.storage.detectors import Detector


def _add_things(database: Database) -> dict[str, str]:
    """Add what pages are of, and return what their addresses are made of."""
    study = parse_study({"name": "tree", "kind": "seeds", "rounds": SEEDS})
    with database.write() as session:
        detector = session.get_one(Detector, 1)
        added, _ = add_study(session, detector, study, by("web", START))
        seen = NewAudit(name="autumn")
        audit = create_audit(session, detector, seen, by("web"))
        weekly = NewAudit(name="weekly", every="week")
        schedule = create_schedule(session, detector, weekly, by("web"))
        empty = RowFile("csv", "0", io.BytesIO(b""))
        file = add_import(session, Order("det_1", empty, by("web")))
        return {
            "detector_id": "det_1",
            "study_id": f"stu_{added.id}",
            "import_id": f"imp_{file.id}",
            "audit_id": f"aud_{audit.id}",
            "schedule_id": f"sch_{schedule.id}",
            "account_id": "1",
        }


def _title(page: Page) -> str:
    (title,) = page.find("title")
    return title.text


@pytest.mark.slow
def test_no_two_pages_share_a_title(
    app: Flask, visitor: Visitor, published: str, database: Database
) -> None:
    values = _add_things(database)
    listed = visitor.get(f"/detectors/{published}/queries").html
    values["query_id"] = re.findall(r"/queries/(iq_\d+)", listed)[0]
    found = defaultdict(list)
    for rule in app.url_map.iter_rules():
        is_shown = rule.endpoint.startswith("pages.") and "GET" in (rule.methods or ())
        # What has a suffix is a file.
        if not is_shown or not rule.arguments <= set(values):
            continue
        page = visitor.get(
            re.sub(r"<(?:\w+:)?(\w+)>", lambda m: values[m[1]], rule.rule)
        )
        if page.status == 200 and page.html.startswith("<!doctype html>"):
            found[_title(page)].append(rule.endpoint)
    assert len(found) >= 24
    found[_title(visitor.get("/nowhere"))].append("nowhere")
    assert {title: pages for title, pages in found.items() if len(pages) > 1} == {}
    assert all(title.endswith(" · Tracker") for title in found)
    assert "Label · door · Tracker" in found
    assert "People · Tracker" in found


def test_what_is_not_there_has_one_title(visitor: Visitor) -> None:
    for path in ("/nowhere", "/detectors/nobody", "/queries/iq_1"):
        assert _title(visitor.get(path)) == "Not found · Tracker"


def test_a_short_address_leads_to_the_list(visitor: Visitor) -> None:
    answer = visitor.client.get("/detectors")
    assert answer.status_code == 301
    assert answer.location == "/"
