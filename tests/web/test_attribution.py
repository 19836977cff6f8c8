"""What moved a judged rate, on the page of changes."""

from datetime import timedelta

from tests.conftest import START, by
from tests.web.conftest import Shelf, Visitor
from tracker.services.deciding.attribution import NewInvestigation, begin_investigation
from tracker.services.detectors import get_detector
from tracker.services.labelling.judgements import NewJudgement, add_judgements
from tracker.storage.database import Database


def test_three_rows_say_what_moved(
    visitor: Visitor, shelf: Shelf, database: Database
) -> None:
    detector_id = shelf.add_detector()
    path = f"/detectors/{detector_id}/changes"
    week = timedelta(days=7)
    assert "System, judge or mix?" not in visitor.get(path).text
    for version, at, judge in (("v1", START, "llm-1"), ("v2", START + week, "llm-2")):
        rows = [
            {
                "key": f"{version}-{n}",
                "input": f"i{n}",
                "predicted": "YES",
                "version": version,
                "asked_at": at.isoformat(),
            }
            for n in range(40)
        ]
        shelf.add_queries(detector_id, rows)
        found = [
            NewJudgement(
                detector=detector_id,
                key=row["key"],
                judge=judge,
                verdict="NO" if judge == "llm-2" and n < 20 else "YES",
            )
            for n, row in enumerate(rows)
        ]
        with database.write() as session:
            assert add_judgements(session, found, by()) == []
    with database.write() as session:
        # The new judge on the old outputs, which are the same.
        again = [
            NewJudgement(
                detector=detector_id,
                key=f"v1-{n}",
                judge="llm-2",
                verdict="NO" if n < 20 else "YES",
            )
            for n in range(40)
        ]
        assert add_judgements(session, again, by()) == []
        asked = NewInvestigation(
            old_version="v1",
            new_version="v2",
            old_judge="llm-1",
            new_judge="llm-2",
            since=START,
            until=START + week,
            now_since=START + week,
            now_until=START + 2 * week,
            anchors=200,
        )
        detector = get_detector(session, detector_id)
        begin_investigation(session, detector, asked, by())
    text = visitor.get(path).text
    text = text[text.index("System, judge or mix?") :]
    assert "moved by \N{MINUS SIGN}50.0 points, from 100 % of 40 queries" in text
    assert "The judge moved." in text
    assert "No move of the system is shown." in text
    assert "No move of the mix is shown." in text
    assert "over all investigations" in text
