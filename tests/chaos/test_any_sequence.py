"""The same calls in any order leave the same bits on SQLite and on PostgreSQL.

Each sequence runs on two empty databases with one clock.  All answers are compared as
they come, and in the end every row of every table.  What is counted is counted here
once more, by rules that share nothing with the product but the words.  A sequence that
fails is made smaller until each of its steps is needed.
"""

import hashlib
import json
import random
import secrets
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from hypothesis import HealthCheck, example, given, seed, settings
from hypothesis import strategies as st

from tests.chaos.counted_again import check_rows, count_again
from tests.chaos.sides import DETECTOR, Answer, Side, Tables
from tests.conftest import IS_LONG, START
from tests.databases import PostgresDatabases, SqliteDatabases
from tracker.settings import Settings

SEQUENCES = 10_000 if IS_LONG else 300
PARTS = 2
PROFILE = settings(
    max_examples=SEQUENCES // PARTS,
    database=None,
    deadline=None,
    print_blob=False,
    suppress_health_check=list(HealthCheck),
)
Step = tuple[str, dict[str, Any]]

CLASSES = ("YES", "NO")
VERSIONS = ("v1", "v2")
KEYS = st.sampled_from([f"k{number}" for number in range(10)])
# The number of a query among those that were logged.
PLACES = st.integers(0, 11)
PREDICTED = st.sampled_from([*CLASSES, "NO_ANSWER"])
TRUTHS = st.sampled_from([*CLASSES, "UNCLEAR"])
PEOPLE = st.sampled_from(["ann", "ben", "cem"])
_QUERY = {
    "input": st.sampled_from(["a", "b", "c"]),
    "group": st.sampled_from(["g", "h"]),
    "version": st.sampled_from(VERSIONS),
    "confidence": st.sampled_from([0.25, 0.5, 0.75]),
    "metadata": st.sampled_from([{"camera": "north"}, {"camera": "south", "n": 1}]),
    "asked_at": st.sampled_from(
        [(START - timedelta(days=days)).isoformat() for days in (0, 1, 30)]
    ),
}
_SAMPLING = st.sampled_from(["random", "targeted", "unstated"])
_LABEL = {"label": TRUTHS, "sampling": _SAMPLING}
_BY = {"labeler": PEOPLE, "note": st.just("n")}


def _some(
    needed: dict[str, Any], optional: dict[str, Any]
) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries(needed, optional=optional)


_ROW = st.one_of(
    _some({"key": KEYS, "predicted": PREDICTED}, _QUERY | _LABEL | _BY),
    _some({"key": KEYS, "label": TRUTHS}, _BY | {"sampling": _SAMPLING}),
    _some({"key": KEYS, "predicted": PREDICTED, "input": _QUERY["input"]}, _LABEL),
)
_CHANGES: dict[str, list[Any]] = {
    "label_sampling": [None, "random", "all", "targeted"],
    "labels_wanted": [1, 2, 3],
    "consensus": ["majority", "newest"],
    "group_by": [None, "metadata.camera"],
    "target": [None, 0.5, 0.9],
    "measure": ["balanced", "overall", "recall:YES"],
    "method": ["joint", "exact", "anytime"],
    "class_shares": [None, {"YES": 0.3, "NO": 0.7}],
    "queue_rate": [1, 0.5],
    "gold_rate": [0, 0.5],
    "confidence_level": [0.9, 0.95],
    "production_version": [None, *VERSIONS],
    "slices": [[], ["metadata.camera"]],
    "classes": [[*CLASSES, "MAYBE"], [*CLASSES]],
    "text_field": [None, "camera"],
}
_READS = (
    "estimate",
    "estimate?version=*",
    "estimate?version=v1&include_targeted=true",
    "estimate?population=unstated",
    "estimate?window=7d",
    "estimate?where=metadata.camera:north",
    "history?format=csv&method=*&measure=*",
    "queries?limit=100",
    "queries?sort=-confidence",
    "queries?wrong=true",
    "labels?format=csv",
    "slices?by=metadata.camera",
    "thresholds",
    "calibration",
    "cohorts",
    "comparison?old=v1&new=v2",
    "plan?width=0.1",
    "labelers",
    "judges",
    "rechecks",
    "gold",
    "events",
    "assignments",
)
CALLS: dict[str, st.SearchStrategy[dict[str, Any]]] = {
    "log": _some({"key": KEYS, "predicted": PREDICTED}, _QUERY | _LABEL),
    "label": _some(
        {"place": PLACES, "label": TRUTHS},
        {"sampling": _SAMPLING, "settles": st.just(value=True)} | _BY,
    ),
    "import": st.fixed_dictionaries(
        {
            "rows": st.lists(_ROW, min_size=1, max_size=8),
            "on_error": st.sampled_from(["reject", "skip"]),
        }
    ),
    "change": st.sampled_from(sorted(_CHANGES)).flatmap(
        lambda name: st.fixed_dictionaries({name: st.sampled_from(_CHANGES[name])})
    ),
    "complete": _some({"place": PLACES, "input": _QUERY["input"]}, {}),
    "erase": _some({"place": PLACES}, {}),
    "tag": _some(
        {"place": PLACES, "tags": st.sampled_from([[], ["t"], ["u", "t"]])}, {}
    ),
    "mark gold": _some({"place": PLACES, "label": TRUTHS}, {}),
    "unmark gold": _some({"place": PLACES}, {}),
    "draw rechecks": _some({"count": st.integers(1, 3)}, {}),
    "recheck": _some({"place": PLACES, "label": TRUTHS, "labeler": PEOPLE}, {}),
    "judge": _some({"key": KEYS, "said": st.sampled_from(CLASSES)}, {}),
    "ask for labels": _some({"labeler": PEOPLE, "labels": st.integers(1, 3)}, {}),
    "next": _some(
        {"labeler": PEOPLE},
        {"queue": st.sampled_from(["random", "targeted", "disagreements", "recheck"])},
    ),
    "read": st.fixed_dictionaries({"path": st.sampled_from(_READS)}),
    "recompute": st.just({}),
    "run the job": st.fixed_dictionaries({"worker": st.sampled_from(["w1", "w2"])}),
    "begin a fold": st.just({}),
    "end the folds": st.just({}),
    "delete old": st.just({}),
    "set the clock": st.fixed_dictionaries(
        {"seconds": st.sampled_from([-86_400, -3_600, 1, 6, 100_000])}
    ),
    "restart": st.just({}),
}
# What is done more often than the rest.
_OFTEN = ("log", "label", "import", "import", "label", "log", "change")
STEPS: st.SearchStrategy[list[Step]] = st.lists(
    st.sampled_from([*CALLS, *_OFTEN]).flatmap(
        lambda name: st.tuples(st.just(name), CALLS[name])
    ),
    min_size=6,
    max_size=30,
)

