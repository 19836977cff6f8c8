"""Detectors as nobody expects them, each with what is wrong or rare about it.

    python -m tests.odd FOLDER

adds all of them to the database in FOLDER, which `tracker db upgrade` has made, to be
looked at in a browser.
"""

import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import chain
from typing import Any

from tests.conftest import by
from tests.imports import import_rows
from tracker.services.detectors import NewDetector, create_detector
from tracker.services.labelling.auditing.audit_lifecycle import create_schedule
from tracker.services.labelling.auditing.audit_sets import NewAudit
from tracker.services.labelling.auditing.audits import create_audit
from tracker.storage.database import Database
from tracker.words import NO_ANSWER, UNCLEAR

_CLASSES = ["YES", "NO"]
Rows = Iterable[dict[str, Any]]


@dataclass(frozen=True)
class Odd:
    """A detector and its queries."""

    described: dict[str, Any] = field(default_factory=dict)
    rows: Rows = ()
    audit: dict[str, Any] | None = None


def _answered(correct: int, labelled: int, classes: Iterable[str] = _CLASSES) -> Rows:
    """So many labels of each class, of which so many are right."""
    names = list(classes)
    for place, name in enumerate(names):
        other = names[(place + 1) % len(names)]
        for number in range(labelled):
            said = name if number < correct else other
            yield {
                "predicted": said,
                "label": name,
                "confidence": 0.5 + number % 50 / 100,
            }


def _with(rows: Rows, **more: Any) -> Rows:
    return ({**row, **more} for row in rows)


