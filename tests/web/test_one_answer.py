"""Whatever a detector is like, all doors say the same of it."""

import html
import json
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from tests.conftest import START, Clock
from tests.odd import add_odd_detectors, odd_detectors
from tests.web.conftest import Visitor
from tests.web.reading import Page
from tracker.mcp.server import Desk
from tracker.rounding import roughly
from tracker.services.estimates.decision import Decision
from tracker.services.estimates.estimate import NOW, Estimate, get_estimate
from tracker.services.evidence.populations import LIVE
from tracker.services.telling.badges import BadgeFace, draw_face
from tracker.services.telling.deliveries import say_in_full, write_body
from tracker.services.telling.events import find_last_verdicts
from tracker.storage.database import Database
from tracker.storage.detectors import find_detector, find_version
from tracker.storage.telling import Event
from tracker.web.drawing.readings import span_decided
from tracker.words import DECIDING_METHOD, FORMATS

_COLOURS = {"met": "brightgreen", "missed": "red", "undecided": "yellow"}
_OPEN = {"no-verdict", "none", "open"}
_DASH, _PERCENT = "\N{EN DASH}", "\u202f%"


def verdicts(page: str) -> list[str]:
    """The tags on a page, in order."""
    return re.findall(r'class="verdict verdict-([a-z-]+)"', page) or ["nothing"]


def flat(text: str) -> str:
    return " ".join(text.split())  # A narrow space is one, too.


def row_of(listed: str, number: int) -> str:
    return listed.partition(f'<tr id="det_{number}"')[2].partition("</tr>")[0]


@dataclass
class Doors:
    """What is said of one detector, at each door."""

    page: Page
    label: Page
    setup: Page
    row: str
    api: dict[str, Any]
    estimate: Estimate
    face: BadgeFace
    # What a model is told, by each tool.
    models: dict[str, str]
    event: Event | None

    @property
    def headline(self) -> str:
        return flat(self.page.by_id("answer-title").text)

    @property
    def tab(self) -> int:
        """The mistakes by the tab of a page that does not show the estimate."""
        said = re.search(r">Mistakes <span>([\d,]+)</span>", self.setup.html)
        return int(said[1].replace(",", "")) if said else 0

    def wrong(self) -> int:
        return self.estimate.labels - sum(one.correct for one in self.estimate.classes)

    def disagreements(self) -> list[str]:
        """Where two of them differ."""
        found = self.estimate.decision
        if found is None:
            says = {
                "API": self.api["decision"] is None,
                "API's sentence": self.api["sentence"] in {"", self.headline},
                **self.compare_models(flat(self.api["sentence"])),
                "a claim": self.estimate.population.kind == LIVE
                or "it is right" not in self.headline.lower(),
                "page": verdicts(self.page.html)[0] in _OPEN,
                "list": verdicts(self.row)[0] in _OPEN,
                "badge": self.face.color in {"lightgrey", "blue"},
            }
            return [door for door, is_same in says.items() if not is_same]
        verdict, api = found.verdict, self.api["decision"]
        between = span_decided(found)
        tags = {verdict, "dropped"} if self.estimate.labels else {"open"}
        figures = (api["verdict"], api["low"], api["high"])
        says = {
            "API": figures == (verdict, found.low, found.high),
            "page": verdicts(self.page.html)[0] in tags,
            "list": verdicts(self.row)[0] in tags,
            "label": verdicts(self.label.html)[-1] == verdict,
            "badge": self.face.color in {_COLOURS[verdict], "lightgrey"},
            "event": self.event is None or self.event.data["verdict"] == verdict,
            "told": self.event is not None or verdict == "undecided",
            "tab": self.tab == self.wrong(),
        }
        says |= self.compare_models(self.headline)
        says |= self.compare_messages()
        says |= self.advise(found)
        if tags != {"open"} and "no label of" not in self.page.text:
            shown = flat(between)
            low, high = between.removesuffix(_PERCENT).split(_DASH)
            says |= {
                "sentence": shown in self.headline,
                "API's sentence": flat(self.api["sentence"]) == self.headline,
                "bar": f'aria-label="{low} to {high}{_PERCENT}' in self.page.html,
                "row": between in self.row,
                "panel": shown in flat(self.label.text),
            }
            if self.face.color != "lightgrey":
                says["badge's bounds"] = f"({low} to {high}%)" in self.face.message
        return [door for door, is_same in says.items() if not is_same]

    def compare_models(self, sentence: str) -> dict[str, bool]:
        """Whether a model is told this sentence, by each tool that has an estimate."""
        return {
            f"model's {tool}": sentence in flat(said)
            for tool, said in self.models.items()
        }

    def compare_messages(self) -> dict[str, bool]:
        """Whether the last event is in the words of the page, wherever it is told."""
        if self.event is None:
            return {}
        kind, data = self.event.type, self.event.data
        bodies = {
            one: write_body(one, kind, data, self.event.happened_at) for one in FORMATS
        }
        slack = html.unescape(json.loads(bodies["slack"])["text"])
        sent = json.loads(bodies["standard"])["data"]
        teams = json.loads(bodies["teams"])
        (run,) = teams["attachments"][0]["content"]["body"][0]["inlines"]
        says = {
            "webhook": flat(sent["sentence"]) == self.headline,
            "webhook's basis": sent["basis"] == self.estimate.basis,
        }
        letters = {
            "mail": say_in_full(kind, data),
            "slack": slack,
            "teams": run["text"],
        }
        says |= {name: self.headline in flat(text) for name, text in letters.items()}
        return says

    def advise(self, found: Decision) -> dict[str, bool]:
        """Whether the advice names the same labels at each door."""
        advice, sent = found.advice, self.api["decision"]["advice"]
        if advice is None:
            silent = "decide it" not in self.page.text + self.row
            return {"no advice": silent and sent is None}
        text = advice.text
        says = {
            "API's advice": sent["text"] == text,
            "model's advice": text in self.models["explain"],
        }
        if not self.estimate.labels:
            return says
        if advice.labels is None:
            says["page's advice"] = "Every class needs labels first" in self.page.text
            return says
        number = roughly(advice.labels)
        short = f"{number:,} of {advice.name}"
        if advice.name is None:
            assert advice.random_queries is not None
            short = f"{roughly(advice.random_queries):,} label"
        return says | {
            "page's advice": flat(text) in flat(self.page.text),
            "panel's advice": flat(text) in flat(self.label.text),
            "row's advice": short in flat(self.row),
        }


