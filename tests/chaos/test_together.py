"""Eight people label the same queries at once: all labels kept, one of each current."""

import csv
import io
import random
import time
from collections import Counter
from pathlib import Path

from tests.chaos.load import PLAIN, at_once
from tests.chaos.service import Service
from tests.chaos.verdict import command
from tests.conftest import IS_LONG

PEOPLE = 8
QUERIES = 200 if IS_LONG else 40


def test_eight_people_label_the_same_queries_at_once(
    durable_url: str, tmp_path: Path, record_figure
) -> None:
    with Service(durable_url, tmp_path) as service:
        service.ask("POST", "/detectors", {"name": PLAIN, "question": "Closed?"})
        rows = [{"key": f"k{n}", "predicted": "YES"} for n in range(QUERIES)]
        service.ask("POST", f"/detectors/{PLAIN}/import", {"items": rows})
        listed = service.ask("GET", f"/detectors/{PLAIN}/queries?limit=500").json
        ids = [query["id"] for query in listed["items"]]
        seconds: list[float] = []
        given: dict[str, str] = {}

        def label(person: int) -> Counter[int]:
            statuses: Counter[int] = Counter()
            for query in ids:
                begun = time.monotonic()
                truth = random.Random(f"{person} {query}").choice(["YES", "NO"])
                answer = service.ask(
                    "POST", f"/queries/{query}/labels", {"label": truth}
                )
                statuses[answer.status] += 1
                seconds.append(time.monotonic() - begun)
                given[answer.json["id"]] = truth
            return statuses

        statuses = sum(at_once(PEOPLE, label), Counter())
        histories = [
            service.ask("GET", f"/queries/{query}/labels").json["items"]
            for query in ids
        ]
        estimate = service.ask("GET", f"/detectors/{PLAIN}/estimate").json
        exported = command(service, "export", PLAIN, "--what", "labels").stdout
        recounted = command(service, "recompute", "--all")
        assert service.mistakes() == []

    seconds.sort()
    p99 = seconds[int(0.99 * len(seconds))]
    record_figure(f"{len(seconds):,} labels by {PEOPLE} people, p99 {p99:.2f} s")
    assert len(ids) == QUERIES
    assert statuses == {201: PEOPLE * QUERIES}
    assert sum(map(len, histories)) == PEOPLE * QUERIES
    assert {one["id"]: one["label"] for past in histories for one in past} == given
    for past in histories:
        assert [one["is_current"] for one in past] == [True] + [False] * (PEOPLE - 1)
    current = Counter(past[0]["label"] for past in histories)
    assert {one["class"]: one["labelled"] for one in estimate["classes"]} == current
    rows = list(csv.DictReader(io.StringIO(exported)))
    shown = Counter(row["key"] for row in rows if row["is_current"] == "true")
    assert shown == {f"k{n}": 1 for n in range(QUERIES)}
    assert recounted.exit_code == 0, recounted.output
    if IS_LONG:
        assert p99 < 2
