"""Through PgBouncer Tracker works as without it, or does not start: never half."""

import threading
from pathlib import Path

import pytest

from tests.chaos.pgbouncer import pooled
from tests.chaos.postgres import Postgres
from tests.chaos.service import Service
from tracker.errors import ConfigurationError
from tracker.storage.database import open_database

CLIENTS, LABELS = 8, 25


def test_in_session_mode_with_its_defaults_nothing_differs(
    postgres: Postgres, tmp_path: Path
) -> None:
    # What it refuses at most is a client too many; its default is 100.
    with (
        pooled(postgres.create_database(), default_pool_size="80") as url,
        Service(url, tmp_path, workers=1) as service,
    ):
        made = service.ask("POST", "/detectors", {"name": "door", "question": "Is it?"})
        assert made.status == 201
        statuses: list[int] = []

        def send(client: int) -> None:
            for number in range(LABELS):
                body = {"key": f"{client}-{number}", "predicted": "YES", "label": "NO"}
                answer = service.ask("POST", "/detectors/door/queries", body)
                statuses.append(answer.status)

        threads = [threading.Thread(target=send, args=[n]) for n in range(CLIENTS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert statuses == [201] * (CLIENTS * LABELS)
        found = service.ask("POST", "/detectors/door/recompute")
        assert found.json["unstated"] == CLIENTS * LABELS
        assert service.mistakes() == []


@pytest.mark.parametrize("mode", ["transaction", "statement"])
@pytest.mark.parametrize("is_by_turns", ["0", "1"])
def test_a_mode_that_shares_sessions_is_refused_with_what_to_change(
    postgres: Postgres, mode: str, is_by_turns: str
) -> None:
    url = postgres.create_database()
    with pooled(url, pool_mode=mode, server_round_robin=is_by_turns) as through:
        for _ in range(3):
            database = open_database(through)
            with pytest.raises(ConfigurationError, match="pool_mode = session"):
                database.check_durability()
            database.close()