# Labels that are copied by input: both databases write the copies in one order.
COPIED: list[Step] = [
    (
        "import",
        {
            "rows": [
                {"key": "k6", "predicted": "YES", "input": "a"},
                {"key": "k8", "predicted": "YES", "input": "b"},
                {"key": "k9", "predicted": "NO", "input": "b", "version": "v1"},
                {"key": "k1", "predicted": "NO", "input": "a", "version": "v2"},
            ],
            "on_error": "reject",
        },
    ),
    (
        "import",
        {
            "rows": [
                {"key": "k9", "label": "UNCLEAR"},
                {"key": "k6", "label": "YES"},
            ],
            "on_error": "reject",
        },
    ),
]


class Pair:
    """Does the same to both sides, and keeps what was acknowledged."""

    def __init__(self, sides: list[Side]) -> None:
        self.sides = sides
        self.now = START
        self.acknowledged = 0
        self.queries: list[str] = []
        self.history = b""

    def begin(self) -> None:
        """Forget everything, and make the detector."""
        self.now, self.acknowledged, self.queries, self.history = START, 0, [], b""
        for side in self.sides:
            side.begin()
        made = self.ask("POST", "/detectors", {"name": DETECTOR, "question": "Is it?"})
        assert made.status == 201

    def each(self, does: Callable[[Side], Any]) -> Any:
        """Do it to both, with the same outcome."""
        self.now += timedelta(milliseconds=1)
        first, second = (does(side) for side in self.sides)
        assert first == second
        sqlite, postgresql = self.sides
        postgresql.set_sequences(sqlite.sequences())
        return first

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        answer: Answer = self.each(lambda side: side.ask(method, path, body))
        # Whatever a program sends; 409 is a conflict with what others did.
        assert answer.status < 500, answer
        return answer

    def ask_detector(self, method: str, path: str, body: Any = None) -> Answer:
        return self.ask(method, f"/detectors/{DETECTOR}{path}", body)

    def ask_query(
        self, method: str, place: int, path: str, body: Any = None
    ) -> Answer | None:
        if not self.queries:
            return None
        query = self.queries[place % len(self.queries)]
        return self.ask(method, f"/queries/{query}{path}", body)

    def take(self, step: Step) -> None:
        name, values = step
        getattr(self, f"do_{name.replace(' ', '_')}")(**values)

    def do_log(self, **body: Any) -> None:
        answer = self.ask_detector("POST", "/queries", body)
        if answer.status == 201:
            self.queries.append(json.loads(answer.content)["id"])
            self.acknowledged += "label" in body

    def do_label(self, place: int, **body: Any) -> None:
        answer = self.ask_query("POST", place, "/labels", body)
        self.acknowledged += answer is not None and answer.status == 201

    def do_import(self, rows: list[dict[str, Any]], on_error: str) -> None:
        body = {"items": rows}
        answer = self.ask_detector("POST", f"/import?on_error={on_error}", body)
        if answer.status == 200:
            self.acknowledged += json.loads(answer.content)["labels_added"]
            listed = self.ask_detector("GET", "/queries?sort=oldest&limit=100")
            self.queries = [one["id"] for one in json.loads(listed.content)["items"]]

    def do_change(self, **body: Any) -> None:
        self.ask("PATCH", f"/detectors/{DETECTOR}", body)

    def do_complete(self, place: int, **body: Any) -> None:
        self.ask_query("PATCH", place, "", body)

    def do_erase(self, place: int) -> None:
        self.ask_query("DELETE", place, "")

    def do_tag(self, place: int, **body: Any) -> None:
        self.ask_query("PUT", place, "/tags", body)

    def do_mark_gold(self, place: int, **body: Any) -> None:
        self.ask_query("PUT", place, "/gold", body)

    def do_unmark_gold(self, place: int) -> None:
        self.ask_query("DELETE", place, "/gold")

    def do_draw_rechecks(self, **body: Any) -> None:
        self.ask_detector("POST", "/rechecks", body)

    def do_recheck(self, place: int, **body: Any) -> None:
        self.ask_query("POST", place, "/recheck", body)

    def do_judge(self, key: str, said: str) -> None:
        told = {
            "gen_ai.evaluation.name": DETECTOR,
            "gen_ai.evaluation.score.label": said,
            "gen_ai.response.id": key,
        }
        record = {
            "timeUnixNano": str(int(self.now.timestamp()) * 10**9),
            "eventName": "gen_ai.evaluation.result",
            "attributes": [
                {"key": name, "value": {"stringValue": value}}
                for name, value in told.items()
            ],
        }
        logs = {"resourceLogs": [{"scopeLogs": [{"logRecords": [record]}]}]}
        self.ask("POST", "/otlp/v1/logs", logs)

    def do_ask_for_labels(self, **body: Any) -> None:
        self.ask_detector("PUT", "/assignments", body)

    def do_next(self, labeler: str, queue: str = "random") -> None:
        self.ask_detector("GET", f"/next?labeler={labeler}&queue={queue}")

    def do_read(self, path: str) -> None:
        self.ask_detector("GET", f"/{path}")

    def do_recompute(self) -> None:
        self.ask_detector("POST", "/recompute")
        self.check_history()

    def do_run_the_job(self, worker: str) -> None:
        self.each(lambda side: side.run_job(worker))
        self.check_history()

    def do_begin_a_fold(self) -> None:
        self.each(Side.begin_fold)

    def do_end_the_folds(self) -> None:
        self.each(Side.end_folds)
        self.check_history()

    def do_delete_old(self) -> None:
        self.each(Side.delete_old)

    def do_set_the_clock(self, seconds: int) -> None:
        self.now += timedelta(seconds=seconds)

    def do_restart(self) -> None:
        self.each(Side.restart)

    def check_history(self) -> None:
        """The history only grows."""
        path = "/history?format=csv&method=*&measure=*"
        found = self.ask_detector("GET", path).content
        assert found.startswith(self.history)
        self.history = found

    def finish(self) -> None:
        """In the end the job has folded everything, and both recounts agree."""
        # Where the clock was set back, the first run notices that, and the hold of a
        # fold that was paused ends before the second one.
        for _ in range(2):
            self.now += timedelta(seconds=90)
            self.do_run_the_job("last")
        assert self.each(Side.recount) == []
        tables: Tables = self.each(Side.read_tables)
        check_rows(tables, self.acknowledged)
        for version, population, counts in count_again(tables):
            query = f"version={version}&population={population}"
            answer = self.ask_detector("GET", f"/estimate?{query}")
            told = json.loads(answer.content)
            rows = {
                row["class"]: (row["correct"], row["labelled"])
                for row in told["classes"]
            }
            assert {name: counts.get(name, (0, 0)) for name in rows} == rows
            assert told["labels"] == sum(n for name, (_, n) in counts.items())


@pytest.fixture
def pair(
    sqlite_databases: SqliteDatabases,
    postgres_databases: PostgresDatabases,
    settings: Settings,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Pair]:
    """Both sides, which draw the same secrets and have one clock."""
    made = Pair([])
    both = sqlite_databases, postgres_databases
    made.sides = [Side(databases, settings, lambda: made.now) for databases in both]

    def draw(length: int = 32) -> str:
        digest = hashlib.shake_256(str(made.now).encode())
        return digest.hexdigest(length)

    monkeypatch.setattr(secrets, "token_hex", draw)
    monkeypatch.setattr(random, "random", lambda: 0.5)
    yield made
    for side in made.sides:
        side.close()


# A failure takes minutes to be made small.
@pytest.mark.timeout(36_000 if IS_LONG else 1_200)
@pytest.mark.parametrize("part", range(PARTS))
def test_any_sequence_of_calls_leaves_the_same_bits(pair: Pair, part: int) -> None:
    @seed(random.randrange(2**32) if IS_LONG else part)
    @PROFILE
    @example(COPIED)
    @given(STEPS)
    def run(steps: list[Step]) -> None:
        pair.begin()
        for step in steps:
            pair.take(step)
        pair.finish()

    run()
