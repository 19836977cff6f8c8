"""Rounds of a published study (see tests/stats), and a short way to add a study."""

import csv
from pathlib import Path
from typing import Any

from tests.conftest import START, by
from tests.services.conftest import Bench
from tracker.services.labelling.studies import add_study, parse_study
from tracker.storage.labelling.studies import Study

IRIS = Path(__file__).parents[1] / "stats" / "resampling.csv"
SEEDS = [{"accuracy": share} for share in (0.91, 0.93, 0.9, 0.94, 0.92)]


def iris() -> list[dict[str, float]]:
    with IRIS.open(newline="") as file:
        return [
            {name: float(cell) for name, cell in row.items()}
            for row in csv.DictReader(file)
        ]


def add(bench: Bench, rounds: list[dict[str, Any]], **more: Any) -> tuple[Study, bool]:
    said = {"name": "tree", "kind": "bootstrap", **more}
    new = parse_study({**said, "rounds": rounds})
    with bench.database.write() as session:
        detector = bench.attached(session)
        return add_study(session, detector, new, by("carol", START))
