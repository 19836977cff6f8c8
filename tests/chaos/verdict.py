"""Whether anything was lost, doubled or wrong; counted from what was acknowledged."""

import csv
import io
import itertools
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any

from click.testing import CliRunner, Result
from scipy import stats

from tests.chaos.load import CLASSES, CORRECTED, PLAIN, Ledger
from tests.chaos.service import Service
from tracker.cli import main

_PATIENCE_SECONDS = 60.0


class Watcher:
    """Looks at the history now and then: what was there must stay, to the byte."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._seen: dict[str, bytes] = {}
        self.problems: list[str] = []
        self.looks = 0

    def look(self) -> None:
        for detector in (PLAIN, CORRECTED):
            now = command(self._service, "export", detector, "--method", "*")
            before = self._seen.get(detector, b"")
            if not now.stdout_bytes.startswith(before):
                self.problems.append(f"changed: the history of {detector}")
            self._seen[detector] = now.stdout_bytes
        self.looks += 1


def command(service: Service, *words: str) -> Result:
    """Run a command of the product over the database, in this process."""
    kept = {k: v for k, v in service.environ.items() if k.startswith("TRACKER_")}
    return CliRunner(env=kept).invoke(main, list(words))


def find_problems(service: Service, ledger: Ledger, watcher: Watcher) -> list[str]:
    """Everything that should not be so, each with a leading word for its kind."""
    problems = [*ledger.problems]
    for detector in (PLAIN, CORRECTED):
        expected = Counter(_cells(ledger.of(detector)))
        _wait_for_history(service, detector, expected)
        problems += _compare_labels(service, detector, ledger.of(detector))
        problems += _compare_estimate(service, detector, expected)
        problems += _compare_history(service, detector, expected)
    watcher.look()
    problems += watcher.problems
    for words in (["recompute", "--all"], ["doctor"]):
        done = command(service, *words)
        if done.exit_code != 0:
            problems.append(f"miscounted: {words[0]} said {done.output[-500:]}")
    return problems + [f"mistake: {line}" for line in service.mistakes()]


def _cells(rows: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    for row in rows:
        if row["label"] in CLASSES:
            yield row["label"], "labelled"
            if row["label"] == row["predicted"]:
                yield row["label"], "correct"


def _compare_labels(
    service: Service, detector: str, rows: list[dict[str, Any]]
) -> Iterator[str]:
    exported = command(service, "export", detector, "--what", "labels").stdout
    stored: dict[str, list[dict[str, str]]] = {}
    for row in csv.DictReader(io.StringIO(exported)):
        if row["is_current"] == "true":
            stored.setdefault(row["key"], []).append(row)
    expected = {row["key"]: row for row in rows}
    for name, keys in (
        ("lost", expected.keys() - stored.keys()),
        ("doubled", stored.keys() - expected.keys()),
        ("doubled", {key for key, found in stored.items() if len(found) > 1}),
        (
            "wrong",
            {
                key
                for key in expected.keys() & stored.keys()
                if any(
                    stored[key][0][part] != expected[key][part]
                    for part in ("label", "predicted")
                )
            },
        ),
    ):
        if keys:
            yield f"{name}: {len(keys)} labels of {detector}, {sorted(keys)[:5]}"


def _compare_estimate(
    service: Service, detector: str, expected: Counter[tuple[str, str]]
) -> Iterator[str]:
    answer = service.ask("GET", f"/detectors/{detector}/estimate")
    if answer.status != 200:
        yield f"miscounted: the estimate was answered by {answer.content[:300]!r}"
        return
    for row in answer.json["classes"]:
        correct, labelled = _pair(expected, row["class"])
        if (row["correct"], row["labelled"]) != (correct, labelled):
            yield f"miscounted: {detector}, {row} is not {correct} of {labelled}"
        # By another way than ours: the quantiles of the beta distribution.
        low = stats.beta.ppf(0.025, correct, labelled - correct + 1) if correct else 0
        wrong = labelled - correct
        high = stats.beta.ppf(0.975, correct + 1, wrong) if wrong else 1
        if labelled and max(abs(row["low"] - low), abs(row["high"] - high)) > 1e-9:
            yield f"miscounted: {detector}, {row} is not from {low} to {high}"


def _pair(expected: Counter[tuple[str, str]], name: str) -> tuple[int, int]:
    return expected[name, "correct"], expected[name, "labelled"]


def _history(service: Service, detector: str) -> list[dict[str, str]]:
    words = ["export", detector, "--method", "exact"]
    return list(csv.DictReader(io.StringIO(command(service, *words).stdout)))


def _newest(rows: list[dict[str, str]]) -> dict[str, tuple[int, int]]:
    return {row["scope"]: (int(row["correct"]), int(row["labelled"])) for row in rows}


def _wait_for_history(
    service: Service, detector: str, expected: Counter[tuple[str, str]]
) -> None:
    """Wait until the workers have folded everything in, but not for ever."""
    deadline = time.monotonic() + (_PATIENCE_SECONDS if not service.mutant else 5.0)
    total = sum(expected[name, "labelled"] for name in CLASSES)
    while time.monotonic() < deadline:
        rows = _history(service, detector)
        if not total or (rows and int(rows[-1]["labels"]) == total):
            return
        time.sleep(0.3)


def _compare_history(
    service: Service, detector: str, expected: Counter[tuple[str, str]]
) -> Iterator[str]:
    rows = _history(service, detector)
    newest = _newest(rows)
    for name in CLASSES:
        pair = _pair(expected, name)
        if newest.get(name, (0, 0)) != pair:
            yield f"missing: the history of {detector} ends with {newest}, not {pair}"
    if detector == PLAIN:
        # A label that is never replaced makes one step up.
        steps = [int(row["labels"]) for row in rows if row["scope"] == "balanced"]
        if any(after <= before for before, after in itertools.pairwise(steps)):
            yield f"doubled: snapshots of {detector}"
        if steps[:100] != list(range(1, 1 + min(100, len(steps)))):
            yield f"missing: of the first 100 snapshots of {detector}: {steps[:100]}"
