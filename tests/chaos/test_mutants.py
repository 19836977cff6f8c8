"""The harness notices where a guarantee is missing; else it would prove nothing."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.chaos.conftest import new_durable_url
from tests.chaos.load import Ledger, Profile, run
from tests.chaos.postgres import Postgres
from tests.chaos.service import MUTATION, Service
from tests.chaos.verdict import Watcher, find_problems
from tests.conftest import IS_LONG
from tests.processes import ROOT, clean_environ

# What each mutant does to the labels, and a load and the workers under which it shows.
MUTANTS = {
    "acknowledge_before_commit": ("lost", Profile(200, 8, 1, 1), 2),
    "store_a_known_key_again": ("doubled", Profile(100, 8, 0, 1), 2),
    # A late fold writes its counts over newer ones; keys refuse its snapshots.
    "let_workers_write_at_will": ("missing", Profile(200, 4, 0, 1), 2),
    # A second worker, with a watermark of its own, may fold what the first passed over.
    "fold_by_a_watermark": ("missing", Profile(60, 4, 0, 1), 1),
}
# On SQLite one writer excludes the others, so that no transaction commits late.
SHORT = {
    ("acknowledge_before_commit", "sqlite"),
    ("store_a_known_key_again", "sqlite"),
    ("let_workers_write_at_will", "postgresql"),
    ("fold_by_a_watermark", "postgresql"),
}
LONG = {(mutant, kind) for mutant in MUTANTS for kind in ("sqlite", "postgresql")} - {
    ("fold_by_a_watermark", "sqlite")
}


@pytest.mark.parametrize("mutant", [*MUTANTS, "commit_late"])
def test_every_mutant_finds_what_it_takes_out(tmp_path: Path, mutant: str) -> None:
    environ = clean_environ(
        TRACKER_TEST_MUTANT=mutant,
        TRACKER_DATA_DIR=str(tmp_path),
        PYTHONPATH=f"{MUTATION}:{ROOT}",
    )
    begun = subprocess.run(
        [sys.executable, "-c", ""],
        env=environ,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (begun.returncode, begun.stderr) == (0, "")


@pytest.mark.parametrize(("mutant", "kind"), sorted(LONG if IS_LONG else SHORT))
def test_what_is_missing_is_noticed(
    request: pytest.FixtureRequest, tmp_path: Path, mutant: str, kind: str
) -> None:
    expected, profile, workers = MUTANTS[mutant]
    ledger = Ledger()
    url = new_durable_url(request, tmp_path, kind)
    with Service(url, tmp_path, workers=workers, mutant=mutant) as service:
        watcher = Watcher(service)

        def look() -> None:
            watcher.look()
            (tmp_path / "data" / "kills-are-over").touch()

        # In the middle of requests a kill may come when none is answered and not kept.
        run(service, ledger, profile, after_kill=look, is_silent=True)
        problems = find_problems(service, ledger, watcher)

    assert expected in {problem.partition(":")[0] for problem in problems}


def test_labels_that_commit_late_are_folded_in_all_the_same(
    postgres: Postgres, tmp_path: Path
) -> None:
    # What makes the mutant above go wrong does no harm to the program as it is.
    ledger = Ledger()
    url = postgres.create_database()
    with Service(url, tmp_path, mutant="commit_late") as service:
        watcher = Watcher(service)
        run(service, ledger, MUTANTS["fold_by_a_watermark"][1])
        assert find_problems(service, ledger, watcher) == []
