"""Audits to look at, and what is stored of them, read by plain SQL and from files."""

import csv
import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from flask import Flask
from sqlalchemy import text
from sqlalchemy.orm import Session

from tests.conftest import Clock, by
from tests.web.conftest import Shelf, Visitor
from tracker.services.labelling.auditing.audit_draws import draw_next
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.labelling.auditing.audits import create_audit
from tracker.services.labelling.labels import NewLabel, add_label
from tracker.storage.database import Database
from tracker.storage.detectors import find_detector
from tracker.storage.labelling.audits import Audit
from tracker.storage.queries.queries import Query

CLASSES = ["ewe", "ram"]
SEED = "s"
# Of so many queries so many are labelled beforehand, and so many by the audit.
QUERIES, KNOWN, LABELS = 400, 3, 130


@dataclass(frozen=True)
class Farm:
    """Where audits are begun and labelled without a page, each of its own kind."""

    shelf: Shelf
    database: Database
    clock: Clock

    def build(self) -> str:
        """One that can choose: of a rare class, with confidences that say something."""
        sure = (0.6, 0.99, 0.99, 0.99, 0.995)
        rows = [
            {"predicted": CLASSES[n % 6 == 0], "confidence": sure[n % 5]}
            for n in range(QUERIES)
        ]
        return self._carry_out(rows, aim="ram", half_width=0.05)

    def build_idle(self) -> str:
        """One that has nothing to go by: both classes are alike."""
        rows = [{"predicted": CLASSES[n % 2]} for n in range(QUERIES)]
        return self._carry_out(rows, half_width=0.05)

    def build_targeted(self) -> str:
        """One of a class, against a target."""
        rows = [
            {"predicted": CLASSES[n % 3 == 0], "confidence": 0.9}
            for n in range(QUERIES)
        ]
        return self._carry_out(rows, aim="ram", target=0.8)

    def _carry_out(self, rows: list[dict[str, Any]], **asked: Any) -> str:
        """Two draws stay open at the end, and one label comes otherwise on the way."""
        for number, row in enumerate(rows):
            row["key"] = f"k{number}"
        truths = {row["key"]: truth_of(row, n) for n, row in enumerate(rows)}
        for row in rows[:KNOWN]:
            row["label"] = truths[row["key"]]
        detector_id = self.shelf.add_detector(classes=CLASSES, question="Which one?")
        self.shelf.add_queries(detector_id, rows)
        with self.database.write() as session:
            detector = find_detector(session, 1)
            assert detector is not None
            new = NewAudit(name="Autumn", seed=SEED, **asked)
            audit = create_audit(session, detector, new, by("eve", self.clock()))
            for number in range(0, LABELS, 10):
                self._label(session, audit, ("ann", "ben")[number % 3 == 0], truths)
                if number == 70:
                    asked = session.query(Query).order_by(Query.id.desc())
                    self._give(session, "eve", truths, asked)
            self._label(session, audit, "ann", truths, left_open=(1, 3))
        return "/audits/aud_1"

    def _label(
        self,
        session: Session,
        audit: Audit,
        name: str,
        truths: dict[str, str],
        *,
        left_open: Sequence[int] = (),
    ) -> None:
        count = 6 if left_open else 10
        draws = draw_next(session, audit, by(name, self.clock()), count=count)
        for place, draw in enumerate(draws):
            if place not in left_open:
                asked = session.query(Query).filter_by(id=draw.query_id)
                self._give(session, name, truths, asked)

    def _give(
        self, session: Session, name: str, truths: dict[str, str], asked: Any
    ) -> None:
        query = asked.filter_by(label=None).first()
        answer = NewLabel(label=truths[query.key])
        add_label(session, query.id, answer, by(name, self.clock()))


def truth_of(row: dict[str, Any], number: int) -> str:
    """Surer predictions are more often right; some queries nobody can tell."""
    if number % 41 == 7:
        return "UNCLEAR"
    is_right = number * 0.618 % 1 < row.get("confidence", 0.8)
    return str(row["predicted"] if is_right else CLASSES[row["predicted"] == "ewe"])


def ask(app: Flask, keys: dict[str, str], path: str) -> Any:
    headers = {"Authorization": f"Bearer {keys['viewer']}"}
    return app.test_client().get(f"/api/v1{path}", headers=headers).get_json()


def draws_of(visitor: Visitor, address: str) -> list[dict[str, str]]:
    """The file with the draws."""
    found = visitor.client.get(f"{address}/draws.csv")
    return list(csv.DictReader(io.StringIO(found.text)))


def read_sql(database: Database, statement: str) -> list[Any]:
    with database.read() as session:
        return list(session.execute(text(statement)))


def drawable(database: Database, told: Sequence[dict[str, str]]) -> int:
    """Count the queries whose label was not known otherwise by the last round."""
    drawn = {int(row["query"][3:]) for row in told}
    return QUERIES - len(known_by(database, rounds_of(database)[-1][1]) - drawn)


def known_by(database: Database, instant: str) -> set[int]:
    """The queries that had a label at an instant."""
    rows = read_sql(database, "SELECT query_id, created_at FROM labels")
    return {query for query, at in rows if str(at) < instant}


def rounds_of(database: Database) -> list[tuple[dict[str, Any], str]]:
    """What was written down before each round, and when."""
    rows = read_sql(
        database, "SELECT frozen, began_at FROM audit_rounds ORDER BY number"
    )
    return [(json.loads(frozen), str(at)) for frozen, at in rows]


def counts_of(
    told: Sequence[dict[str, str]], known: set[int], database: Database
) -> tuple[dict[str, tuple[int, int]], int]:
    """Return right and labelled by class, and how many are unclear."""
    rows = read_sql(database, "SELECT id, predicted, label FROM queries")
    of_draws = {int(row["query"][3:]) for row in told if row["label"]}
    labelled = [(said, x) for q, said, x in rows if q in of_draws | known]
    return {
        name: (
            sum(said == x == name for said, x in labelled),
            sum(x == name for _, x in labelled),
        )
        for name in CLASSES
    }, sum(x == "UNCLEAR" for _, x in labelled)