@pytest.mark.thorough
def test_of_each_odd_detector_all_doors_say_the_same(
    visitor: Visitor,
    database: Database,
    clock: Clock,
    recompute: Callable[[], None],
    keys: dict[str, str],
) -> None:
    assert len(odd_detectors(START)) == 34
    ids = add_odd_detectors(database, clock())
    recompute()
    listed = visitor.get("/").html
    bearer = {"Authorization": f"Bearer {keys['viewer']}"}
    desk = Desk(database, keys["viewer"], clock)
    wrong, seen = {}, set()
    for name, number in ids.items():
        path = f"/detectors/det_{number}"
        asked = f"/api/v1{path}/estimate?method=anytime"
        with database.read() as session:
            detector = find_detector(session, number)
            assert detector is not None
            estimate = get_estimate(
                session, detector, computed_at=clock(), method=DECIDING_METHOD, span=NOW
            )
            version = find_version(session, number, estimate.version or "")
            told = find_last_verdicts(
                session, [number], [version.id] if version else []
            )
            doors = Doors(
                page=visitor.get(path),
                label=visitor.get(f"{path}/label"),
                setup=visitor.get(f"{path}/setup"),
                row=row_of(listed, number),
                api=visitor.client.get(asked, headers=bearer).json,
                estimate=estimate,
                face=draw_face(session, detector, at=clock()),
                models={
                    "estimate": desk.estimate(f"det_{number}")["sentence"],
                    "explain": desk.explain(f"det_{number}")["sentence"],
                },
                event=told.get(version.id) if version else None,
            )
        seen.add(estimate.decision and estimate.decision.verdict)
        if found := doors.disagreements():
            wrong[name] = found
    assert wrong == {}
    assert seen == {None, "met", "missed", "undecided"}
