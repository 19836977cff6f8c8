"""An audit is labelled while the web server is killed between draw and answer."""

import http.client
import threading
import time
from pathlib import Path
from typing import Any

from tests.chaos.service import WEB, Service
from tests.conftest import IS_LONG

QUERIES = 240 if IS_LONG else 60
AT_ONCE = 4
KILLS = 12 if IS_LONG else 2


def truth_of(key: str) -> str:
    return "NO" if int(key.removeprefix("q")) % 4 == 0 else "YES"


class Labeler:
    """A program that labels what it is given, and asks again where none answers."""

    def __init__(self, service: Service, name: str, audit: str) -> None:
        self.service, self.audit = service, audit
        self.next = f"/audits/{audit}/next?count={AT_ONCE}&labeler={name}"
        self.kills = 0
        self.seen: dict[int, str] = {}

    def ask(self, method: str, path: str, body: Any = None) -> Any:
        while True:
            try:
                answer = self.service.ask(method, path, body)
            except (OSError, http.client.HTTPException):
                time.sleep(0.1)
                continue
            if answer.is_acknowledgement:
                return answer.json
            assert answer.status == 503, answer.content
            time.sleep(0.1)

    def work(self, kills: int) -> None:
        """Label until nothing is left; so many times nothing lives in between."""
        while items := self.ask("GET", self.next)["items"]:
            if self.kills < kills:
                self.kills += 1
                self.service.kill(WEB)
                # What was handed out comes again, before anything new.
                assert self.ask("GET", self.next)["items"][0]["id"] == items[0]["id"]
            for one in items:
                # A number stands for the same query for ever.
                assert self.seen.setdefault(one["draw"], one["id"]) == one["id"]
                body = {"label": truth_of(one["key"])}
                self.ask("POST", f"/queries/{one['id']}/labels", body)


def test_no_draw_is_lost_or_doubled_whenever_the_server_is_killed(
    durable_url: str, tmp_path: Path
) -> None:
    with Service(durable_url, tmp_path, workers=1) as service:
        first = Labeler(service, "ann", "aud_1")
        rows = [
            {"key": f"q{n}", "predicted": ("NO", "YES")[n % 3 > 0], "confidence": 0.8}
            for n in range(QUERIES)
        ]
        door = {"name": "door", "question": "Is it shut?", "classes": ["YES", "NO"]}
        first.ask("POST", "/detectors", door)
        first.ask("POST", "/detectors/door/import", {"items": rows})
        audit = {"name": "November", "half_width": 0.01}
        assert first.ask("POST", "/detectors/door/audits", audit)["id"] == "aud_1"
        second = Labeler(service, "bob", "aud_1")
        other = threading.Thread(target=second.work, args=(0,))
        other.start()
        first.work(KILLS)
        other.join()
        found = first.ask("GET", "/audits/aud_1/estimate")
        assert service.mistakes() == []

    assert first.kills == KILLS
    drawn = first.seen | second.seen
    assert sorted(drawn) == list(range(QUERIES))
    assert len(set(drawn.values())) == QUERIES
    assert not first.seen.keys() & second.seen.keys()
    assert (found["draws"], found["labels_used"]) == (QUERIES, QUERIES)
    assert (found["open_draws"], found["is_reached"]) == (0, True)
    # All is labelled, so that the intervals are points: what is true.
    truths = [(row["predicted"], truth_of(str(row["key"]))) for row in rows]
    for one in found["classes"]:
        hits = [said == truth for said, truth in truths if truth == one["class"]]
        assert one["low"] <= sum(hits) / len(hits) <= one["high"]
        assert one["high"] - one["low"] < 2e-5