def _over_days(rows: Rows, first: datetime, each: int) -> Iterator[dict[str, Any]]:
    """The rows in turn of class, so many asked each day."""
    mixed = sorted(enumerate(rows), key=lambda pair: (pair[0] * 7919) % 104_729)
    for number, (_, row) in enumerate(mixed):
        day = first + timedelta(days=number // each, minutes=number % each)
        yield {**row, "asked_at": day.isoformat()}


def _dropped(first: datetime) -> Rows:
    yield from _over_days(_answered(118, 120), first, 8)
    yield from _over_days(_answered(45, 80), first + timedelta(days=31), 20)


def _numbered(rows: Rows, name: str, values: int) -> Rows:
    return (
        {**row, "metadata": {name: f"{name} {number % values:02d}"}}
        for number, row in enumerate(rows)
    )


def _grouped(rows: Rows) -> Rows:
    return ({**row, "group": f"event {n // 4}"} for n, row in enumerate(rows))


def _replayed() -> Rows:
    rows = [{**row, "input": f"i{n}"} for n, row in enumerate(_answered(28, 30))]
    yield from _with(rows, version="v1")
    yield from (
        {"input": row["input"], "predicted": row["label"], "version": "v2"}
        for row in rows
    )


def odd_detectors(at: datetime) -> dict[str, Odd]:
    """Return 34 detectors by name, the newest of their queries asked before *at*."""
    day = at - timedelta(days=40)
    ten, forty = [f"digit {n}" for n in range(10)], [f"part {n:02d}" for n in range(40)]
    target = {"target": 0.9}
    waiting = [{"predicted": "YES"}] * 20
    one = {"predicted": "YES", "label": "YES"}
    marks = ["✅", "❌"]
    return {
        "no query": Odd(target),
        "no label": Odd(target, waiting),
        "one label": Odd(target, [*waiting, one]),
        "one class without a label": Odd(
            target, [{"predicted": "YES", "label": "YES"}] * 20
        ),
        "all right": Odd(target, _answered(60, 60)),
        "all wrong": Odd(target, _answered(0, 30)),
        "met": Odd({"target": 0.8}, _answered(76, 80)),
        "missed": Odd(target, _answered(50, 80)),
        "undecided": Odd(target, [*_answered(36, 40), *waiting]),
        "at the target": Odd({"target": 0.9}, _answered(45, 50)),
        "no target": Odd({}, _answered(36, 40)),
        "dropped": Odd(target, _dropped(day)),
        "below its reference": Odd({**target, "reference": 0.95}, _answered(40, 60)),
        "ten classes": Odd({**target, "classes": ten}, _answered(9, 10, ten)),
        "forty classes": Odd({**target, "classes": forty}, _answered(2, 2, forty)),
        "a name that goes on and on " * 7: Odd(target, _answered(18, 20)),
        "كاشف الباب المغلق في المستودع": Odd(
            {**target, "question": "هل الباب مغلق؟", "classes": ["نعم", "لا"]},
            _answered(18, 20, ["نعم", "لا"]),
        ),
        "🚪 door 👩‍🔬": Odd({**target, "classes": marks}, _answered(9, 10, marks)),
        "<b>bold & 'quoted'": Odd(target, _answered(9, 10)),
        "a class of 2 %": Odd(
            target,
            [{"predicted": "YES", "label": "YES"}] * 2
            + [{"predicted": "NO", "label": "NO"}] * 98,
        ),
        "a third unclear": Odd(
            target,
            chain(_answered(27, 30), [{"predicted": "YES", "label": UNCLEAR}] * 30),
        ),
        "no answers": Odd(
            target,
            chain(_answered(27, 30), [{"predicted": NO_ANSWER, "label": "YES"}] * 3),
        ),
        "unstated": Odd({**target, "label_sampling": None}, _answered(18, 20)),
        "targeted only": Odd(target, _with(_answered(18, 20), sampling="targeted")),
        "replayed": Odd({**target, "production_version": "v2"}, _replayed()),
        "groups": Odd(target, _grouped(_answered(36, 40))),
        "50 cameras": Odd(
            {**target, "slices": ["camera"]},
            _numbered(_answered(90, 100), "camera", 50),
        ),
        "pass rate": Odd(
            {
                **target,
                "classes": ["pass", "fail"],
                "measure": "overall",
                "label_of": "answer",
            },
            [{"predicted": "pass", "label": "pass"}] * 45
            + [{"predicted": "pass", "label": "fail"}] * 5,
        ),
        "precision": Odd({**target, "measure": "precision:YES"}, _answered(38, 40)),
        "recall": Odd({**target, "measure": "recall:NO"}, _answered(30, 40)),
        "99 % sure": Odd({**target, "confidence_level": 0.99}, _answered(36, 40)),
        "two versions": Odd(
            target,
            chain(
                _with(_answered(18, 20), version="v1"),
                _with(_answered(20, 20), version="v2"),
            ),
        ),
        "audits": Odd(
            target,
            [*waiting * 4, *_answered(18, 20)],
            {"name": "one", "half_width": 0.1},
        ),
        "weekly audits": Odd(
            target,
            [*waiting, *_answered(18, 20)],
            {"name": "weekly", "every": "week", "half_width": 0.1},
        ),
    }


def add_odd_detectors(database: Database, at: datetime) -> dict[str, int]:
    """Add them and return their ids by name."""
    ids = {}
    for name, odd in odd_detectors(at).items():
        described = {
            "name": name.strip(),
            "question": "Is the door closed?",
            "label_sampling": "random",
            **odd.described,
        }
        later = described.pop("production_version", None)
        rows = [{"version": "v1", **row} for row in odd.rows]
        with database.write() as session:
            new = NewDetector.model_validate(described)
            detector = create_detector(session, new, by(at=at - timedelta(days=60)))
            if rows:
                import_rows(session, detector, rows, by(at=at), digest=f"odd {name}")
            detector.production_version = later
            if odd.audit:
                asked = NewAudit.model_validate(odd.audit)
                begin = create_schedule if asked.every else create_audit
                begin(session, detector, asked, by(at=at))
            ids[name] = detector.id
    return ids


if __name__ == "__main__":
    from tracker.jobs.recompute import recompute_all
    from tracker.storage.database import open_database

    opened = open_database(f"sqlite:///{sys.argv[1]}/tracker.db")
    add_odd_detectors(opened, datetime.now(UTC))
    recompute_all(opened, worker="odd")
    opened.close()
