"""Labels keep arriving while web server and workers are killed again and again."""

import time
from pathlib import Path

import pytest

from tests.chaos.load import Ledger, Profile, run
from tests.chaos.service import Service
from tests.chaos.verdict import Watcher, find_problems
from tests.conftest import IS_LONG

PROFILES = (
    {
        "in batches": Profile(labels=100_000, clients=4, kills=20, batch=100),
        "one by one": Profile(labels=10_000, clients=8, kills=20, batch=1),
    }
    if IS_LONG
    else {
        "in batches": Profile(labels=4_000, clients=4, kills=2, batch=100),
        "one by one": Profile(labels=240, clients=8, kills=2, batch=1),
    }
)


@pytest.mark.parametrize("profile", PROFILES.values(), ids=PROFILES)
def test_nothing_is_lost_doubled_or_wrong_whatever_is_killed(
    durable_url: str, tmp_path: Path, profile: Profile, record_figure
) -> None:
    ledger = Ledger()
    begun = time.monotonic()
    with Service(durable_url, tmp_path) as service:
        watcher = Watcher(service)
        run(service, ledger, profile, after_kill=watcher.look)
        problems = find_problems(service, ledger, watcher)
    seconds = time.monotonic() - begun
    record_figure(f"{ledger.describe()}, {profile.kills} kills, {seconds:.0f} s")

    assert problems == []
    assert len(ledger.labels) == profile.labels
    assert watcher.looks == profile.kills + 1
