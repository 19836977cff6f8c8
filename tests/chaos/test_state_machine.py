"""SQLite, PostgreSQL and ten lines of Python agree, whatever is done in what order."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import count
from typing import Any, ClassVar

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.conftest import DATABASES, IS_LONG, START, by
from tests.services.folds import compute_fold
from tracker.app import create_app
from tracker.errors import ConflictError
from tracker.jobs.loop import Loop
from tracker.jobs.recompute import Recompute
from tracker.services.estimates.fold import Fold, store_folds
from tracker.services.estimates.recount import recount
from tracker.services.people.keys import create_key
from tracker.settings import Settings
from tracker.storage.database import open_database
from tracker.storage.detectors import find_detector_by_name
from tracker.storage.estimates.pending import plan_recomputes
from tracker.storage.tasks import RECOMPUTE, take

PROFILE = settings(
    max_examples=100 if IS_LONG else 5,
    stateful_step_count=50 if IS_LONG else 20,
    derandomize=not IS_LONG,
    database=None,
    deadline=None,
    phases=[Phase.generate, Phase.shrink] if IS_LONG else [Phase.generate],
    suppress_health_check=list(HealthCheck),
)
KEYS = st.sampled_from([f"k{number}" for number in range(12)])
CLASSES = st.sampled_from(["YES", "NO"])
TRUTHS = st.sampled_from(["YES", "NO", "UNCLEAR"])
ROWS = st.lists(
    st.fixed_dictionaries(
        {"key": KEYS, "predicted": CLASSES}, optional={"label": TRUTHS}
    ),
    min_size=1,
    max_size=8,
    unique_by=lambda row: row["key"],
)


_NUMBERS = count()


class Model:
    """What the product should know: predictions, and all labels of each query."""

    def __init__(self) -> None:
        self.predicted: dict[str, str] = {}
        self.labels: dict[str, list[str]] = {}

    def log(self, key: str, predicted: str, label: str | None = None) -> int:
        if key in self.predicted:
            known = self.predicted[key] == predicted
            return 200 if known and label in {None, *self.labels[key]} else 409
        self.predicted[key], self.labels[key] = predicted, [label] if label else []
        return 201

    def import_rows(self, rows: list[dict[str, str]]) -> int:
        if any(
            self.predicted.get(r["key"], r["predicted"]) != r["predicted"] for r in rows
        ):
            return 422
        for row in rows:
            self.log(row["key"], row["predicted"])
            if "label" in row and self.labels[row["key"]][-1:] != [row["label"]]:
                self.labels[row["key"]].append(row["label"])
        return 200

    def count(self) -> Counter[tuple[str, bool]]:
        """How many queries have which current label, and were predicted so."""
        return Counter(
            (given[-1], given[-1] == self.predicted[key])
            for key, given in self.labels.items()
            if given
        )


@dataclass(frozen=True)
class Answer:
    """What both databases must say alike."""

    status_code: int
    content: Any


class Side:
    """The product over one database, which can be closed and opened again."""

    def __init__(
        self, url: str, chosen: Settings, clock: Callable[[], datetime]
    ) -> None:
        self._url, self._settings, self._clock = url, chosen, clock
        self.database = open_database(url)
        with self.database.write() as session:
            self._key = create_key(session, "k", "editor", by(at=START))
        self.late: list[Fold] = []
        self.ids: dict[str, str] = {}
        self.restart()

    def restart(self) -> None:
        self.database.close()
        self.database = open_database(self._url)
        app = create_app(self._settings, self.database, clock=self._clock)
        self._client = app.test_client()

    def ask(self, method: str, path: str, body: Any = None) -> Answer:
        headers = {"Authorization": f"Bearer {self._key}"}
        answer = self._client.open(
            f"/api/v1{path}", method=method, json=body, headers=headers, buffered=True
        )
        if not answer.is_json:
            return Answer(answer.status_code, answer.data)
        # PostgreSQL leaves out the numbers of what it refused; SQLite does not.
        content = {k: v for k, v in answer.json.items() if k not in {"id", "query"}}
        if answer.status_code == 201 and path.endswith("/queries"):
            self.ids[body["key"]] = answer.json["id"]
        return Answer(answer.status_code, content)

    def label(self, key: str, label: str) -> Answer:
        return self.ask("POST", f"/queries/{self.ids[key]}/labels", {"label": label})

    def run_job(self, worker: str) -> int:
        handler = Recompute(database=self.database, worker=worker, clock=self._clock)
        return Loop(self.database, worker, [handler], self._clock).run()

    def begin_fold(self, detector: str) -> None:
        """Take up the detector, compute, and stop there as one who is paused."""
        with self.database.write() as session:
            plan_recomputes(session, at=self._clock())
            take(session, RECOMPUTE, "paused", at=self._clock(), limit=64)
        with self.database.read() as session:
            found = find_detector_by_name(session, detector)
            assert found is not None
            fold = compute_fold(session, found)
        self.late += [fold] if fold else []

    def end_folds(self) -> list[bool]:
        return [self._store(self.late.pop()) for _ in range(len(self.late))]

    def _store(self, fold: Fold) -> bool:
        try:
            with self.database.write() as session:
                store_folds(
                    session,
                    [fold],
                    worker="paused",
                    computed_at=self._clock(),
                    seconds=1,
                )
        except ConflictError:
            return False
        return True

    def recount(self, detector: str) -> list[Any]:
        with self.database.read() as session:
            found = find_detector_by_name(session, detector)
            assert found is not None
            return recount(session, found)


class Machine(RuleBasedStateMachine):
    """Does the same to both sides and to the model."""

    sides: ClassVar[list[Side]]
    now: ClassVar[datetime] = START

    @initialize()
    def begin(self) -> None:
        self.name = f"d{next(_NUMBERS)}"
        self.model = Model()
        self.history = b""
        for side in self.sides:
            side.late.clear()
            side.ids.clear()
        self.both("POST", "/detectors", {"name": self.name, "question": "Is it?"})

    def both(self, method: str, path: str, body: Any = None) -> Any:
        """Ask both, which answer the same; give the answer."""
        return self.each(lambda side: side.ask(method, path, body))

    def each(self, does: Callable[[Side], Any]) -> Any:
        """Do it to both, with the same outcome."""
        Machine.now += timedelta(milliseconds=1)
        first, second = (does(side) for side in self.sides)
        assert first == second
        return first

    @rule(key=KEYS, predicted=CLASSES, label=st.none() | TRUTHS)
    def log(self, key: str, predicted: str, label: str | None) -> None:
        body = {"key": key, "predicted": predicted}
        body |= {"label": label} if label else {}
        answer = self.both("POST", f"/detectors/{self.name}/queries", body)
        assert answer.status_code == self.model.log(key, predicted, label)

    @precondition(lambda self: self.sides[0].ids)
    @rule(data=st.data(), label=TRUTHS)
    def give_a_label(self, data: st.DataObject, label: str) -> None:
        key = data.draw(st.sampled_from(sorted(self.sides[0].ids)))
        assert self.each(lambda side: side.label(key, label)).status_code == 201
        self.model.labels[key].append(label)

    @rule(rows=ROWS)
    def import_a_file(self, rows: list[dict[str, str]]) -> None:
        path = f"/detectors/{self.name}/import"
        answer = self.both("POST", path, {"items": rows})
        assert answer.status_code == self.model.import_rows(rows)

    @rule(worker=st.sampled_from(["w1", "w2"]))
    def run_the_job(self, worker: str) -> None:
        self.each(lambda side: side.run_job(worker))

    @rule()
    def begin_a_fold_and_pause(self) -> None:
        self.each(lambda side: side.begin_fold(self.name))

    @rule()
    def end_the_folds_that_were_paused(self) -> None:
        self.each(Side.end_folds)

    @rule(seconds=st.sampled_from([-86_400, -3_600, 1, 6]))
    def set_the_clock(self, seconds: int) -> None:
        Machine.now += timedelta(seconds=seconds)

    @rule()
    def restart(self) -> None:
        self.each(Side.restart)

    @invariant()
    def the_estimate_is_that_of_the_model(self) -> None:
        answer = self.both("GET", f"/detectors/{self.name}/estimate").content
        counts = self.model.count()
        assert answer["unclear"] == counts["UNCLEAR", False]
        for row in answer["classes"]:
            right, wrong = counts[row["class"], True], counts[row["class"], False]
            assert (row["correct"], row["labelled"]) == (right, right + wrong)

    @invariant()
    def the_history_only_grows(self) -> None:
        path = f"/detectors/{self.name}/history?format=csv&method=*"
        found = self.both("GET", path).content
        assert found.startswith(self.history)
        self.history = found

    def teardown(self) -> None:
        """In the end the job has folded everything, and a recount agrees."""
        # Where the clock was set back, the first run notices that, and the hold of a
        # fold that was paused ends before the second one.
        for _ in range(2):
            Machine.now += timedelta(seconds=6)
            self.run_the_job("last")
        self.the_history_only_grows()
        counts = self.model.count()
        scored = sum(n for (label, _), n in counts.items() if label != "UNCLEAR")
        newest = self.both("GET", f"/detectors/{self.name}/history?method=exact")
        items = newest.content["items"] or [{"labels": 0}]
        assert items[-1]["labels"] == scored
        assert self.each(lambda side: side.recount(self.name)) == []


def test_both_databases_and_a_model_agree(
    new_database_url: Callable[[str], str], settings: Settings
) -> None:
    Machine.sides = [
        Side(new_database_url(kind), settings, lambda: Machine.now)
        for kind in DATABASES
    ]
    try:
        run_state_machine_as_test(Machine, settings=PROFILE)
    finally:
        for side in Machine.sides:
            side.database.close()
